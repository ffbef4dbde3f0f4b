package org.tensorflow.lite;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.tensorflow.lite.attache.Natives;

/**
 * The native objects of an interpreter. It does not refer to the {@link Interpreter}, so that it can free them once nobody
 * reaches that one.
 *
 * <p>Whoever uses a handle holds the lock of this object, apart from cancellation, which has its own.
 */
final class Session {
    /** The status of a run that was cancelled, in TensorFlow Lite's C interface. */
    private static final int CANCELLED = 8;

    /** What is said of runs that fail. Programs look for words of TensorFlow Lite's, here and below. */
    private static final String NO_RUN = "Internal error: Failed to run on the given Interpreter: ";

    private final Object cancelLock = new Object();
    /** Keeps the memory of the model. */
    private final ByteBuffer modelBytes;
    private final boolean isCancellable;
    /** Kept as long as the interpreter, which may call them. */
    private final List<Delegate> delegates;
    /** Those of factories, to be closed. */
    private final List<Delegate> ownDelegates = new ArrayList<>();
    /** The runners of signatures by their keys; 0 for those that were never used. */
    private final Map<String, Long> runners = new LinkedHashMap<>();
    private long model;
    private long interpreter;
    private volatile boolean isCancelled;

    /**
     * Opens a model and makes an interpreter.
     *
     * @param path the model file; null if the model is in {@code modelBytes}
     */
    Session(String path, ByteBuffer modelBytes, InterpreterApi.Options options) {
        Natives.load();
        this.modelBytes = modelBytes;
        isCancellable = options.isCancellable;
        delegates = new ArrayList<>(options.delegates);
        model = path == null ? Natives.openMemory(modelBytes) : Natives.openFile(Natives.bytes(path));
        if (model == 0) {
            String what = path == null
                    ? "ByteBuffer is not a valid TensorFlow Lite model flatbuffer: "
                    : "Contents of " + path + " does not encode a valid TensorFlow Lite model: ";
            throw new IllegalArgumentException(what + Natives.message());
        }
        try {
            build(options);
        } catch (RuntimeException | Error error) {
            close();
            throw error;
        }
    }

    private void build(InterpreterApi.Options options) {
        for (DelegateFactory factory : options.delegateFactories) {
            Delegate delegate = factory.create(RuntimeFlavor.APPLICATION);
            if (delegate == null) {
                throw new IllegalArgumentException("A delegate factory returned null.");
            }
            ownDelegates.add(delegate);
            delegates.add(delegate);
        }
        long[] handles = new long[delegates.size()];
        for (int i = 0; i < handles.length; i++) {
            handles[i] = delegates.get(i).getNativeHandle();
            if (handles[i] == 0) {
                throw new IllegalArgumentException("Internal error: Found invalid handle to delegate: " + delegates.get(i));
            }
        }
        int threads = options.numThreads == 0 ? 1 : options.numThreads;
        if (threads < -1) {
            throw new IllegalArgumentException("The number of threads is " + threads + "; -1 is the library's choice.");
        }
        interpreter = Natives.createInterpreter(model, threads, isCancellable, handles);
        if (interpreter == 0) {
            String what = handles.length == 0 ? "Cannot create interpreter: " : "Failed to apply delegate: ";
            throw new IllegalArgumentException("Internal error: " + what + Natives.message());
        }
        for (int i = 0; i < Natives.signatureCount(interpreter); i++) {
            runners.put(Natives.text(Natives.signatureKey(interpreter, i)), 0L);
        }
        allocate(0);
    }

    /** Frees everything, once. */
    synchronized void close() {
        long freed = interpreter;
        synchronized (cancelLock) {
            interpreter = 0;
        }
        for (long runner : runners.values()) {
            if (runner != 0) {
                Natives.deleteRunner(runner);
            }
        }
        runners.clear();
        if (freed != 0) {
            Natives.deleteInterpreter(freed);
        }
        if (model != 0) {
            Natives.deleteModel(model);
            model = 0;
        }
        delegates.clear();
        while (!ownDelegates.isEmpty()) {
            ownDelegates.remove(ownDelegates.size() - 1).close();
        }
    }

    /** Returns the interpreter's handle. The caller holds the lock. */
    long handle() {
        if (interpreter == 0) {
            throw new IllegalStateException("Internal error: The Interpreter has already been closed.");
        }
        return interpreter;
    }

    /** Returns the keys of the signatures, in the order of the model. */
    Set<String> signatureKeys() {
        return runners.keySet();
    }

    /** Returns the runner of a signature that exists. It is made when it is first used. */
    long runner(String key) {
        long runner = runners.get(key);
        if (runner == 0) {
            runner = Natives.createRunner(handle(), Natives.bytes(key));
            if (runner == 0) {
                throw new IllegalArgumentException("The signature \"" + key + "\" cannot be used: " + Natives.message());
            }
            runners.put(key, runner);
        }
        return runner;
    }

    /** Allocates the tensors of a signature; those of the main subgraph for the runner 0. */
    void allocate(long runner) {
        boolean isDone = runner == 0 ? Natives.allocate(handle()) : Natives.allocateRunner(runner);
        if (!isDone) {
            throw new IllegalStateException(
                    "Internal error: Unexpected failure when preparing tensor allocations: " + Natives.message());
        }
    }

    /** Runs a signature, or the main subgraph for the runner 0, and returns how many nanoseconds it took. */
    long invoke(long runner) {
        throwIfCancelled();
        long start = System.nanoTime();
        int status = runner == 0 ? Natives.invoke(handle()) : Natives.invokeRunner(runner);
        long duration = System.nanoTime() - start;
        if (status == CANCELLED) {
            throw cancelled();
        }
        if (status != 0) {
            throw new IllegalArgumentException(NO_RUN + Natives.message());
        }
        // The native library cancels runs that have begun. One that was about to begin has run to its end.
        throwIfCancelled();
        return duration;
    }

    private void throwIfCancelled() {
        if (isCancelled) {
            throw cancelled();
        }
    }

    private static IllegalArgumentException cancelled() {
        return new IllegalArgumentException(NO_RUN + "Client requested cancel during Invoke()");
    }

    /** Cancels the run that is under way and those to come, or lets runs be run again. From any thread. */
    void setCancelled(boolean cancelled) {
        synchronized (cancelLock) {
            if (interpreter == 0) {
                throw new IllegalStateException("Internal error: The Interpreter has already been closed.");
            }
            if (!isCancellable) {
                throw new IllegalStateException("Cannot cancel the inference. Have you called"
                        + " InterpreterApi.Options.setCancellable?");
            }
            isCancelled = cancelled;
            if (cancelled) {
                Natives.cancel(interpreter);
            }
        }
    }
}
