package org.tensorflow.lite.gpu;

import org.tensorflow.lite.Delegate;
import org.tensorflow.lite.attache.Natives;
import org.tensorflow.lite.attache.Reaper;

/**
 * Runs models on a GPU, through any graphics interface that the system has. Interpreters keep what they need of it, so it
 * may be closed before them; no longer reachable, it is closed too.
 *
 * <pre>{@code
 * try (GpuDelegate delegate = new GpuDelegate();
 *         Interpreter interpreter = new Interpreter(file, new Interpreter.Options().addDelegate(delegate))) {
 *     interpreter.run(input, output);
 * }
 * }</pre>
 */
public class GpuDelegate implements Delegate {
    private final Handle handle;
    private final Runnable unwatch;

    /**
     * The factory's options under an older name.
     *
     * @deprecated use {@link GpuDelegateFactory.Options}
     */
    @Deprecated
    public static class Options extends GpuDelegateFactory.Options {
        /** Makes default options. */
        public Options() {}

        @Override
        public Options setPrecisionLossAllowed(boolean precisionLossAllowed) {
            super.setPrecisionLossAllowed(precisionLossAllowed);
            return this;
        }

        @Override
        public Options setQuantizedModelsAllowed(boolean quantizedModelsAllowed) {
            super.setQuantizedModelsAllowed(quantizedModelsAllowed);
            return this;
        }

        @Override
        public Options setInferencePreference(int preference) {
            super.setInferencePreference(preference);
            return this;
        }

        @Override
        public Options setSerializationParams(String serializationDir, String modelToken) {
            super.setSerializationParams(serializationDir, modelToken);
            return this;
        }

        @Override
        public Options setForceBackend(GpuBackend forceBackend) {
            super.setForceBackend(forceBackend);
            return this;
        }
    }

    /** The native object. It does not refer to the delegate. */
    private static final class Handle {
        private long address;

        Handle(long address) {
            this.address = address;
        }

        synchronized long get() {
            if (address == 0) {
                throw new IllegalStateException("The GPU delegate was closed.");
            }
            return address;
        }

        synchronized void free() {
            if (address != 0) {
                Natives.deleteGpuDelegate(address);
                address = 0;
            }
        }
    }

    /** Makes a delegate with default options, which allow a loss of precision. */
    public GpuDelegate() {
        this(new GpuDelegateFactory.Options());
    }

    /**
     * Makes a delegate.
     *
     * @throws IllegalArgumentException if there is no GPU, or options are not valid. Software adapters count only if the
     *     environment variable {@code ATTACHE_SOFTWARE} is 1
     */
    public GpuDelegate(GpuDelegateFactory.Options options) {
        if (options == null) {
            throw new IllegalArgumentException("The options are null.");
        }
        Natives.load();
        long address = options.create();
        if (address == 0) {
            throw new IllegalArgumentException("No GPU delegate can be made: " + Natives.message());
        }
        handle = new Handle(address);
        unwatch = Reaper.watch(this, handle::free);
    }

    /**
     * Returns the address of the native delegate.
     *
     * @throws IllegalStateException if the delegate was closed
     */
    @Override
    public long getNativeHandle() {
        return handle.get();
    }

    /** Frees the native delegate. Interpreters that use it stay valid. Does nothing if it was done. */
    @Override
    public void close() {
        unwatch.run();
        handle.free();
    }
}
