package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;
import static org.tensorflow.lite.Models.wrongState;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.Test;

/** Closing, cancelling, and several threads. */
public final class LifetimeTest {
    @Test
    public void aClosedInterpreterRefusesEverything() {
        Interpreter interpreter = open("signatures", new Interpreter.Options().setCancellable(true));
        Tensor tensor = interpreter.getInputTensor(0);
        Tensor named = interpreter.getInputTensorFromSignature("to", "subtract");
        interpreter.close();
        interpreter.close();
        Map<String, Object> values = Collections.singletonMap("x", new float[4]);
        Models.Call[] calls = {
            () -> interpreter.run(new float[4], new float[4]),
            () -> interpreter.runForMultipleInputsOutputs(null, null),
            () -> interpreter.runSignature(values, values, "square"),
            () -> interpreter.runSignature(null, null),
            interpreter::allocateTensors,
            () -> interpreter.resizeInput(0, new int[] {1}),
            () -> interpreter.resizeInput(0, null, true),
            interpreter::resetVariableTensors,
            () -> interpreter.setCancelled(true),
            interpreter::getInputTensorCount,
            interpreter::getOutputTensorCount,
            () -> interpreter.getInputIndex("x"),
            () -> interpreter.getOutputIndex("x"),
            () -> interpreter.getInputTensor(0),
            () -> interpreter.getOutputTensor(0),
            interpreter::getSignatureKeys,
            () -> interpreter.getSignatureInputs("square"),
            () -> interpreter.getSignatureOutputs(null),
            () -> interpreter.getInputTensorFromSignature("x", "square"),
            () -> interpreter.getOutputTensorFromSignature("x", "square"),
            interpreter::getLastNativeInferenceDurationNanoseconds,
            interpreter::getPlacement,
        };
        for (Models.Call call : calls) {
            wrongState("closed", call);
        }
        for (Tensor closed : new Tensor[] {tensor, named}) {
            Models.Call[] ofTensor = {
                closed::dataType, closed::numDimensions, closed::numBytes, closed::numElements, closed::shape,
                closed::shapeSignature, closed::index, closed::name, closed::quantizationParams, closed::asReadOnlyBuffer,
            };
            for (Models.Call call : ofTensor) {
                wrongState("closed", call);
            }
        }
        assertTrue(tensor.toString().contains("main_x"));
    }

    @Test
    public void runsAreCancelledUntilThatIsTakenBack() throws Exception {
        try (Interpreter interpreter = open("long", new Interpreter.Options().setCancellable(true).setNumThreads(1))) {
            float[][][][] input = new float[1][256][256][16];
            interpreter.run(input, null);
            long whole = interpreter.getLastNativeInferenceDurationNanoseconds();
            Thread other = new Thread(() -> {
                try {
                    Thread.sleep(Math.max(1, whole / 10_000_000));
                } catch (InterruptedException ignored) {
                    return;
                }
                interpreter.setCancelled(true);
            });
            long start = System.nanoTime();
            other.start();
            invalid("Client requested cancel", () -> {
                // The first runs may end before the other thread comes.
                for (int i = 0; i < 100; i++) {
                    interpreter.run(input, null);
                }
            });
            other.join();
            long elapsed = System.nanoTime() - start;
            assertTrue(elapsed + " of " + whole, elapsed < 100 * whole);
            invalid("Internal error: Failed to run on the given Interpreter: Client requested cancel during Invoke()",
                    () -> interpreter.run(input, null));
            interpreter.setCancelled(true);
            interpreter.setCancelled(false);
            interpreter.run(input, null);
        }
        try (Interpreter interpreter = open("square")) {
            wrongState("setCancellable", () -> interpreter.setCancelled(true));
            wrongState("setCancellable", () -> interpreter.setCancelled(false));
        }
    }

    @Test
    public void threadsMayShareAnInterpreterAndHaveTheirOwn() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try (Interpreter shared = open("square")) {
            List<Future<Void>> runs = new ArrayList<>();
            for (int thread = 0; thread < 4; thread++) {
                float value = thread;
                Callable<Void> run = () -> {
                    try (Interpreter own = open("square")) {
                        for (int i = 0; i < 200; i++) {
                            float[][] input = {{value, i, 0, 0}};
                            float[][] output = new float[1][4];
                            (i % 2 == 0 ? own : shared).run(input, output);
                            assertArrayEquals(new float[] {value * value, (float) i * i, 0, 0}, output[0], 0);
                            shared.getOutputTensor(0).asReadOnlyBuffer();
                        }
                    }
                    return null;
                };
                runs.add(threads.submit(run));
            }
            for (Future<Void> run : runs) {
                run.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    public void closingWaitsForTheRun() throws Exception {
        ExecutorService thread = Executors.newSingleThreadExecutor();
        for (int i = 0; i < 20; i++) {
            Interpreter interpreter = open("square", new Interpreter.Options().setCancellable(true));
            Future<Integer> runs = thread.submit(() -> {
                int count = 0;
                try {
                    while (true) {
                        interpreter.run(new float[1][4], null);
                        count++;
                    }
                } catch (IllegalStateException closed) {
                    return count;
                } catch (IllegalArgumentException cancelled) {
                    return count;
                }
            });
            Thread.sleep(i % 5);
            if (i % 2 == 0) {
                interpreter.setCancelled(true);
            }
            interpreter.close();
            assertTrue(runs.get() >= 0);
        }
        thread.shutdown();
    }
}
