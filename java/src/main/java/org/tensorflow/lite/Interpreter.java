package org.tensorflow.lite;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.tensorflow.lite.acceleration.ValidatedAccelerationConfig;
import org.tensorflow.lite.attache.Natives;
import org.tensorflow.lite.attache.Reaper;

/**
 * Runs a TensorFlow Lite model. {@link InterpreterApi} says what values, threads and closing mean.
 *
 * <pre>{@code
 * try (Interpreter interpreter = new Interpreter(new File("model.tflite"))) {
 *     interpreter.run(input, output);
 * }
 * }</pre>
 */
public final class Interpreter implements InterpreterApi {
    private final Session session;
    /** Makes it unnecessary that the session is closed once this object is not reached. */
    private final Runnable unwatch;
    /** The tensors by their addresses, as far as they were asked for. */
    private final Map<Long, TensorImpl> tensors = new LinkedHashMap<>();
    /** Negative if no run has succeeded last. */
    private long lastDuration = -1;

    /** Options of an {@link Interpreter}. */
    public static class Options extends InterpreterApi.Options {
        /** Makes default options. */
        public Options() {}

        /** Copies options. */
        public Options(InterpreterApi.Options options) {
            super(options);
        }

        @Override
        public Options setNumThreads(int numThreads) {
            super.setNumThreads(numThreads);
            return this;
        }

        /**
         * Asks for NNAPI. Without effect.
         *
         * @deprecated NNAPI is deprecated
         */
        @Deprecated
        @Override
        public Options setUseNNAPI(boolean useNNAPI) {
            super.setUseNNAPI(useNNAPI);
            return this;
        }

        /**
         * Lets the CPU compute in 16 bits. Without effect: options of delegates decide their precision.
         *
         * @deprecated use the options of a delegate
         */
        @Deprecated
        public Options setAllowFp16PrecisionForFp32(boolean allow) {
            return this;
        }

        /** Lets outputs stay in buffers of delegates. Without effect: outputs are in memory after a run. */
        public Options setAllowBufferHandleOutput(boolean allow) {
            return this;
        }

        @Override
        public Options setCancellable(boolean allow) {
            super.setCancellable(allow);
            return this;
        }

        @Override
        public Options addDelegate(Delegate delegate) {
            super.addDelegate(delegate);
            return this;
        }

        @Override
        public Options addDelegateFactory(DelegateFactory delegateFactory) {
            super.addDelegateFactory(delegateFactory);
            return this;
        }

        @Override
        public Options setRuntime(TfLiteRuntime runtime) {
            super.setRuntime(runtime);
            return this;
        }

        @Override
        public Options setAccelerationConfig(ValidatedAccelerationConfig config) {
            super.setAccelerationConfig(config);
            return this;
        }

        @Override
        public Options setUseXNNPACK(boolean useXNNPACK) {
            super.setUseXNNPACK(useXNNPACK);
            return this;
        }
    }

    /** Makes an interpreter of a model file, with default options. */
    public Interpreter(File modelFile) {
        this(modelFile, null);
    }

    /** Makes an interpreter of a model file, as {@link InterpreterApi#create(File, InterpreterApi.Options)} does. */
    public Interpreter(File modelFile, Options options) {
        this(pathOf(modelFile), null, copyOf(options));
    }

    /** Makes an interpreter of a model in memory, with default options. */
    public Interpreter(ByteBuffer byteBuffer) {
        this(byteBuffer, null);
    }

    /** Makes an interpreter of a model in memory, as {@link InterpreterApi#create(ByteBuffer, InterpreterApi.Options)} does. */
    public Interpreter(ByteBuffer byteBuffer, Options options) {
        this(null, kept(byteBuffer), copyOf(options));
    }

    private Interpreter(String path, ByteBuffer bytes, Options options) {
        session = new Session(path, bytes, options);
        unwatch = Reaper.watch(this, session::close);
    }

    private static String pathOf(File modelFile) {
        if (modelFile == null) {
            throw new IllegalArgumentException("The model file is null.");
        }
        String path = modelFile.getAbsolutePath();
        if (path.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("The name of the model file has a zero character.");
        }
        return path;
    }

    /** Returns a buffer with a model that nobody changes. */
    private static ByteBuffer kept(ByteBuffer buffer) {
        if (buffer == null || !buffer.isDirect()) {
            throw new IllegalArgumentException("Model ByteBuffer should be either a MappedByteBuffer of the model file, or a"
                    + " direct ByteBuffer using ByteOrder.nativeOrder(). This one is "
                    + (buffer == null ? "null." : "on Java's heap."));
        }
        if (buffer.isReadOnly()) {
            return buffer;
        }
        ByteBuffer source = buffer.duplicate();
        source.clear();
        return ByteBuffer.allocateDirect(source.capacity()).order(ByteOrder.nativeOrder()).put(source);
    }

    /** Returns options with what an acceleration configuration adds. */
    private static Options copyOf(InterpreterApi.Options options) {
        Options copy = options == null ? new Options() : new Options(options);
        if (copy.accelerationConfig != null) {
            copy.accelerationConfig.apply(copy);
        }
        return copy;
    }

    /** Checks that options ask for a runtime that there is. */
    static Options fromApplication(InterpreterApi.Options options) {
        if (options == null) {
            return null;
        }
        if (options.getRuntime() == InterpreterApi.Options.TfLiteRuntime.FROM_SYSTEM_ONLY) {
            throw new IllegalStateException(TensorFlowLite.NO_SYSTEM_RUNTIME);
        }
        return new Options(options);
    }

    @Override
    public void run(Object input, Object output) {
        Map<Integer, Object> outputs = new TreeMap<>();
        outputs.put(0, output);
        runForMultipleInputsOutputs(new Object[] {input}, outputs);
    }

    @Override
    public void runForMultipleInputsOutputs(Object[] inputs, Map<Integer, Object> outputs) {
        synchronized (session) {
            session.handle();
            lastDuration = -1;
            if (inputs == null || inputs.length == 0) {
                throw new IllegalArgumentException("Input error: Inputs should not be null or empty.");
            }
            if (outputs == null) {
                throw new IllegalArgumentException("Input error: Outputs should not be null.");
            }
            Map<TensorImpl, Object> values = new LinkedHashMap<>();
            for (int i = 0; i < inputs.length; i++) {
                values.put(input(i), inputs[i]);
            }
            Map<TensorImpl, Object> results = new LinkedHashMap<>();
            for (Map.Entry<Integer, Object> output : outputs.entrySet()) {
                if (output.getKey() == null) {
                    throw new IllegalArgumentException("The index of an output is null.");
                }
                results.put(output(output.getKey()), output.getValue());
            }
            run(0, values, results);
        }
    }

    @Override
    public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs) {
        runSignature(inputs, outputs, null);
    }

    @Override
    public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signatureKey) {
        synchronized (session) {
            session.handle();
            lastDuration = -1;
            String key = key(signatureKey);
            if (inputs == null || inputs.isEmpty()) {
                throw new IllegalArgumentException("Input error: Inputs should not be null or empty.");
            }
            if (outputs == null) {
                throw new IllegalArgumentException("Input error: Outputs should not be null.");
            }
            Map<TensorImpl, Object> values = new LinkedHashMap<>();
            for (Map.Entry<String, Object> input : inputs.entrySet()) {
                values.put(named(key, input.getKey(), true), input.getValue());
            }
            Map<TensorImpl, Object> results = new LinkedHashMap<>();
            for (Map.Entry<String, Object> output : outputs.entrySet()) {
                results.put(named(key, output.getKey(), false), output.getValue());
            }
            run(session.runner(key), values, results);
        }
    }

    /** Runs a signature, or the main subgraph for the runner 0. */
    private void run(long runner, Map<TensorImpl, Object> inputs, Map<TensorImpl, Object> outputs) {
        for (Map.Entry<TensorImpl, Object> output : outputs.entrySet()) {
            if (output.getValue() != null) {
                output.getKey().check(output.getValue(), "output");
            }
        }
        allocateFor(runner, inputs);
        for (Map.Entry<TensorImpl, Object> input : inputs.entrySet()) {
            input.getKey().set(input.getValue());
        }
        long duration = session.invoke(runner);
        refresh(tensors.values());
        for (Map.Entry<TensorImpl, Object> output : outputs.entrySet()) {
            if (output.getValue() != null) {
                output.getKey().get(output.getValue());
            }
        }
        lastDuration = duration;
    }

    /** Resizes inputs to the arrays that they get, and allocates tensors. On an error, inputs have their shapes from before. */
    private void allocateFor(long runner, Map<TensorImpl, Object> inputs) {
        Map<TensorImpl, int[]> shapes = new LinkedHashMap<>();
        for (Map.Entry<TensorImpl, Object> input : inputs.entrySet()) {
            int[] shape = input.getKey().newShapeFor(input.getValue());
            if (shape != null) {
                shapes.put(input.getKey(), shape);
            }
        }
        if (shapes.isEmpty()) {
            session.allocate(runner);
            return;
        }
        Map<TensorImpl, int[]> before = new LinkedHashMap<>();
        try {
            for (Map.Entry<TensorImpl, int[]> shape : shapes.entrySet()) {
                before.put(shape.getKey(), shape.getKey().shape());
                shape.getKey().resize(shape.getValue());
            }
            session.allocate(runner);
        } catch (IllegalStateException | IllegalArgumentException error) {
            for (Map.Entry<TensorImpl, int[]> shape : before.entrySet()) {
                shape.getKey().resize(shape.getValue());
            }
            throw new IllegalArgumentException("The model does not take inputs of these shapes. " + error.getMessage(), error);
        }
    }

    private static void refresh(Collection<TensorImpl> tensors) {
        for (TensorImpl tensor : tensors) {
            tensor.refresh();
        }
    }

    @Override
    public void allocateTensors() {
        synchronized (session) {
            session.handle();
            session.allocate(0);
        }
    }

    @Override
    public void resizeInput(int idx, int[] dims) {
        resizeInput(idx, dims, false);
    }

    @Override
    public void resizeInput(int idx, int[] dims, boolean strict) {
        synchronized (session) {
            int count = Natives.inputCount(session.handle());
            if (idx < 0 || idx >= count) {
                throw new IllegalArgumentException(
                        "Input error: Can not resize " + idx + "-th input for a model having " + count + " inputs.");
            }
            TensorImpl input = input(idx);
            if (dims == null) {
                throw new IllegalArgumentException("The extents of an input are null.");
            }
            if (strict) {
                input.checkOpen(dims);
            }
            if (!Arrays.equals(dims, input.shape())) {
                input.resize(dims);
            }
        }
    }

    /**
     * Sets the variable tensors of the model to their first values. Resource variables, such as trained weights, keep theirs.
     *
     * @throws IllegalStateException if the interpreter was closed
     */
    public void resetVariableTensors() {
        synchronized (session) {
            if (!Natives.resetVariables(session.handle())) {
                throw new IllegalStateException("The variables cannot be reset: " + Natives.message());
            }
        }
    }

    /**
     * Cancels the run that is under way, which throws {@link IllegalArgumentException}, and all later ones, until this is
     * called with false. From any thread.
     *
     * @throws IllegalStateException if the options do not allow it ({@link Options#setCancellable}), or the interpreter was
     *     closed
     */
    public void setCancelled(boolean cancelled) {
        session.setCancelled(cancelled);
    }

    @Override
    public int getInputTensorCount() {
        synchronized (session) {
            return Natives.inputCount(session.handle());
        }
    }

    @Override
    public int getInputIndex(String opName) {
        synchronized (session) {
            return find(opName, true);
        }
    }

    @Override
    public Tensor getInputTensor(int inputIndex) {
        synchronized (session) {
            return input(inputIndex);
        }
    }

    @Override
    public int getOutputTensorCount() {
        synchronized (session) {
            return Natives.outputCount(session.handle());
        }
    }

    @Override
    public int getOutputIndex(String opName) {
        synchronized (session) {
            return find(opName, false);
        }
    }

    @Override
    public Tensor getOutputTensor(int outputIndex) {
        synchronized (session) {
            return output(outputIndex);
        }
    }

    @Override
    public Tensor getInputTensorFromSignature(String inputName, String signatureKey) {
        synchronized (session) {
            return named(key(signatureKey), inputName, true);
        }
    }

    @Override
    public Tensor getOutputTensorFromSignature(String outputName, String signatureKey) {
        synchronized (session) {
            return named(key(signatureKey), outputName, false);
        }
    }

    @Override
    public String[] getSignatureKeys() {
        synchronized (session) {
            session.handle();
            return session.signatureKeys().toArray(new String[0]);
        }
    }

    @Override
    public String[] getSignatureInputs(String signatureKey) {
        synchronized (session) {
            return names(key(signatureKey), true);
        }
    }

    @Override
    public String[] getSignatureOutputs(String signatureKey) {
        synchronized (session) {
            return names(key(signatureKey), false);
        }
    }

    @Override
    public Long getLastNativeInferenceDurationNanoseconds() {
        synchronized (session) {
            session.handle();
            return lastDuration < 0 ? null : (Long) lastDuration;
        }
    }

    /**
     * Returns where each operator runs, and why, one a line, in the words of the command {@code attache inspect}. TensorFlow
     * Lite has no such method.
     *
     * @throws IllegalStateException if tensors are not allocated, or the interpreter was closed
     */
    public String getPlacement() {
        synchronized (session) {
            byte[] placement = Natives.placement(session.handle());
            if (placement == null) {
                throw new IllegalStateException("The placement is not known: " + Natives.message());
            }
            return Natives.text(placement);
        }
    }

    @Override
    public void close() {
        unwatch.run();
        session.close();
    }

    private TensorImpl input(int index) {
        if (index < 0 || index >= Natives.inputCount(session.handle())) {
            throw new IllegalArgumentException("Invalid input Tensor index: " + index + "; the model has "
                    + Natives.inputCount(session.handle()) + " inputs.");
        }
        return tensor(Natives.input(session.handle(), index));
    }

    private TensorImpl output(int index) {
        if (index < 0 || index >= Natives.outputCount(session.handle())) {
            throw new IllegalArgumentException("Invalid output Tensor index: " + index + "; the model has "
                    + Natives.outputCount(session.handle()) + " outputs.");
        }
        return tensor(Natives.output(session.handle(), index));
    }

    private TensorImpl tensor(long handle) {
        TensorImpl tensor = tensors.get(handle);
        if (tensor == null) {
            tensor = new TensorImpl(this, session, handle);
            tensors.put(handle, tensor);
        }
        return tensor;
    }

    /** Returns the position of the first input or output with a name. */
    private int find(String name, boolean isInput) {
        long handle = session.handle();
        int count = isInput ? Natives.inputCount(handle) : Natives.outputCount(handle);
        Map<String, Integer> indexes = new LinkedHashMap<>();
        for (int i = 0; i < count; i++) {
            indexes.putIfAbsent(Natives.text(Natives.name(isInput ? Natives.input(handle, i) : Natives.output(handle, i))), i);
        }
        Integer index = indexes.get(name);
        if (index == null) {
            String kind = isInput ? "input" : "output";
            throw new IllegalArgumentException("'" + name + "' is not a valid name for any " + kind + ". Names of " + kind
                    + "s and their indexes are " + indexes);
        }
        return index;
    }

    /** Returns the key of a signature that exists; the only one for null. */
    private String key(String key) {
        session.handle();
        Collection<String> keys = session.signatureKeys();
        if (key == null && keys.size() == 1) {
            return keys.iterator().next();
        }
        if (key == null || !keys.contains(key)) {
            String what = key == null
                    ? "SignatureDef signatureKey should not be null. null is only allowed if the model has a single Signature"
                    : "Signature \"" + key + "\" not found";
            throw new IllegalArgumentException("Input error: " + what + ". Available Signatures: " + keys + ".");
        }
        return key;
    }

    private String[] names(String key, boolean isInput) {
        long runner = session.runner(key);
        String[] names = new String[isInput ? Natives.runnerInputCount(runner) : Natives.runnerOutputCount(runner)];
        for (int i = 0; i < names.length; i++) {
            names[i] = Natives.text(isInput ? Natives.runnerInputName(runner, i) : Natives.runnerOutputName(runner, i));
        }
        return names;
    }

    private TensorImpl named(String key, String name, boolean isInput) {
        long runner = session.runner(key);
        String kind = isInput ? "input" : "output";
        if (name == null) {
            throw new IllegalArgumentException("Invalid " + kind + " tensor name provided (null)");
        }
        byte[] bytes = Natives.bytes(name);
        long handle = isInput ? Natives.runnerInput(runner, bytes) : Natives.runnerOutput(runner, bytes);
        if (handle == 0) {
            throw new IllegalArgumentException("Input error: " + kind + " " + name + " not found. The signature \"" + key
                    + "\" has " + Arrays.toString(names(key, isInput)) + ".");
        }
        return tensor(handle);
    }
}
