package org.tensorflow.lite;

import java.io.Closeable;

/** Runs parts of models, for instance on a GPU. One delegate may serve several interpreters. */
public interface Delegate extends Closeable {
    /**
     * Returns the address of the {@code TfLiteDelegate} of TensorFlow Lite's C interface. It stays valid until
     * {@link #close}.
     */
    long getNativeHandle();

    /** Frees what the delegate holds. By default, nothing. */
    @Override
    default void close() {}
}
