package org.tensorflow.lite.acceleration;

import org.tensorflow.lite.InterpreterApi;

/** Options for an accelerator that were tried on a device. */
public interface ValidatedAccelerationConfig {
    /** Sets the options of an interpreter that is about to be made. */
    void apply(InterpreterApi.Options options);
}
