package org.tensorflow.lite;

import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.tensorflow.lite.acceleration.ValidatedAccelerationConfig;

/**
 * Runs a TensorFlow Lite model.
 *
 * <pre>{@code
 * try (InterpreterApi interpreter = InterpreterApi.create(new File("model.tflite"), new InterpreterApi.Options())) {
 *     interpreter.run(input, output);
 * }
 * }</pre>
 *
 * <h2>Values</h2>
 *
 * <p>Inputs and outputs are arrays of {@code float}, {@code int}, {@code short}, {@code byte}, {@code long} or
 * {@code boolean} with as many dimensions as the tensor; buffers ({@link java.nio.ByteBuffer}, {@link java.nio.FloatBuffer}
 * and those of the other types); and, as inputs of scalars, boxed values. An array of another shape than an input resizes
 * the input. A buffer has the bytes of a tensor and does not resize it.
 *
 * <p>A buffer as input is read from its first to its last element, whatever its position and limit; its capacity is the
 * size of the tensor. A buffer as output is written at its position, which is then behind what was written. The bytes of a
 * {@code ByteBuffer} are those of the tensor, in the order of the machine, whatever the buffer's order is: set
 * {@code order(ByteOrder.nativeOrder())} before writing numbers to it.
 *
 * <h2>Threads and closing</h2>
 *
 * <p>One thread at a time uses an interpreter; others wait. {@link #close} waits for a run. Closed or no longer reachable, an
 * interpreter frees its native memory. Models, delegates and interpreters are closed in any order. After {@link #close},
 * methods throw {@link IllegalStateException}.
 */
public interface InterpreterApi extends AutoCloseable {
    /** Options of an interpreter. They are copied when an interpreter is made. */
    class Options {
        /** Where the runtime comes from. */
        public enum TfLiteRuntime {
            /** The library that the program brings: this one. */
            FROM_APPLICATION_ONLY,
            /** Google Play services. There is none here: making an interpreter is an error. */
            FROM_SYSTEM_ONLY,
            /** Google Play services if there, else this library. */
            PREFER_SYSTEM_OVER_APPLICATION
        }

        TfLiteRuntime runtime = TfLiteRuntime.FROM_APPLICATION_ONLY;
        int numThreads = -1;
        boolean useNnapi;
        boolean isCancellable;
        boolean useXnnpack = true;
        ValidatedAccelerationConfig accelerationConfig;
        final List<Delegate> delegates = new ArrayList<>();
        final List<DelegateFactory> delegateFactories = new ArrayList<>();

        /** Makes default options: the library chooses the number of threads, and there is no delegate. */
        public Options() {}

        /** Copies options. */
        public Options(Options other) {
            if (other == null) {
                throw new IllegalArgumentException("The options are null.");
            }
            runtime = other.runtime;
            numThreads = other.numThreads;
            useNnapi = other.useNnapi;
            isCancellable = other.isCancellable;
            useXnnpack = other.useXnnpack;
            accelerationConfig = other.accelerationConfig;
            delegates.addAll(other.delegates);
            delegateFactories.addAll(other.delegateFactories);
        }

        /** Sets the number of threads on the CPU: -1 for the library's choice; 0 stands for 1. */
        public Options setNumThreads(int numThreads) {
            this.numThreads = numThreads;
            return this;
        }

        /** Returns the number of threads on the CPU; -1 for the library's choice. */
        public int getNumThreads() {
            return numThreads;
        }

        /**
         * Asks for NNAPI, which is part of Android. Without effect here: the CPU is used.
         *
         * @deprecated NNAPI is deprecated
         */
        @Deprecated
        public Options setUseNNAPI(boolean useNNAPI) {
            useNnapi = useNNAPI;
            return this;
        }

        /**
         * Returns whether NNAPI was asked for.
         *
         * @deprecated NNAPI is deprecated
         */
        @Deprecated
        public boolean getUseNNAPI() {
            return useNnapi;
        }

        /** Sets whether runs can be cancelled by {@link Interpreter#setCancelled}. */
        public Options setCancellable(boolean allow) {
            isCancellable = allow;
            return this;
        }

        /** Returns whether runs can be cancelled. */
        public boolean isCancellable() {
            return isCancellable;
        }

        /** Adds a delegate, which the program closes. Delegates are asked in the order in which they were added. */
        public Options addDelegate(Delegate delegate) {
            if (delegate == null) {
                throw new IllegalArgumentException("The delegate is null.");
            }
            delegates.add(delegate);
            return this;
        }

        /** Returns the delegates; the list cannot be changed. */
        public List<Delegate> getDelegates() {
            return Collections.unmodifiableList(delegates);
        }

        /** Adds a factory. Each interpreter makes a delegate by it, asks it after the others, and closes it. */
        public Options addDelegateFactory(DelegateFactory delegateFactory) {
            if (delegateFactory == null) {
                throw new IllegalArgumentException("The delegate factory is null.");
            }
            delegateFactories.add(delegateFactory);
            return this;
        }

        /** Returns the factories; the list cannot be changed. */
        public List<DelegateFactory> getDelegateFactories() {
            return Collections.unmodifiableList(delegateFactories);
        }

        /** Sets where {@link InterpreterApi#create} takes the runtime from. */
        public Options setRuntime(TfLiteRuntime runtime) {
            if (runtime == null) {
                throw new IllegalArgumentException("The runtime is null.");
            }
            this.runtime = runtime;
            return this;
        }

        /** Returns where the runtime comes from. */
        public TfLiteRuntime getRuntime() {
            return runtime;
        }

        /** Sets options that are applied, over these, when an interpreter is made; null for none. */
        public Options setAccelerationConfig(ValidatedAccelerationConfig config) {
            accelerationConfig = config;
            return this;
        }

        /** Returns the options that are applied when an interpreter is made; null for none. */
        public ValidatedAccelerationConfig getAccelerationConfig() {
            return accelerationConfig;
        }

        /** Asks for XNNPACK, in whose place Attaché's own CPU computes. Without effect. */
        public Options setUseXNNPACK(boolean useXNNPACK) {
            useXnnpack = useXNNPACK;
            return this;
        }

        /** Returns what {@link #setUseXNNPACK} was called with; by default true. */
        public boolean getUseXNNPACK() {
            return useXnnpack;
        }
    }

    /**
     * Makes an interpreter of a model file. The file must not be changed while there are interpreters of it.
     *
     * @param options null for default options
     * @throws IllegalArgumentException if the file is no valid model, has an operator that is not supported, or a delegate
     *     cannot be applied
     * @throws IllegalStateException if there is no runtime of the kind that the options ask for, or tensors cannot be
     *     allocated
     */
    static InterpreterApi create(File modelFile, Options options) {
        return new Interpreter(modelFile, Interpreter.fromApplication(options));
    }

    /**
     * Makes an interpreter of a model in memory: a mapped file, or a direct buffer, from its first to its last byte. A buffer
     * that can be written to is copied. A read-only one is not: it must not be changed through others while there are
     * interpreters of it.
     *
     * @param options null for default options
     * @throws IllegalArgumentException if the buffer is null or not direct, and as
     *     {@link #create(File, InterpreterApi.Options)}
     * @throws IllegalStateException as {@link #create(File, InterpreterApi.Options)}
     */
    static InterpreterApi create(ByteBuffer byteBuffer, Options options) {
        return new Interpreter(byteBuffer, Interpreter.fromApplication(options));
    }

    /**
     * Runs a model of one input and one output.
     *
     * @param input the value of the first input
     * @param output takes the first output; null for none, to be read with {@link Tensor#asReadOnlyBuffer}
     * @throws IllegalArgumentException if a value does not fit its tensor, the run fails, or it was cancelled
     */
    void run(Object input, Object output);

    /**
     * Runs a model.
     *
     * @param inputs the values of the inputs, in their order. Inputs beyond the last keep their values
     * @param outputs by the indices of outputs what takes them. Outputs that are not there, or null, are not copied
     * @throws IllegalArgumentException as {@link #run}, and if there is no input, or no output of an index
     */
    void runForMultipleInputsOutputs(Object[] inputs, Map<Integer, Object> outputs);

    /**
     * Runs a signature.
     *
     * @param inputs the values by the names of inputs
     * @param outputs by the names of outputs what takes them
     * @param signatureKey null stands for the only signature of a model
     * @throws IllegalArgumentException as {@link #run}, and if there is no such signature, input or output
     */
    void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signatureKey);

    /** Runs the only signature of a model, as {@link #runSignature(Map, Map, String)} does. */
    void runSignature(Map<String, Object> inputs, Map<String, Object> outputs);

    /**
     * Allocates the tensors for the shapes of the inputs, unless they are. Runs do it where it is needed.
     *
     * @throws IllegalStateException if the model cannot be prepared for these shapes
     */
    void allocateTensors();

    /**
     * Sets the extents of an input. An input of the model's main subgraph has its index, from 0 on.
     *
     * @throws IllegalArgumentException if there is no such input, or the extents are null or negative
     */
    void resizeInput(int idx, int[] dims);

    /**
     * Sets the extents of an input; with {@code strict} only those that the model leaves to the program.
     *
     * @throws IllegalArgumentException as {@link #resizeInput(int, int[])}, and if {@code strict} is true and another extent
     *     would change
     */
    void resizeInput(int idx, int[] dims, boolean strict);

    /** Returns the number of inputs. */
    int getInputTensorCount();

    /**
     * Returns the index of the input whose tensor has a name.
     *
     * @throws IllegalArgumentException if there is none
     */
    int getInputIndex(String opName);

    /**
     * Returns an input.
     *
     * @throws IllegalArgumentException if there is none, or its type has no counterpart in {@link DataType}
     */
    Tensor getInputTensor(int inputIndex);

    /** Returns the number of outputs. */
    int getOutputTensorCount();

    /**
     * Returns the index of the output whose tensor has a name.
     *
     * @throws IllegalArgumentException if there is none
     */
    int getOutputIndex(String opName);

    /**
     * Returns an output. Its shape may follow from the last run.
     *
     * @throws IllegalArgumentException if there is none, or its type has no counterpart in {@link DataType}
     */
    Tensor getOutputTensor(int outputIndex);

    /**
     * Returns an input of a signature.
     *
     * @throws IllegalArgumentException if there is no such signature or input
     */
    Tensor getInputTensorFromSignature(String inputName, String signatureKey);

    /**
     * Returns an output of a signature.
     *
     * @throws IllegalArgumentException if there is no such signature or output
     */
    Tensor getOutputTensorFromSignature(String outputName, String signatureKey);

    /** Returns the keys of the signatures. */
    String[] getSignatureKeys();

    /**
     * Returns the names of a signature's inputs, sorted.
     *
     * @throws IllegalArgumentException if there is no such signature
     */
    String[] getSignatureInputs(String signatureKey);

    /**
     * Returns the names of a signature's outputs, sorted.
     *
     * @throws IllegalArgumentException if there is no such signature
     */
    String[] getSignatureOutputs(String signatureKey);

    /** Returns how long the last run took, without copying inputs and outputs of Java's; null if no run has succeeded last. */
    Long getLastNativeInferenceDurationNanoseconds();

    /** Frees the native memory. Does nothing if it was done. */
    @Override
    void close();
}
