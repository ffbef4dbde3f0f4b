package org.tensorflow.lite;

import static org.junit.Assert.fail;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;

/** The models of the tests, and what tests share. */
final class Models {
    /** A call that is expected to fail. */
    interface Call {
        void run() throws Exception;
    }

    private Models() {}

    static File file(String name) {
        return new File(System.getProperty("attache.test.models"), name + ".tflite");
    }

    static Interpreter open(String name) {
        return new Interpreter(file(name));
    }

    static Interpreter open(String name, Interpreter.Options options) {
        return new Interpreter(file(name), options);
    }

    /** Returns a model in a direct buffer. */
    static ByteBuffer direct(String name) throws IOException {
        byte[] bytes = Files.readAllBytes(file(name).toPath());
        ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length).order(ByteOrder.nativeOrder());
        buffer.put(bytes);
        return buffer;
    }

    static FloatBuffer floats(int count) {
        return ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder()).asFloatBuffer();
    }

    /** Checks that a call throws exactly this exception, with these words in its message. */
    static void refused(Class<? extends Throwable> kind, String words, Call call) {
        try {
            call.run();
        } catch (Throwable error) {
            if (error.getClass() == kind && String.valueOf(error.getMessage()).contains(words)) {
                return;
            }
            throw new AssertionError("expected " + kind.getName() + " with \"" + words + "\"", error);
        }
        fail("expected " + kind.getName() + " with \"" + words + "\"");
    }

    static void invalid(String words, Call call) {
        refused(IllegalArgumentException.class, words, call);
    }

    static void wrongState(String words, Call call) {
        refused(IllegalStateException.class, words, call);
    }
}
