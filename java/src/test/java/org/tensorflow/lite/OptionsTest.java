package org.tensorflow.lite;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;
import static org.tensorflow.lite.Models.refused;
import static org.tensorflow.lite.Models.wrongState;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.Test;
import org.tensorflow.lite.InterpreterApi.Options.TfLiteRuntime;

/** Options, and the versions of the runtime. */
public final class OptionsTest {
    /** A delegate of the program's, at an address of its choice. */
    private static final class Given implements Delegate {
        private final long address;
        private final AtomicInteger closed;

        Given(long address, AtomicInteger closed) {
            this.address = address;
            this.closed = closed;
        }

        @Override
        public long getNativeHandle() {
            return address;
        }

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    @Test
    @SuppressWarnings("deprecation")
    public void optionsHaveTheDefaultsOfTensorFlowLite() {
        InterpreterApi.Options options = new InterpreterApi.Options();
        assertEquals(-1, options.getNumThreads());
        assertFalse(options.getUseNNAPI());
        assertTrue(options.getUseXNNPACK());
        assertFalse(options.isCancellable());
        assertEquals(TfLiteRuntime.FROM_APPLICATION_ONLY, options.getRuntime());
        assertTrue(options.getDelegates().isEmpty());
        assertTrue(options.getDelegateFactories().isEmpty());
        assertNull(options.getAccelerationConfig());
    }

    @Test
    @SuppressWarnings("deprecation")
    public void optionsAreCopied() {
        Delegate delegate = new Given(1, new AtomicInteger());
        DelegateFactory factory = flavor -> delegate;
        Interpreter.Options options = new Interpreter.Options()
                .setNumThreads(3)
                .setUseNNAPI(true)
                .setUseXNNPACK(false)
                .setCancellable(true)
                .setAllowFp16PrecisionForFp32(true)
                .setAllowBufferHandleOutput(true)
                .setRuntime(TfLiteRuntime.PREFER_SYSTEM_OVER_APPLICATION)
                .setAccelerationConfig(null)
                .addDelegate(delegate)
                .addDelegateFactory(factory);
        for (InterpreterApi.Options copy :
                new InterpreterApi.Options[] {new Interpreter.Options(options), new InterpreterApi.Options(options)}) {
            assertEquals(3, copy.getNumThreads());
            assertTrue(copy.getUseNNAPI());
            assertFalse(copy.getUseXNNPACK());
            assertTrue(copy.isCancellable());
            assertEquals(TfLiteRuntime.PREFER_SYSTEM_OVER_APPLICATION, copy.getRuntime());
            assertSame(delegate, copy.getDelegates().get(0));
            assertSame(factory, copy.getDelegateFactories().get(0));
            refused(UnsupportedOperationException.class, "", () -> copy.getDelegates().clear());
            refused(UnsupportedOperationException.class, "", () -> copy.getDelegateFactories().clear());
            copy.addDelegate(delegate);
        }
        assertEquals(1, options.getDelegates().size());
    }

    @Test
    public void optionsThatCannotBeAreRefused() {
        Interpreter.Options options = new Interpreter.Options();
        invalid("null", () -> options.addDelegate(null));
        invalid("null", () -> options.addDelegateFactory(null));
        invalid("null", () -> options.setRuntime(null));
        invalid("null", () -> new InterpreterApi.Options(null));
        invalid("-2", () -> open("square", new Interpreter.Options().setNumThreads(-2)));
        for (int threads : new int[] {-1, 0, 1, 2, 1000}) {
            try (Interpreter interpreter = open("square", new Interpreter.Options().setNumThreads(threads))) {
                interpreter.run(new float[1][4], null);
            }
        }
    }

    @Test
    public void thereIsNoRuntimeOfTheSystem() {
        InterpreterApi.Options system = new InterpreterApi.Options().setRuntime(TfLiteRuntime.FROM_SYSTEM_ONLY);
        wrongState("Google Play services", () -> InterpreterApi.create(Models.file("square"), system));
        wrongState("Google Play services", () -> InterpreterApi.create(Models.direct("square"), system));
        InterpreterApi.Options preferred = new InterpreterApi.Options().setRuntime(TfLiteRuntime.PREFER_SYSTEM_OVER_APPLICATION);
        InterpreterApi.create(Models.file("square"), preferred).close();
        wrongState("Google Play services", () -> TensorFlowLite.runtimeVersion(RuntimeFlavor.SYSTEM));
        wrongState("Google Play services", () -> TensorFlowLite.schemaVersion(RuntimeFlavor.SYSTEM));
    }

    @Test
    public void anAccelerationConfigurationSetsOptions() {
        AtomicInteger applied = new AtomicInteger();
        Interpreter.Options options = new Interpreter.Options().setAccelerationConfig(given -> {
            applied.incrementAndGet();
            given.setCancellable(true);
        });
        try (Interpreter interpreter = open("square", options)) {
            interpreter.setCancelled(false);
        }
        assertEquals(1, applied.get());
        assertFalse("the options of the program stay as they are", options.isCancellable());
    }

    @Test
    @SuppressWarnings("deprecation")
    public void versionsAreThoseOfTheInterface() {
        TensorFlowLite.init();
        assertEquals("3", TensorFlowLite.version());
        assertEquals("3", TensorFlowLite.schemaVersion());
        assertEquals("3", TensorFlowLite.schemaVersion(RuntimeFlavor.APPLICATION));
        assertTrue(TensorFlowLite.runtimeVersion(), TensorFlowLite.runtimeVersion().matches("2\\.\\d+\\.\\d+.*"));
        assertEquals(TensorFlowLite.runtimeVersion(), TensorFlowLite.runtimeVersion(RuntimeFlavor.APPLICATION));
        invalid("null", () -> TensorFlowLite.runtimeVersion(null));
    }

    @Test
    public void delegatesThatCannotBeAreRefusedAndThoseOfFactoriesAreClosed() {
        AtomicInteger closed = new AtomicInteger();
        invalid("Internal error: Found invalid handle", () -> open("square", new Interpreter.Options().addDelegate(new Given(0, closed))));
        assertEquals("a delegate of the program is the program's", 0, closed.get());
        invalid("Internal error: Found invalid handle",
                () -> open("square", new Interpreter.Options().addDelegateFactory(flavor -> new Given(0, closed))));
        assertEquals(1, closed.get());
        invalid("returned null", () -> open("square", new Interpreter.Options().addDelegateFactory(flavor -> null)));
        DelegateFactory failing = flavor -> {
            assertEquals(RuntimeFlavor.APPLICATION, flavor);
            throw new UnsupportedOperationException("of the factory");
        };
        DelegateFactory before = flavor -> new Given(0, closed);
        refused(UnsupportedOperationException.class, "of the factory",
                () -> open("square", new Interpreter.Options().addDelegateFactory(before).addDelegateFactory(failing)));
        assertEquals(2, closed.get());
    }
}
