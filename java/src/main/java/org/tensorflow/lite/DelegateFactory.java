package org.tensorflow.lite;

/** Makes a delegate for each interpreter, which closes it. */
public interface DelegateFactory {
    /**
     * Makes a delegate.
     *
     * @param runtimeFlavor the runtime that the interpreter belongs to
     */
    Delegate create(RuntimeFlavor runtimeFlavor);
}
