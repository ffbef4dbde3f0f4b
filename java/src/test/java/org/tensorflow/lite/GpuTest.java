package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;
import static org.tensorflow.lite.Models.wrongState;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.Test;
import org.tensorflow.lite.gpu.CompatibilityList;
import org.tensorflow.lite.gpu.GpuDelegate;
import org.tensorflow.lite.gpu.GpuDelegateFactory;
import org.tensorflow.lite.gpu.GpuDelegateFactory.Options.GpuBackend;

/** The GPU delegate, on a software adapter where there is no other. */
public final class GpuTest {
    private static void squares(InterpreterApi interpreter) {
        float[][] output = new float[1][4];
        interpreter.run(new float[][] {{1, 2, 3, 4}}, output);
        assertArrayEquals(new float[] {1, 4, 9, 16}, output[0], 0);
    }

    @Test
    public void modelsRunOnTheGpu() {
        try (GpuDelegate delegate = new GpuDelegate();
                Interpreter interpreter = open("square", new Interpreter.Options().addDelegate(delegate))) {
            assertTrue(delegate.getNativeHandle() != 0);
            squares(interpreter);
            assertTrue(interpreter.getPlacement(), interpreter.getPlacement().contains("1 operation will run on the GPU"));
            float[][] output = new float[3][4];
            interpreter.run(new float[][] {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, output);
            assertArrayEquals(new float[] {81, 100, 121, 144}, output[2], 0);
            squares(interpreter);
        }
    }

    @Test
    public void oneDelegateServesSeveralInterpretersAndClosesInAnyOrder() {
        GpuDelegate delegate = new GpuDelegate();
        Interpreter first = open("square", new Interpreter.Options().addDelegate(delegate));
        Interpreter second = open("square", new Interpreter.Options().addDelegate(delegate));
        squares(first);
        first.close();
        squares(second);
        delegate.close();
        delegate.close();
        squares(second);
        wrongState("closed", delegate::getNativeHandle);
        wrongState("closed", () -> open("square", new Interpreter.Options().addDelegate(delegate)));
        second.close();
    }

    @Test
    public void signaturesRunOnTheGpu() {
        try (GpuDelegate delegate = new GpuDelegate();
                Interpreter interpreter = open("signatures", new Interpreter.Options().addDelegate(delegate))) {
            float[] output = new float[4];
            interpreter.runSignature(Collections.singletonMap("x", new float[] {1, 2, 3, 4}),
                    Collections.singletonMap("y", output), "square");
            assertArrayEquals(new float[] {1, 4, 9, 16}, output, 0);
        }
    }

    @Test
    public void factoriesMakeDelegatesForInterpreters() {
        GpuDelegateFactory factory =
                new GpuDelegateFactory(new GpuDelegateFactory.Options().setPrecisionLossAllowed(false));
        try (Interpreter interpreter = open("square", new Interpreter.Options().addDelegateFactory(factory))) {
            squares(interpreter);
            assertTrue(interpreter.getPlacement(), interpreter.getPlacement().contains("1 operation will run on the GPU"));
        }
        try (Delegate delegate = new GpuDelegateFactory().create(RuntimeFlavor.APPLICATION)) {
            assertTrue(delegate.getNativeHandle() != 0);
        }
        wrongState("Google Play services", () -> new GpuDelegateFactory().create(RuntimeFlavor.SYSTEM));
        invalid("null", () -> new GpuDelegateFactory().create(null));
        invalid("null", () -> new GpuDelegateFactory(null));
        invalid("null", () -> new GpuDelegate(null));
    }

    /** A GPU delegate that counts how often it was closed. */
    private static final class Counted implements Delegate {
        private final GpuDelegate delegate = new GpuDelegate();
        private final AtomicInteger closed;

        Counted(AtomicInteger closed) {
            this.closed = closed;
        }

        @Override
        public long getNativeHandle() {
            return delegate.getNativeHandle();
        }

        @Override
        public void close() {
            delegate.close();
            closed.incrementAndGet();
        }
    }

    @Test
    public void delegatesOfFactoriesAreClosedWithTheInterpreterOrOnceItIsForgotten() throws InterruptedException {
        AtomicInteger closed = new AtomicInteger();
        Interpreter.Options options = new Interpreter.Options().addDelegateFactory(flavor -> new Counted(closed));
        Interpreter interpreter = open("square", options);
        squares(interpreter);
        assertEquals(0, closed.get());
        interpreter.close();
        interpreter.close();
        assertEquals(1, closed.get());
        squares(open("square", options));
        for (int i = 0; i < 500 && closed.get() < 2; i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertEquals(2, closed.get());
        Counted given = new Counted(closed);
        open("square", new Interpreter.Options().addDelegate(given)).close();
        assertEquals("the program's own", 2, closed.get());
        given.close();
    }

    @Test
    @SuppressWarnings("deprecation")
    public void optionsAreKept() {
        GpuDelegateFactory.Options options = new GpuDelegateFactory.Options();
        assertTrue(options.isPrecisionLossAllowed());
        assertTrue(options.areQuantizedModelsAllowed());
        assertEquals(GpuDelegateFactory.Options.INFERENCE_PREFERENCE_FAST_SINGLE_ANSWER, options.getInferencePreference());
        assertNull(options.getSerializationDir());
        assertNull(options.getModelToken());
        assertEquals(GpuBackend.UNSET, options.getForceBackend());
        GpuDelegate.Options old = new GpuDelegate.Options()
                .setPrecisionLossAllowed(false)
                .setQuantizedModelsAllowed(false)
                .setInferencePreference(GpuDelegate.Options.INFERENCE_PREFERENCE_SUSTAINED_SPEED)
                .setSerializationParams("folder", "token")
                .setForceBackend(GpuBackend.OPENGL);
        assertFalse(old.isPrecisionLossAllowed());
        assertFalse(old.areQuantizedModelsAllowed());
        assertEquals(1, old.getInferencePreference());
        assertEquals("folder", old.getSerializationDir());
        assertEquals("token", old.getModelToken());
        assertEquals(GpuBackend.OPENGL, old.getForceBackend());
        assertEquals(1, GpuBackend.OPENCL.value());
        invalid("null", () -> old.setForceBackend(null));
        invalid("inference_preference", () -> new GpuDelegate(new GpuDelegateFactory.Options().setInferencePreference(77)));
    }

    @Test
    public void whatWasPreparedIsStored() throws IOException {
        File folder = Files.createTempDirectory("stored").toFile();
        GpuDelegateFactory.Options options =
                new GpuDelegateFactory.Options().setSerializationParams(folder.getPath(), "square");
        for (int start = 0; start < 2; start++) {
            try (GpuDelegate delegate = new GpuDelegate(options);
                    Interpreter interpreter = open("square", new Interpreter.Options().addDelegate(delegate))) {
                squares(interpreter);
            }
        }
        File[] stored = folder.listFiles();
        assertTrue(stored != null && stored.length > 0);
        for (File file : stored) {
            Files.delete(file.toPath());
        }
        Files.delete(folder.toPath());
    }

    @Test
    public void theListKnowsThisMachine() {
        CompatibilityList list = new CompatibilityList();
        assertTrue(list.isDelegateSupportedOnThisDevice());
        assertTrue(list.isDelegateSupportedOnThisDevice());
        assertNotNull(list.getBestOptionsForThisDevice());
        list.close();
        list.close();
        wrongState("closed", list::isDelegateSupportedOnThisDevice);
        wrongState("closed", list::getBestOptionsForThisDevice);
    }

    @Test
    public void manyDelegatesAreFreed() {
        for (int i = 0; i < 30; i++) {
            GpuDelegate delegate = new GpuDelegate();
            if (i % 2 == 0) {
                delegate.close();
            }
        }
        System.gc();
    }
}
