package org.tensorflow.lite;

import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.open;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.Test;
import org.tensorflow.lite.gpu.GpuDelegate;

/** Random calls from several threads: each works, or throws what the documentation says. */
public final class RandomTest {
    private static final String[] MODELS = {"square", "add", "signatures", "where", "scalar", "transpose_int8", "one_signature"};

    private static final boolean IS_DEEP = "1".equals(System.getenv("ATTACHE_DEEP"));

    private final List<ByteBuffer> shown = Collections.synchronizedList(new ArrayList<>());

    private Object value(Random random) {
        int extent = random.nextInt(5) + 1;
        switch (random.nextInt(9)) {
            case 0:
                return new float[random.nextInt(3) + 1][4];
            case 1:
                return new float[extent];
            case 2:
                return new float[1][2][2][random.nextInt(2) + 3];
            case 3:
                return FloatBuffer.allocate(extent);
            case 4:
                return ByteBuffer.allocateDirect(16);
            case 5:
                return new boolean[4];
            case 6:
                return new byte[2][3];
            case 7:
                return 1.5f;
            default:
                return null;
        }
    }

    private void call(Interpreter interpreter, Random random) {
        String[] keys = {"square", "subtract", "serving_default", null};
        String key = keys[random.nextInt(keys.length)];
        switch (random.nextInt(14)) {
            case 0:
            case 1:
            case 2:
                interpreter.run(value(random), value(random));
                break;
            case 3:
                interpreter.runForMultipleInputsOutputs(new Object[] {value(random), value(random)},
                        Collections.singletonMap(0, value(random)));
                break;
            case 4:
                interpreter.runSignature(Collections.singletonMap(random.nextBoolean() ? "x" : "to", value(random)),
                        Collections.emptyMap(), key);
                break;
            case 5:
                interpreter.resizeInput(random.nextInt(3) - 1, new int[] {random.nextInt(4) - 1, 4}, random.nextBoolean());
                break;
            case 6:
                interpreter.allocateTensors();
                break;
            case 7:
                shown.add(interpreter.getInputTensor(random.nextInt(2)).asReadOnlyBuffer());
                break;
            case 8:
                shown.add(interpreter.getOutputTensor(0).asReadOnlyBuffer());
                break;
            case 9:
                interpreter.setCancelled(random.nextInt(4) == 0);
                break;
            case 10:
                interpreter.resetVariableTensors();
                break;
            case 11:
                interpreter.getInputTensorFromSignature("to", key).shape();
                break;
            case 12:
                interpreter.getSignatureOutputs(key);
                break;
            default:
                if (random.nextInt(6) == 0) {
                    interpreter.close();
                }
        }
    }

    private Void calls(Interpreter interpreter, long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < 60; i++) {
            try {
                call(interpreter, random);
            } catch (IllegalArgumentException | IllegalStateException documented) {
                // Others end the test.
                continue;
            }
        }
        return null;
    }

    private void sequences(int count, Interpreter.Options options) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(3);
        for (int sequence = 0; sequence < count; sequence++) {
            long seed = sequence;
            try (Interpreter interpreter = open(MODELS[sequence % MODELS.length], options)) {
                List<Future<Void>> runs = new ArrayList<>();
                for (int thread = 0; thread < 3; thread++) {
                    long ofThread = 3 * seed + thread;
                    runs.add(threads.submit(() -> calls(interpreter, ofThread)));
                }
                for (Future<Void> run : runs) {
                    run.get();
                }
            }
        }
        threads.shutdown();
        // Memory that was shown stays readable.
        int sum = 0;
        for (ByteBuffer buffer : shown) {
            while (buffer.hasRemaining()) {
                sum += buffer.get() & 1;
            }
        }
        assertTrue(sum >= 0 && !shown.isEmpty());
    }

    @Test
    public void onTheCpu() throws Exception {
        sequences(IS_DEEP ? 3_000 : 200, new Interpreter.Options().setCancellable(true));
    }

    @Test
    public void onTheGpu() throws Exception {
        try (GpuDelegate delegate = new GpuDelegate()) {
            sequences(IS_DEEP ? 300 : 21, new Interpreter.Options().setCancellable(true).addDelegate(delegate));
        }
    }
}
