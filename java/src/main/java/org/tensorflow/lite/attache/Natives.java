package org.tensorflow.lite.attache;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The functions of the native library, for the classes of this library only. Nothing is checked here: callers pass handles
 * that are valid and not null. Texts are UTF-8 without a zero byte.
 */
public final class Natives {
    /** Why the native library is not there; null if it is. */
    private static final UnsatisfiedLinkError FAILURE = tryToLoad();

    private Natives() {}

    private static UnsatisfiedLinkError tryToLoad() {
        try {
            NativeLibrary.load();
            return null;
        } catch (UnsatisfiedLinkError failure) {
            return failure;
        }
    }

    /**
     * Loads the native library, unless it is loaded. Comes before any other method.
     *
     * @throws UnsatisfiedLinkError if there is none for this machine, at each call
     */
    public static void load() {
        if (FAILURE != null) {
            UnsatisfiedLinkError failure = new UnsatisfiedLinkError(FAILURE.getMessage());
            failure.initCause(FAILURE);
            throw failure;
        }
    }

    /** Returns the text of bytes that the native library returned. */
    public static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Returns the bytes of a text for the native library; null for null. */
    public static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns what the last function that failed in this thread reported. */
    public static String message() {
        String message = text(takeMessage());
        return message.isEmpty() ? "no reason was given" : message;
    }

    private static native byte[] takeMessage();

    public static native byte[] runtimeVersion();

    public static native int schemaVersion();

    /** Returns a model; 0 on an error. */
    public static native long openFile(byte[] path);

    /** Returns the model in a direct buffer, which stays as it is until the model and its interpreters are deleted; 0 on an error. */
    public static native long openMemory(ByteBuffer bytes);

    public static native void deleteModel(long model);

    /** Returns an interpreter; 0 on an error. */
    public static native long createInterpreter(long model, int threads, boolean isCancellable, long[] delegates);

    public static native void deleteInterpreter(long interpreter);

    /** Returns whether tensors are allocated now. */
    public static native boolean allocate(long interpreter);

    /** Returns a status of TensorFlow Lite's. */
    public static native int invoke(long interpreter);

    public static native void cancel(long interpreter);

    public static native boolean resetVariables(long interpreter);

    public static native int inputCount(long interpreter);

    public static native int outputCount(long interpreter);

    /** Returns an input's tensor by its position, which exists. */
    public static native long input(long interpreter, int position);

    /** Returns an output's tensor by its position, which exists. */
    public static native long output(long interpreter, int position);

    /** Returns where operators run and why, one a line; null on an error. */
    public static native byte[] placement(long interpreter);

    public static native int signatureCount(long interpreter);

    public static native byte[] signatureKey(long interpreter, int position);

    /** Returns a runner of a signature that exists; 0 on an error. */
    public static native long createRunner(long interpreter, byte[] key);

    public static native void deleteRunner(long runner);

    public static native boolean allocateRunner(long runner);

    /** Returns a status of TensorFlow Lite's. */
    public static native int invokeRunner(long runner);

    public static native int runnerInputCount(long runner);

    public static native int runnerOutputCount(long runner);

    public static native byte[] runnerInputName(long runner, int position);

    public static native byte[] runnerOutputName(long runner, int position);

    /** Returns the tensor of an input; 0 if there is none. */
    public static native long runnerInput(long runner, byte[] name);

    /** Returns the tensor of an output; 0 if there is none. */
    public static native long runnerOutput(long runner, byte[] name);

    /** Returns a number of TensorFlow Lite's types. */
    public static native int type(long tensor);

    public static native byte[] name(long tensor);

    public static native int[] shape(long tensor);

    public static native int[] shapeSignature(long tensor);

    public static native long byteSize(long tensor);

    public static native float scale(long tensor);

    public static native int zeroPoint(long tensor);

    /** Returns the index of a tensor among those of its subgraph; -1 if it is of another interpreter. */
    public static native int index(long interpreter, long tensor);

    public static native boolean resize(long tensor, int[] shape);

    /** Returns whether the content is part of the model. */
    public static native boolean isConstant(long tensor);

    /**
     * Returns the memory of a tensor, valid until the next resize, allocation, run or deletion of the interpreter; null if
     * there is none.
     */
    public static native ByteBuffer memory(long tensor);

    /** Copies the content of a tensor of strings; null if there is none. */
    public static native byte[] strings(long tensor);

    /** Replaces the content of a tensor of strings. Returns whether it has as many strings as the tensor. */
    public static native boolean setStrings(long tensor, byte[] content);

    /** Opens a GPU and returns a delegate; 0 on an error. Folder and token may be null. */
    public static native long createGpuDelegate(
            boolean isPrecisionLossAllowed, int inferencePreference, long experimentalFlags, byte[] folder, byte[] token);

    public static native void deleteGpuDelegate(long delegate);
}
