package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.open;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.Test;

/** What tensors say of themselves. */
public final class TensorTest {
    @Test
    public void tensorsDescribeThemselves() {
        try (Interpreter interpreter = open("square")) {
            Tensor input = interpreter.getInputTensor(0);
            assertEquals(DataType.FLOAT32, input.dataType());
            assertEquals("x", input.name());
            assertEquals(0, input.index());
            assertEquals(2, input.numDimensions());
            assertEquals(4, input.numElements());
            assertEquals(16, input.numBytes());
            assertArrayEquals(new int[] {1, 4}, input.shape());
            assertArrayEquals(new int[] {-1, 4}, input.shapeSignature());
            assertEquals(0, input.quantizationParams().getScale(), 0);
            assertEquals(0, input.quantizationParams().getZeroPoint());
            Tensor output = interpreter.getOutputTensor(0);
            assertEquals("y", output.name());
            assertEquals(1, output.index());
            interpreter.resizeInput(0, new int[] {5, 4});
            assertEquals(80, input.numBytes());
            assertEquals(20, input.numElements());
            assertArrayEquals(new int[] {-1, 4}, input.shapeSignature());
        }
        try (Interpreter interpreter = open("fixed")) {
            assertArrayEquals(new int[] {2, 3}, interpreter.getInputTensor(0).shapeSignature());
        }
        try (Interpreter interpreter = open("scalar")) {
            Tensor input = interpreter.getInputTensor(0);
            assertEquals(0, input.numDimensions());
            assertEquals(1, input.numElements());
            assertEquals(4, input.numBytes());
            assertArrayEquals(new int[0], input.shape());
        }
    }

    @Test
    public void quantizationIsThatOfTheModel() {
        try (Interpreter interpreter = open("quantized")) {
            Tensor input = interpreter.getInputTensor(0);
            assertEquals(DataType.UINT8, input.dataType());
            assertEquals(0.5f, input.quantizationParams().getScale(), 0);
            assertEquals(128, input.quantizationParams().getZeroPoint());
        }
        Tensor.QuantizationParams own = new Tensor.QuantizationParams(0.25f, -3);
        assertEquals(0.25f, own.getScale(), 0);
        assertEquals(-3, own.getZeroPoint());
    }

    @Test
    public void everyTypeIsKnown() {
        for (DataType type : DataType.values()) {
            String name = type.name().toLowerCase(java.util.Locale.ROOT);
            if (type != DataType.STRING) {
                try (Interpreter interpreter = open("transpose_" + name)) {
                    assertEquals(type, interpreter.getInputTensor(0).dataType());
                    int size = type == DataType.BOOL ? 1 : type.byteSize();
                    assertEquals(6 * size, interpreter.getOutputTensor(0).numBytes());
                }
            }
        }
        assertEquals(-1, DataType.STRING.byteSize());
        assertEquals(-1, DataType.BOOL.byteSize());
    }

    @Test
    public void readersSeeEachRun() {
        Interpreter interpreter = open("square");
        Tensor input = interpreter.getInputTensor(0);
        Tensor output = interpreter.getOutputTensor(0);
        ByteBuffer seenInput = input.asReadOnlyBuffer();
        ByteBuffer seen = output.asReadOnlyBuffer();
        assertTrue(seen.isReadOnly());
        assertEquals(ByteOrder.nativeOrder(), seen.order());
        assertEquals(0, seen.position());
        assertEquals(16, seen.limit());
        for (int value = 1; value < 4; value++) {
            interpreter.run(new float[][] {{value, 0, 0, 0}}, null);
            assertEquals(value, seenInput.getFloat(0), 0);
            assertEquals(value * value, seen.getFloat(0), 0);
            assertEquals(value * value, output.asReadOnlyBuffer().getFloat(), 0);
        }
        interpreter.run(new float[2][4], null);
        assertEquals("a buffer of the old size keeps its content", 9, seen.getFloat(0), 0);
        assertEquals(32, output.asReadOnlyBuffer().remaining());
        interpreter.close();
        assertEquals("readable after closing", 9, seen.getFloat(0), 0);
    }

    @Test
    public void aTensorKeepsItsInterpreter() throws InterruptedException {
        Tensor output = open("square").getOutputTensor(0);
        for (int i = 0; i < 5; i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertEquals(16, output.numBytes());
        assertEquals(16, output.asReadOnlyBuffer().remaining());
    }
}
