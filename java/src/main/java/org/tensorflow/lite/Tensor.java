package org.tensorflow.lite;

import java.nio.ByteBuffer;

/**
 * An input or output of an interpreter.
 *
 * <p>A tensor belongs to its interpreter. After the interpreter was closed, every method throws
 * {@link IllegalStateException}.
 */
public interface Tensor {
    /** How integers stand for real numbers: {@code real = scale * (integer - zeroPoint)}. */
    class QuantizationParams {
        private final float scale;
        private final int zeroPoint;

        /** Makes parameters. A scale of 0 stands for none. */
        public QuantizationParams(float scale, int zeroPoint) {
            this.scale = scale;
            this.zeroPoint = zeroPoint;
        }

        /** Returns the scale; 0 if the tensor is not quantized, or has one for each channel. */
        public float getScale() {
            return scale;
        }

        /** Returns the integer that stands for 0. */
        public int getZeroPoint() {
            return zeroPoint;
        }
    }

    /** Returns the type of the elements. */
    DataType dataType();

    /** Returns the number of extents: 0 for a scalar. */
    int numDimensions();

    /** Returns the size in bytes. */
    int numBytes();

    /** Returns the number of elements. */
    int numElements();

    /** Returns the extents. They change with {@link InterpreterApi#resizeInput}, and for some outputs with a run. */
    int[] shape();

    /** Returns the extents, with -1 where the model leaves one to the program. */
    int[] shapeSignature();

    /** Returns the index among the tensors of the model's subgraph. */
    int index();

    /** Returns the name in the model. */
    String name();

    /** Returns scale and zero point. */
    QuantizationParams quantizationParams();

    /**
     * Returns the elements, in the order of bytes of the machine. As long as somebody has the buffer, each run and each
     * new input brings it up to date, until the tensor gets another size; it stays readable after the interpreter was
     * closed.
     *
     * @throws IllegalArgumentException if the tensor has no memory: an input was resized and
     *     {@link InterpreterApi#allocateTensors} has not been called, or the size of an output is known only after a run
     */
    ByteBuffer asReadOnlyBuffer();
}
