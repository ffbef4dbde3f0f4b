package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;
import static org.tensorflow.lite.Models.wrongState;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.junit.Test;

/** Opening, running, resizing and closing. */
public final class InterpreterTest {
    private static final float[][] INPUT = {{1, 2, 3, 4}};
    private static final float[][] SQUARES = {{1, 4, 9, 16}};

    private static void squares(InterpreterApi interpreter) {
        float[][] output = new float[1][4];
        interpreter.run(INPUT, output);
        assertArrayEquals(SQUARES, output);
    }

    @Test
    public void filesAndBuffersAreOpened() throws IOException {
        try (Interpreter interpreter = new Interpreter(Models.file("square"))) {
            squares(interpreter);
        }
        try (InterpreterApi interpreter = InterpreterApi.create(Models.file("square"), new InterpreterApi.Options())) {
            squares(interpreter);
        }
        try (InterpreterApi interpreter = new InterpreterFactory().create(Models.file("square"), null)) {
            squares(interpreter);
        }
        try (InterpreterApi interpreter = new InterpreterFactory().create(Models.direct("square"), null)) {
            squares(interpreter);
        }
        try (InterpreterApi interpreter = InterpreterApi.create(Models.direct("square"), null)) {
            squares(interpreter);
        }
        try (RandomAccessFile file = new RandomAccessFile(Models.file("square"), "r")) {
            MappedByteBuffer mapped = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, file.length());
            try (Interpreter interpreter = new Interpreter(mapped, new Interpreter.Options().setNumThreads(2))) {
                squares(interpreter);
            }
        }
    }

    @Test
    public void aModelInABufferMayBeChangedAfterwards() throws IOException {
        ByteBuffer model = Models.direct("square");
        try (Interpreter interpreter = new Interpreter(model)) {
            model.clear();
            while (model.hasRemaining()) {
                model.put((byte) 0xff);
            }
            squares(interpreter);
        }
    }

    @Test
    public void namesOfFilesMayHaveAnyLetters() throws IOException {
        Path folder = Files.createTempDirectory("models");
        Path copy = folder.resolve("Modell \u00e4\u00f6\u00fc \ud83d\ude00.tflite");
        Files.copy(Models.file("square").toPath(), copy);
        try (Interpreter interpreter = new Interpreter(copy.toFile())) {
            squares(interpreter);
        }
        Files.delete(copy);
        invalid("\ud83d\ude00", () -> new Interpreter(copy.toFile()));
        Files.delete(folder);
    }

    @Test
    public void whatIsNoModelIsRefused() throws IOException {
        invalid("no such", () -> new Interpreter(new File("no such/model.tflite")));
        invalid("null", () -> new Interpreter((File) null));
        invalid("null", () -> new Interpreter((ByteBuffer) null));
        invalid("does not encode a valid TensorFlow Lite model", () -> new Interpreter(Models.file("cut")));
        invalid("zero character", () -> new Interpreter(new File("a\0b")));
        invalid("cut", () -> open("cut"));
        invalid("", () -> new Interpreter(Models.file("square").getParentFile()));
        invalid("heap", () -> new Interpreter(ByteBuffer.allocate(100).order(ByteOrder.nativeOrder())));
        invalid("buffer", () -> new Interpreter(ByteBuffer.allocateDirect(0)));
        invalid("buffer", () -> new Interpreter(ByteBuffer.allocateDirect(1000)));
        invalid("buffer", () -> InterpreterApi.create(Models.direct("cut"), null));
        wrongState("Double", () -> open("custom"));
        wrongState("", () -> open("huge"));
    }

    @Test
    public void runsTakeManyInputsAndOutputs() {
        try (Interpreter interpreter = open("add")) {
            float[][][][] a = new float[1][2][2][3];
            float[][][][] b = new float[1][2][2][3];
            a[0][0][1][2] = 3;
            b[0][0][1][2] = 4;
            float[][][][] sum = new float[1][2][2][3];
            Map<Integer, Object> outputs = new HashMap<>();
            outputs.put(0, sum);
            interpreter.runForMultipleInputsOutputs(new Object[] {a, b}, outputs);
            assertEquals(7, sum[0][0][1][2], 0);
            // The second input keeps its value.
            a[0][0][1][2] = 10;
            interpreter.runForMultipleInputsOutputs(new Object[] {a}, outputs);
            assertEquals(14, sum[0][0][1][2], 0);
            // Outputs may stay where they are.
            interpreter.runForMultipleInputsOutputs(new Object[] {a, b}, Collections.emptyMap());
            interpreter.runForMultipleInputsOutputs(new Object[] {a, b}, Collections.singletonMap(0, null));
            interpreter.run(b, null);
            assertEquals(8, interpreter.getOutputTensor(0).asReadOnlyBuffer().asFloatBuffer().get(5), 0);
        }
    }

    @Test
    public void runsWithoutWhatTheyNeedAreRefused() {
        try (Interpreter interpreter = open("add")) {
            float[][][][] value = new float[1][2][2][3];
            Map<Integer, Object> outputs = Collections.singletonMap(0, value);
            invalid("Inputs should not be null or empty", () -> interpreter.runForMultipleInputsOutputs(null, outputs));
            invalid("Inputs should not be null or empty",
                    () -> interpreter.runForMultipleInputsOutputs(new Object[0], outputs));
            Object[] two = {value, value};
            invalid("Outputs should not be null", () -> interpreter.runForMultipleInputsOutputs(two, null));
            invalid("Invalid input Tensor index: 2",
                    () -> interpreter.runForMultipleInputsOutputs(new Object[] {value, value, value}, outputs));
            invalid("\"b\" is null", () -> interpreter.runForMultipleInputsOutputs(new Object[] {value, null}, outputs));
            invalid("Invalid output Tensor index: 1",
                    () -> interpreter.runForMultipleInputsOutputs(two, Collections.singletonMap(1, value)));
            invalid("Invalid output Tensor index: -1",
                    () -> interpreter.runForMultipleInputsOutputs(two, Collections.singletonMap(-1, value)));
            invalid("null", () -> interpreter.runForMultipleInputsOutputs(two, Collections.singletonMap(null, value)));
            assertNull(interpreter.getLastNativeInferenceDurationNanoseconds());
        }
    }

    @Test
    public void theDurationIsThatOfTheLastRun() {
        try (Interpreter interpreter = open("square")) {
            assertNull(interpreter.getLastNativeInferenceDurationNanoseconds());
            long start = System.nanoTime();
            squares(interpreter);
            long elapsed = System.nanoTime() - start;
            long duration = interpreter.getLastNativeInferenceDurationNanoseconds();
            assertTrue(duration + " of " + elapsed, duration > 0 && duration <= elapsed);
            invalid("null", () -> interpreter.run(null, new float[1][4]));
            assertNull(interpreter.getLastNativeInferenceDurationNanoseconds());
        }
    }

    @Test
    public void inputsAreResized() {
        try (Interpreter interpreter = open("square")) {
            interpreter.resizeInput(0, new int[] {3, 4});
            assertArrayEquals(new int[] {3, 4}, interpreter.getInputTensor(0).shape());
            invalid("allocateTensors", () -> interpreter.getInputTensor(0).asReadOnlyBuffer());
            interpreter.allocateTensors();
            interpreter.allocateTensors();
            assertArrayEquals(new int[] {3, 4}, interpreter.getOutputTensor(0).shape());
            float[][] output = new float[3][4];
            interpreter.run(new float[][] {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, output);
            assertEquals(9, output[2][3], 0);
            interpreter.resizeInput(0, new int[] {2, 4}, true);
            interpreter.run(Models.floats(8), new float[2][4]);
            interpreter.resizeInput(0, new int[] {2, 2, 2}, false);
            interpreter.run(Models.floats(8), new float[2][2][2]);
        }
    }

    @Test
    public void resizesThatCannotBeAreRefused() {
        try (Interpreter interpreter = open("square")) {
            invalid("Input error: Can not resize 1-th input for a model having 1 inputs.",
                    () -> interpreter.resizeInput(1, new int[] {1, 4}));
            invalid("Can not resize -1-th input", () -> interpreter.resizeInput(-1, new int[] {1, 4}));
            invalid("null", () -> interpreter.resizeInput(0, null));
            invalid("negative", () -> interpreter.resizeInput(0, new int[] {-1, 4}));
            invalid("", () -> interpreter.resizeInput(0, new int[] {1 << 30, 1 << 30, 1 << 30}));
            invalid("only allows mutating unknown dimensions identified by -1", () -> interpreter.resizeInput(0, new int[] {1, 5}, true));
            invalid("only allows mutating unknown dimensions identified by -1", () -> interpreter.resizeInput(0, new int[] {4}, true));
            squares(interpreter);
        }
        try (Interpreter interpreter = open("fixed")) {
            invalid("only allows mutating unknown dimensions identified by -1", () -> interpreter.resizeInput(0, new int[] {4, 3}, true));
            interpreter.resizeInput(0, new int[] {2, 3}, true);
            interpreter.resizeInput(0, new int[] {4, 3});
            interpreter.run(new float[4][3], new float[4][3]);
        }
        try (Interpreter interpreter = open("add")) {
            interpreter.resizeInput(1, new int[] {1, 2, 2, 4});
            wrongState("", interpreter::allocateTensors);
            interpreter.resizeInput(1, new int[] {1, 2, 2, 3});
            interpreter.allocateTensors();
        }
    }

    @Test
    public void variablesKeepTheirValuesUntilTheyAreReset() {
        File model = new File(System.getProperty("attache.test.variables"));
        try (Interpreter interpreter = new Interpreter(model)) {
            interpreter.resetVariableTensors();
            ByteBuffer input = ByteBuffer.allocate(interpreter.getInputTensor(0).numBytes()).order(ByteOrder.nativeOrder());
            for (int i = 0; i < input.capacity(); i += 4) {
                input.putFloat(i, 0.5f);
            }
            ByteBuffer[] outputs = new ByteBuffer[3];
            for (int i = 0; i < 3; i++) {
                outputs[i] = ByteBuffer.allocate(interpreter.getOutputTensor(0).numBytes());
                if (i == 2) {
                    interpreter.resetVariableTensors();
                }
                interpreter.run(input, outputs[i]);
            }
            assertTrue("the second run goes on", !Arrays.equals(outputs[0].array(), outputs[1].array()));
            assertArrayEquals("the third starts again", outputs[0].array(), outputs[2].array());
        }
    }

    @Test
    public void inputsAndOutputsAreFoundByName() {
        try (Interpreter interpreter = open("add")) {
            assertEquals(2, interpreter.getInputTensorCount());
            assertEquals(1, interpreter.getOutputTensorCount());
            assertEquals(0, interpreter.getInputIndex("a"));
            assertEquals(1, interpreter.getInputIndex("b"));
            assertEquals(0, interpreter.getOutputIndex("sum"));
            invalid("'sum' is not a valid name for any input. Names of inputs and their indexes are {a=0, b=1}",
                    () -> interpreter.getInputIndex("sum"));
            invalid("{a=0, b=1}", () -> interpreter.getInputIndex(null));
            invalid("'a' is not a valid name for any output", () -> interpreter.getOutputIndex("a"));
            invalid("Invalid input Tensor index: 2", () -> interpreter.getInputTensor(2));
            invalid("Invalid input Tensor index: -1", () -> interpreter.getInputTensor(-1));
            invalid("Invalid output Tensor index: 1", () -> interpreter.getOutputTensor(1));
            assertSame(interpreter.getInputTensor(1), interpreter.getInputTensor(1));
        }
    }

    /** Programs look for words of TensorFlow Lite's in messages. */
    @Test
    public void messagesHaveTheWordsThatProgramsKnow() {
        try (Interpreter interpreter = open("square")) {
            String convert = "Cannot convert between a TensorFlowLite tensor with type FLOAT32 and a Java object of type [[I"
                    + " (which is compatible with the TensorFlowLite type INT32)";
            invalid(convert, () -> interpreter.run(new int[1][4], new float[1][4]));
            invalid(convert, () -> interpreter.run(new float[1][4], new int[1][4]));
            invalid("DataType error: cannot resolve DataType of [[Ljava.lang.Float;",
                    () -> interpreter.run(new Float[1][4], new float[1][4]));
            invalid("DataType error: cannot resolve DataType of [D", () -> interpreter.run(new double[4], new float[4]));
        }
        Interpreter closed = open("square");
        closed.close();
        try {
            closed.run(new float[1][4], new float[1][4]);
            throw new AssertionError("a closed interpreter ran");
        } catch (IllegalStateException error) {
            assertEquals("Internal error: The Interpreter has already been closed.", error.getMessage());
        }
        invalid("Could not open", () -> new Interpreter(new java.io.File("/no/such/file")));
    }

    @Test
    public void thePlacementNamesOperators() {
        try (Interpreter interpreter = open("add")) {
            assertTrue(interpreter.getPlacement(), interpreter.getPlacement().contains("CPU"));
        }
    }
}
