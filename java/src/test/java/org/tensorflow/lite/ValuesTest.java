package org.tensorflow.lite;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.junit.Test;

/** Values that go in and come out: arrays, buffers and boxed values of every type. */
public final class ValuesTest {
    private static final float[][] FLOATS = {{1.5f, 2, 3}, {4, 5, -6}};
    private static final float[][] TRANSPOSED = {{1.5f, 4}, {2, 5}, {3, -6}};

    private static Object run(String model, Object input, Object output) {
        try (Interpreter interpreter = open(model)) {
            interpreter.run(input, output);
        }
        return output;
    }

    @Test
    public void arraysOfEveryTypeAreTransposed() {
        assertArrayEquals(TRANSPOSED, (float[][]) run("transpose_float32", FLOATS, new float[3][2]));
        int[][] ints = {{1, 2, 3}, {Integer.MIN_VALUE, 5, Integer.MAX_VALUE}};
        assertArrayEquals(new int[][] {{1, Integer.MIN_VALUE}, {2, 5}, {3, Integer.MAX_VALUE}},
                (int[][]) run("transpose_int32", ints, new int[3][2]));
        long[][] longs = {{1, 2, 3}, {Long.MIN_VALUE, 5, Long.MAX_VALUE}};
        assertArrayEquals(new long[][] {{1, Long.MIN_VALUE}, {2, 5}, {3, Long.MAX_VALUE}},
                (long[][]) run("transpose_int64", longs, new long[3][2]));
        short[][] shorts = {{1, 2, 3}, {Short.MIN_VALUE, 5, Short.MAX_VALUE}};
        assertArrayEquals(new short[][] {{1, Short.MIN_VALUE}, {2, 5}, {3, Short.MAX_VALUE}},
                (short[][]) run("transpose_int16", shorts, new short[3][2]));
        byte[][] bytes = {{1, 2, 3}, {-128, 5, 127}};
        byte[][] transposedBytes = {{1, -128}, {2, 5}, {3, 127}};
        assertArrayEquals(transposedBytes, (byte[][]) run("transpose_int8", bytes, new byte[3][2]));
        assertArrayEquals(transposedBytes, (byte[][]) run("transpose_uint8", bytes, new byte[3][2]));
        boolean[][] booleans = {{true, false, true}, {false, false, true}};
        assertArrayEquals(new boolean[][] {{true, false}, {false, false}, {true, true}},
                (boolean[][]) run("transpose_bool", booleans, new boolean[3][2]));
    }

    @Test
    public void typedBuffersOfEveryTypeAreTransposed() {
        FloatBuffer floats = Models.floats(6);
        run("transpose_float32", FloatBuffer.wrap(new float[] {1.5f, 2, 3, 4, 5, -6}), floats);
        assertEquals("the position is behind what was written", 6, floats.position());
        assertEquals(4, floats.get(1), 0);
        IntBuffer ints = IntBuffer.allocate(6);
        run("transpose_int32", IntBuffer.wrap(new int[] {1, 2, 3, 4, 5, 6}), ints);
        assertArrayEquals(new int[] {1, 4, 2, 5, 3, 6}, ints.array());
        LongBuffer longs = LongBuffer.allocate(6);
        run("transpose_int64", LongBuffer.wrap(new long[] {1, 2, 3, 4, 5, 6}), longs);
        assertArrayEquals(new long[] {1, 4, 2, 5, 3, 6}, longs.array());
        ShortBuffer shorts = ShortBuffer.allocate(6);
        run("transpose_int16", ShortBuffer.wrap(new short[] {1, 2, 3, 4, 5, 6}), shorts);
        assertArrayEquals(new short[] {1, 4, 2, 5, 3, 6}, shorts.array());
        for (String type : new String[] {"int8", "uint8", "bool"}) {
            ByteBuffer bytes = ByteBuffer.allocate(6);
            run("transpose_" + type, ByteBuffer.wrap(new byte[] {1, 0, 1, 0, 0, 1}), bytes);
            assertArrayEquals(new byte[] {1, 0, 0, 0, 1, 1}, bytes.array());
        }
    }

    @Test
    public void typedBuffersOfAnotherOrderOfBytesHaveTheSameNumbers() {
        ByteOrder other = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN;
        FloatBuffer input = ByteBuffer.allocateDirect(24).order(other).asFloatBuffer();
        input.put(new float[] {1.5f, 2, 3, 4, 5, -6});
        FloatBuffer output = ByteBuffer.allocateDirect(24).order(other).asFloatBuffer();
        run("transpose_float32", input, output);
        assertEquals(4, output.get(1), 0);
        assertEquals(-6, output.get(5), 0);
    }

    @Test
    public void buffersOfBytesStandForEveryTypeWhereverTheirPositionIs() {
        for (boolean isDirect : new boolean[] {false, true}) {
            ByteBuffer input = (isDirect ? ByteBuffer.allocateDirect(24) : ByteBuffer.allocate(24)).order(ByteOrder.nativeOrder());
            for (float[] row : FLOATS) {
                for (float value : row) {
                    input.putFloat(value);
                }
            }
            assertEquals(24, input.position());
            ByteBuffer output = (isDirect ? ByteBuffer.allocateDirect(32) : ByteBuffer.allocate(32)).order(ByteOrder.nativeOrder());
            output.position(8);
            run("transpose_float32", input, output);
            assertEquals("an input keeps its position", 24, input.position());
            assertEquals(32, output.position());
            assertEquals(0, output.getFloat(0), 0);
            assertEquals(1.5f, output.getFloat(8), 0);
            assertEquals(-6, output.getFloat(28), 0);
            ByteBuffer readOnly = input.asReadOnlyBuffer();
            output.clear();
            run("transpose_float32", readOnly, output);
            assertEquals(4, output.getFloat(4), 0);
        }
    }

    @Test
    public void buffersOfOtherSizesAndKindsAreRefused() {
        try (Interpreter interpreter = open("transpose_float32")) {
            float[][] output = new float[3][2];
            invalid("24 bytes", () -> interpreter.run(FloatBuffer.allocate(5), output));
            invalid("24 bytes", () -> interpreter.run(FloatBuffer.allocate(7), output));
            invalid("24 bytes", () -> interpreter.run(ByteBuffer.allocate(6), output));
            invalid("24 bytes", () -> interpreter.run(ByteBuffer.allocate(0), output));
            invalid("20 bytes", () -> interpreter.run(FLOATS, FloatBuffer.allocate(5)));
            Buffer nearlyFull = FloatBuffer.allocate(6).position(1);
            invalid("20 bytes", () -> interpreter.run(FLOATS, nearlyFull));
            invalid("8 bytes", () -> interpreter.run(FLOATS, FloatBuffer.allocate(100).limit(2)));
            invalid("read-only", () -> interpreter.run(FLOATS, ByteBuffer.allocate(24).asReadOnlyBuffer()));
            invalid("INT32", () -> interpreter.run(IntBuffer.allocate(6), output));
            invalid("INT64", () -> interpreter.run(FLOATS, LongBuffer.allocate(6)));
            invalid("DoubleBuffer", () -> interpreter.run(DoubleBuffer.allocate(3), output));
            invalid("CharBuffer", () -> interpreter.run(FLOATS, CharBuffer.allocate(12)));
            interpreter.run(FLOATS, output);
            assertArrayEquals(TRANSPOSED, output);
        }
    }

    @Test
    public void arraysOfOtherTypesAndShapesAreRefused() {
        try (Interpreter interpreter = open("transpose_float32")) {
            float[][] output = new float[3][2];
            invalid("INT32", () -> interpreter.run(new int[2][3], output));
            invalid("java.lang.Double", () -> interpreter.run(1.0, output));
            invalid("[[D", () -> interpreter.run(new double[2][3], output));
            invalid("[[C", () -> interpreter.run(new char[2][3], output));
            invalid("java.lang.Object", () -> interpreter.run(new Object[2], output));
            invalid("UINT8", () -> interpreter.run(new byte[2][3], output));
            invalid("STRING", () -> interpreter.run(new String[2][3], output));
            invalid("[[Ljava.lang.Float;", () -> interpreter.run(new Float[][] {{1f, 2f, 3f}, {4f, 5f, 6f}}, output));
            invalid("3 and 2", () -> interpreter.run(new float[][] {{1, 2, 3}, {4, 5}}, output));
            invalid("null", () -> interpreter.run(new float[][] {{1, 2, 3}, null}, output));
            invalid("lengths cannot be 0", () -> interpreter.run(new float[0][3], output));
            invalid("lengths cannot be 0", () -> interpreter.run(new float[2][0], output));
            invalid("null", () -> interpreter.run(null, output));
            invalid("[2, 3]", () -> interpreter.run(FLOATS, new float[2][3]));
            invalid("[6]", () -> interpreter.run(FLOATS, new float[6]));
            invalid("lengths", () -> interpreter.run(FLOATS, new float[][] {{1, 2}, {1}, {1}}));
            invalid("INT32", () -> interpreter.run(FLOATS, new int[3][2]));
            invalid("boxed", () -> interpreter.run(FLOATS, 1.0f));
            invalid("[[Ljava.lang.Float;", () -> interpreter.run(FLOATS, new Float[3][2]));
            interpreter.run(FLOATS, output);
            assertArrayEquals(TRANSPOSED, output);
        }
    }

    @Test
    public void signedAndUnsignedBytesAreTheSameInJava() {
        float[] output = (float[]) run("quantized", new byte[] {0, (byte) 128, (byte) 255, 64}, new float[4]);
        assertArrayEquals(new float[] {-64, 0, 63.5f, -32}, output, 0);
        invalid("INT32", () -> run("quantized", new int[4], new float[4]));
    }

    @Test
    public void scalarsAreBoxedAndComeOutInBuffers() {
        FloatBuffer output = (FloatBuffer) run("scalar", 2.5f, FloatBuffer.allocate(1));
        assertEquals(-2.5f, output.get(0), 0);
        run("scalar", FloatBuffer.wrap(new float[] {7}), output.clear());
        assertEquals(-7, output.get(0), 0);
        invalid("boxed", () -> run("scalar", 2.5f, 1f));
        invalid("INT32", () -> run("scalar", 2, output.clear()));
    }

    @Test
    public void anArrayOfAnotherShapeResizesTheInput() {
        try (Interpreter interpreter = open("square")) {
            float[][] output = new float[2][4];
            interpreter.run(new float[][] {{1, 2, 3, 4}, {5, 6, 7, 8}}, output);
            assertArrayEquals(new float[][] {{1, 4, 9, 16}, {25, 36, 49, 64}}, output);
            assertArrayEquals(new int[] {2, 4}, interpreter.getInputTensor(0).shape());
            float[][] one = new float[1][4];
            interpreter.run(new float[][] {{1, 2, 3, 4}}, one);
            assertArrayEquals(new float[][] {{1, 4, 9, 16}}, one);
        }
    }

    @Test
    public void shapesThatTheModelCannotTakeAreRefusedAndForgotten() {
        try (Interpreter interpreter = open("add")) {
            Map<Integer, Object> outputs = new HashMap<>();
            float[][][][] sum = new float[1][2][2][3];
            outputs.put(0, sum);
            Object[] fitting = {new float[1][2][2][3], new float[1][2][2][3]};
            Object[] other = {new float[1][2][2][3], new float[1][2][2][4]};
            invalid("shapes", () -> interpreter.runForMultipleInputsOutputs(other, outputs));
            assertArrayEquals(new int[] {1, 2, 2, 3}, interpreter.getInputTensor(1).shape());
            Arrays.fill(((float[][][][]) fitting[1])[0][1][1], 3);
            interpreter.runForMultipleInputsOutputs(fitting, outputs);
            assertEquals(3, sum[0][1][1][2], 0);
            // Buffers do not resize, so the shapes from before count.
            interpreter.runForMultipleInputsOutputs(new Object[] {FloatBuffer.allocate(12), FloatBuffer.allocate(12)}, outputs);
        }
    }

    @Test
    public void outputsWhoseShapeFollowsFromTheRunAreRead() {
        try (Interpreter interpreter = open("where")) {
            invalid("has no memory", () -> interpreter.getOutputTensor(0).asReadOnlyBuffer());
            for (int set = 1; set <= 4; set++) {
                boolean[] input = new boolean[4];
                Arrays.fill(input, 4 - set, 4, true);
                long[][] places = new long[set][1];
                interpreter.run(input, places);
                assertEquals(3, places[set - 1][0]);
                assertArrayEquals(new int[] {set, 1}, interpreter.getOutputTensor(0).shape());
                assertEquals(8 * set, interpreter.getOutputTensor(0).asReadOnlyBuffer().remaining());
            }
            interpreter.run(new boolean[4], null);
            assertArrayEquals(new int[] {0, 1}, interpreter.getOutputTensor(0).shape());
            assertEquals(0, interpreter.getOutputTensor(0).asReadOnlyBuffer().remaining());
            LongBuffer none = LongBuffer.allocate(4);
            interpreter.run(new boolean[4], none);
            assertEquals(0, none.position());
            invalid("[0, 1]", () -> interpreter.run(new boolean[4], new long[1][1]));
        }
    }

    @Test
    public void typesWithoutACounterpartAreNamed() {
        try (Interpreter interpreter = open("complex")) {
            invalid("\"x\" has the type 8", () -> interpreter.getInputTensor(0));
            invalid("\"x\" has the type 8", () -> interpreter.run(new float[2], null));
        }
    }

    @Test
    public void stringsAreArraysOfStringsOrOfBytes() {
        String[][] texts = {{"a", "", "\u00e4\ud83d\ude00"}, {"d", "e\0f", "g"}};
        String[][] swapped = {texts[1], texts[0]};
        assertArrayEquals(swapped, (String[][]) run("rows", texts, new String[2][3]));
        byte[][][] bytes = {{{1, -1}, {}, {0}}, {{2}, {0, 0}, {-128}}};
        assertArrayEquals(new byte[][][] {bytes[1], bytes[0]}, (byte[][][]) run("rows", bytes, new byte[2][3][]));
        byte[][][] encoded = new byte[2][3][];
        for (int i = 0; i < 6; i++) {
            encoded[i / 3][i % 3] = texts[i / 3][i % 3].getBytes(UTF_8);
        }
        assertArrayEquals(swapped, (String[][]) run("rows", encoded, new String[2][3]));
    }

    @Test
    public void stringsTakeOtherShapesAndRunAgain() {
        try (Interpreter interpreter = open("strings")) {
            assertEquals(DataType.STRING, interpreter.getInputTensor(0).dataType());
            for (int count = 1; count < 4; count++) {
                String[][] texts = new String[count][3];
                for (String[] row : texts) {
                    Arrays.fill(row, "text " + count);
                }
                String[][] result = new String[count][3];
                interpreter.run(texts, result);
                assertArrayEquals(texts, result);
                assertEquals(4 * (3 * count + 2) + 3 * count * 6, interpreter.getOutputTensor(0).numBytes());
            }
        }
    }

    @Test
    public void whatIsNoStringOfTheShapeIsRefused() {
        String[][] texts = {{"a", "b", "c"}, {"d", "e", "f"}};
        try (Interpreter interpreter = open("rows")) {
            invalid("FLOAT32", () -> interpreter.run(FLOATS, new String[2][3]));
            invalid("null element", () -> interpreter.run(new String[2][3], new String[2][3]));
            invalid("takes no buffer", () -> interpreter.run(ByteBuffer.allocateDirect(100), new String[2][3]));
            invalid("takes no buffer", () -> interpreter.run(texts, ByteBuffer.allocateDirect(100)));
            invalid("shape", () -> interpreter.run(texts, new String[3][2]));
            invalid("different lengths", () -> interpreter.run(new String[][] {{"a"}, {"b", "c"}}, new String[2][3]));
            invalid("FLOAT32", () -> interpreter.run(texts, new float[3][2]));
            invalid("A boxed value", () -> interpreter.run(texts, "text"));
            String[][] result = new String[2][3];
            interpreter.run(texts, result);
            assertArrayEquals(new String[][] {texts[1], texts[0]}, result);
        }
        try (Interpreter interpreter = open("transpose_float32")) {
            invalid("STRING", () -> interpreter.run(texts, new float[3][2]));
            invalid("STRING", () -> interpreter.run(FLOATS, new String[2][3]));
        }
    }

    @Test
    public void theDataOfAnInputIsItsFirstValue() {
        try (Interpreter interpreter = open("constant")) {
            interpreter.allocateTensors();
            FloatBuffer first = interpreter.getInputTensor(0).asReadOnlyBuffer().order(ByteOrder.nativeOrder()).asFloatBuffer();
            assertEquals(3f, first.get(2), 0f);
            float[] result = new float[4];
            interpreter.run(new float[] {5, 6, 7, 8}, result);
            assertArrayEquals(new float[] {25, 36, 49, 64}, result, 0f);
        }
    }
}
