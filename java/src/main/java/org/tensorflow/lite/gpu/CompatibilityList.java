package org.tensorflow.lite.gpu;

import java.io.Closeable;

/** Says whether the GPU delegate runs on this machine. */
public class CompatibilityList implements Closeable {
    /** Keeps the device open until this object is closed, so that delegates made meanwhile open it at once. */
    private GpuDelegate delegate;

    private boolean isAsked;
    private boolean isClosed;

    /** Makes a list. */
    public CompatibilityList() {}

    /**
     * Returns whether there is a GPU: it opens one. Software adapters count only if the environment variable
     * {@code ATTACHE_SOFTWARE} is 1.
     *
     * @throws IllegalStateException if the list was closed
     */
    public synchronized boolean isDelegateSupportedOnThisDevice() {
        check();
        if (!isAsked) {
            isAsked = true;
            try {
                delegate = new GpuDelegate();
            } catch (IllegalArgumentException noGpu) {
                delegate = null;
            }
        }
        return delegate != null;
    }

    /**
     * Returns the options to use on this machine: the default ones.
     *
     * @throws IllegalStateException if the list was closed
     */
    @SuppressWarnings("deprecation")
    public synchronized GpuDelegate.Options getBestOptionsForThisDevice() {
        check();
        return new GpuDelegate.Options();
    }

    /** Frees what the list holds. Does nothing if it was done. */
    @Override
    public synchronized void close() {
        isClosed = true;
        if (delegate != null) {
            delegate.close();
            delegate = null;
        }
    }

    private void check() {
        if (isClosed) {
            throw new IllegalStateException("The list was closed.");
        }
    }
}
