package org.tensorflow.lite;

import static org.tensorflow.lite.Models.open;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.junit.Test;
import org.tensorflow.lite.gpu.GpuDelegate;

/** Memory stays the same over many runs and interpreters. */
public final class EnduranceTest {
    /** Whether the tests on the GPU take as long as those on the CPU. */
    private static final boolean IS_DEEP = "1".equals(System.getenv("ATTACHE_DEEP"));

    /** Returns the memory of the process in KiB, after Java has freed what it can. */
    private static long residentKib() throws IOException {
        System.gc();
        for (String line : Files.readAllLines(new File("/proc/self/status").toPath())) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        throw new IOException("no VmRSS");
    }

    /**
     * Calls something {@code count} times, after calls that have Java compile it and fill pools. Pools may also grow later, once:
     * what is never freed grows in each of three rounds.
     */
    private static void flat(String what, int before, int count, long allowedKib, Models.Call call) throws Exception {
        for (int i = 0; i < before; i++) {
            call.run();
        }
        long growth = 0;
        for (int round = 0; round < 3; round++) {
            long first = residentKib();
            for (int i = 0; i < count; i++) {
                call.run();
            }
            long last = residentKib();
            System.out.println(what + ": " + count + " times, from " + first + " KiB to " + last + " KiB");
            growth = last - first;
            if (growth < allowedKib) {
                return;
            }
        }
        throw new AssertionError(what + ": " + growth + " KiB more in the third of three rounds");
    }

    @Test
    public void runsTakeNoMemory() throws Exception {
        try (Interpreter interpreter = open("fixed")) {
            float[][] input = new float[2][3];
            flat("runs", 50_000, 10_000, 4 << 10, () -> {
                interpreter.run(input, new float[2][3]);
                interpreter.getOutputTensor(0).asReadOnlyBuffer();
            });
        }
    }

    @Test
    public void resizesTakeNoMemory() throws Exception {
        try (Interpreter interpreter = open("square")) {
            int[] rows = {1};
            flat("resizes", 2_000, 2_000, 4 << 10, () -> {
                rows[0] = rows[0] % 16 + 1;
                interpreter.run(new float[rows[0]][4], new float[rows[0]][4]);
            });
        }
    }

    @Test
    public void interpretersTakeNoMemory() throws Exception {
        flat("interpreters", 1_000, 1_000, 4 << 10, () -> {
            try (Interpreter interpreter = new Interpreter(Models.direct("signatures"))) {
                interpreter.getSignatureInputs("subtract");
                interpreter.run(new float[4], new float[4]);
            }
        });
    }

    @Test
    public void interpretersThatAreForgottenTakeNoMemory() throws Exception {
        int[] count = {0};
        // Each has 8 MiB for its input and output, of which Java knows nothing.
        flat("forgotten interpreters", 40, 80, 64 << 10, () -> {
            open("wide").run(Models.floats(1 << 20), null);
            if (++count[0] % 4 == 0) {
                System.gc();
                Thread.sleep(20);
            }
        });
    }

    @Test
    public void interpretersOnTheGpuTakeNoMemory() throws Exception {
        try (GpuDelegate delegate = new GpuDelegate()) {
            flat("interpreters on the GPU", 20, IS_DEEP ? 1_000 : 20, 16 << 10, () -> {
                try (Interpreter interpreter = open("square", new Interpreter.Options().addDelegate(delegate))) {
                    interpreter.run(new float[1][4], new float[1][4]);
                }
            });
        }
    }

    @Test
    public void runsOnTheGpuTakeNoMemory() throws Exception {
        try (GpuDelegate delegate = new GpuDelegate();
                Interpreter interpreter = open("square", new Interpreter.Options().addDelegate(delegate))) {
            flat("runs on the GPU", 500, IS_DEEP ? 10_000 : 500, 8 << 10, () -> interpreter.run(new float[1][4], new float[1][4]));
        }
    }

    @Test
    public void failuresTakeNoMemory() throws Exception {
        flat("failures", 1_000, 1_000, 4 << 10, () -> {
            Models.invalid("cut", () -> open("cut"));
            Models.wrongState("Double", () -> open("custom"));
        });
    }
}
