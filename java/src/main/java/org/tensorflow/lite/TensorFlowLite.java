package org.tensorflow.lite;

import org.tensorflow.lite.attache.Natives;

/** Versions of the runtime, and its native library. */
public final class TensorFlowLite {
    private TensorFlowLite() {}

    /**
     * Loads the native library. Classes that need it do so themselves.
     *
     * @throws UnsatisfiedLinkError if there is no native library for this machine
     */
    public static void init() {
        Natives.load();
    }

    /** Returns the version of the file format: 3. */
    public static String schemaVersion() {
        return schemaVersion(RuntimeFlavor.APPLICATION);
    }

    /**
     * Returns the version of the file format of a runtime.
     *
     * @throws IllegalStateException if there is no such runtime
     */
    public static String schemaVersion(RuntimeFlavor runtimeFlavor) {
        check(runtimeFlavor);
        return Integer.toString(Natives.schemaVersion());
    }

    /** Returns the version of TensorFlow Lite whose interface the native library has. */
    public static String runtimeVersion() {
        return runtimeVersion(RuntimeFlavor.APPLICATION);
    }

    /**
     * Returns the version of TensorFlow Lite whose interface a runtime has.
     *
     * @throws IllegalStateException if there is no such runtime
     */
    public static String runtimeVersion(RuntimeFlavor runtimeFlavor) {
        check(runtimeFlavor);
        return Natives.text(Natives.runtimeVersion());
    }

    /**
     * Returns the version of the file format.
     *
     * @deprecated use {@link #schemaVersion()} or {@link #runtimeVersion()}
     */
    @Deprecated
    public static String version() {
        return schemaVersion();
    }

    private static void check(RuntimeFlavor runtimeFlavor) {
        if (runtimeFlavor == null) {
            throw new IllegalArgumentException("The runtime is null.");
        }
        if (runtimeFlavor == RuntimeFlavor.SYSTEM) {
            throw new IllegalStateException(NO_SYSTEM_RUNTIME);
        }
        init();
    }

    static final String NO_SYSTEM_RUNTIME = "There is no runtime of the system here: it is part of Google Play services."
            + " Use TfLiteRuntime.FROM_APPLICATION_ONLY or RuntimeFlavor.APPLICATION.";
}
