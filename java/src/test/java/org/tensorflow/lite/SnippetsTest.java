package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;

import java.io.File;
import java.util.HashMap;
import java.util.Map;
import org.junit.Test;
import org.tensorflow.lite.gpu.CompatibilityList;
import org.tensorflow.lite.gpu.GpuDelegate;
import org.tensorflow.lite.gpu.GpuDelegateFactory;

/** What programs do, in the way that TensorFlow Lite's guides and its post about the GPU delegate have it. */
public final class SnippetsTest {
    private final File model = Models.file("square");
    private final float[][] input = {{1, 2, 3, 4}};
    private final float[][] output = new float[1][4];

    private void check() {
        assertArrayEquals(new float[] {1, 4, 9, 16}, output[0], 0);
        output[0] = new float[4];
    }

    @Test
    public void thePost() {
        GpuDelegate delegate = new GpuDelegate();
        Interpreter.Options options = (new Interpreter.Options()).addDelegate(delegate);
        Interpreter interpreter = new Interpreter(model, options);
        for (int run = 0; run < 3; run++) {
            interpreter.run(input, output);
            check();
        }
        delegate.close();
        interpreter.close();
    }

    @Test
    public void theGpuWhereThereIsOne() {
        Interpreter.Options options = new Interpreter.Options();
        try (CompatibilityList list = new CompatibilityList()) {
            if (list.isDelegateSupportedOnThisDevice()) {
                options.addDelegate(new GpuDelegate(list.getBestOptionsForThisDevice()));
            } else {
                options.setNumThreads(4);
            }
        }
        try (Interpreter interpreter = new Interpreter(model, options)) {
            interpreter.run(input, output);
        }
        check();
    }

    @Test
    public void theInterfaceWithAFactory() {
        InterpreterApi.Options options = new InterpreterApi.Options()
                .setRuntime(InterpreterApi.Options.TfLiteRuntime.FROM_APPLICATION_ONLY)
                .addDelegateFactory(new GpuDelegateFactory());
        try (InterpreterApi interpreter = InterpreterApi.create(model, options)) {
            interpreter.run(input, output);
        }
        check();
    }

    @Test
    public void severalInputsAndOutputs() {
        try (Interpreter interpreter = new Interpreter(Models.file("add"))) {
            Object[] inputs = {new float[1][2][2][3], new float[1][2][2][3]};
            Map<Integer, Object> outputs = new HashMap<>();
            outputs.put(0, new float[1][2][2][3]);
            interpreter.runForMultipleInputsOutputs(inputs, outputs);
        }
    }

    @Test
    public void aSignature() {
        try (Interpreter interpreter = new Interpreter(Models.file("signatures"))) {
            Map<String, Object> inputs = new HashMap<>();
            inputs.put("x", new float[] {1, 2, 3, 4});
            Map<String, Object> outputs = new HashMap<>();
            outputs.put("y", output[0]);
            interpreter.runSignature(inputs, outputs, "square");
        }
        check();
    }
}
