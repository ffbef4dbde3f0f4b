package org.tensorflow.lite;

import java.io.File;
import java.nio.ByteBuffer;

/** Makes interpreters, as {@link InterpreterApi#create} does. */
public class InterpreterFactory {
    /** Makes a factory. */
    public InterpreterFactory() {}

    /** Makes an interpreter of a model file, as {@link InterpreterApi#create(File, InterpreterApi.Options)} does. */
    public InterpreterApi create(File modelFile, InterpreterApi.Options options) {
        return InterpreterApi.create(modelFile, options);
    }

    /** Makes an interpreter of a model in memory, as {@link InterpreterApi#create(ByteBuffer, InterpreterApi.Options)} does. */
    public InterpreterApi create(ByteBuffer byteBuffer, InterpreterApi.Options options) {
        return InterpreterApi.create(byteBuffer, options);
    }
}
