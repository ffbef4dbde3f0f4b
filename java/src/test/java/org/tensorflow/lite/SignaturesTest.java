package org.tensorflow.lite;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.tensorflow.lite.Models.invalid;
import static org.tensorflow.lite.Models.open;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.junit.Test;

/** Runs by the names of signatures. */
public final class SignaturesTest {
    private static Map<String, Object> operands(float[] to, float[] from) {
        Map<String, Object> inputs = new HashMap<>();
        inputs.put("to", to);
        inputs.put("from", from);
        return inputs;
    }

    @Test
    public void signaturesAreListed() {
        try (Interpreter interpreter = open("signatures")) {
            assertArrayEquals(new String[] {"square", "subtract"}, interpreter.getSignatureKeys());
            assertArrayEquals(new String[] {"x"}, interpreter.getSignatureInputs("square"));
            assertArrayEquals(new String[] {"y"}, interpreter.getSignatureOutputs("square"));
            assertArrayEquals(new String[] {"from", "to"}, interpreter.getSignatureInputs("subtract"));
            assertArrayEquals(new String[] {"difference"}, interpreter.getSignatureOutputs("subtract"));
            invalid("Signature \"none\" not found", () -> interpreter.getSignatureInputs("none"));
            invalid("null", () -> interpreter.getSignatureOutputs(null));
        }
        try (Interpreter interpreter = open("square")) {
            assertArrayEquals(new String[0], interpreter.getSignatureKeys());
            invalid("signatureKey should not be null", () -> interpreter.runSignature(new HashMap<>(), new HashMap<>(), null));
        }
    }

    @Test
    public void signaturesRun() {
        try (Interpreter interpreter = open("signatures")) {
            float[] difference = new float[4];
            Map<String, Object> outputs = Collections.singletonMap("difference", difference);
            interpreter.runSignature(operands(new float[] {9, 8, 7, 6}, new float[] {1, 2, 3, 4}), outputs, "subtract");
            assertArrayEquals(new float[] {8, 6, 4, 2}, difference, 0);
            assertNotNull(interpreter.getLastNativeInferenceDurationNanoseconds());
            float[] squares = new float[4];
            interpreter.runSignature(Collections.singletonMap("x", new float[] {1, 2, 3, 4}),
                    Collections.singletonMap("y", squares), "square");
            assertArrayEquals(new float[] {1, 4, 9, 16}, squares, 0);
            // Its subgraph is the main one.
            float[] again = new float[4];
            interpreter.run(new float[] {5, 6, 7, 8}, again);
            assertArrayEquals(new float[] {25, 36, 49, 64}, again, 0);
            // An input keeps its value.
            interpreter.runSignature(Collections.singletonMap("from", new float[4]), outputs, "subtract");
            assertArrayEquals(new float[] {9, 8, 7, 6}, difference, 0);
            float[] two = new float[2];
            interpreter.runSignature(operands(new float[] {3, 3}, new float[] {1, 2}),
                    Collections.singletonMap("difference", two), "subtract");
            assertArrayEquals(new float[] {2, 1}, two, 0);
        }
    }

    @Test
    public void theOnlySignatureNeedsNoKey() {
        try (Interpreter interpreter = open("one_signature")) {
            float[] output = new float[4];
            Map<String, Object> inputs = Collections.singletonMap("in", new float[] {1, 2, 3, 4});
            interpreter.runSignature(inputs, Collections.singletonMap("out", output));
            assertArrayEquals(new float[] {-1, -2, -3, -4}, output, 0);
            interpreter.runSignature(inputs, Collections.singletonMap("out", output), null);
            interpreter.runSignature(inputs, Collections.singletonMap("out", output), "serving_default");
            assertEquals("x", interpreter.getInputTensorFromSignature("in", null).name());
            assertArrayEquals(new String[] {"in"}, interpreter.getSignatureInputs(null));
        }
    }

    @Test
    public void tensorsOfSignaturesAreFound() {
        try (Interpreter interpreter = open("signatures")) {
            Tensor to = interpreter.getInputTensorFromSignature("to", "subtract");
            assertEquals("a", to.name());
            assertEquals(0, to.index());
            assertArrayEquals(new int[] {-1}, to.shapeSignature());
            assertEquals("c", interpreter.getOutputTensorFromSignature("difference", "subtract").name());
            assertEquals(2, interpreter.getOutputTensorFromSignature("difference", "subtract").index());
            assertEquals("main_x", interpreter.getInputTensorFromSignature("x", "square").name());
            invalid("Input error: input x not found.", () -> interpreter.getInputTensorFromSignature("x", "subtract"));
            invalid("Input error: output to not found.", () -> interpreter.getOutputTensorFromSignature("to", "subtract"));
            invalid("Invalid output tensor name provided (null)",
                    () -> interpreter.getOutputTensorFromSignature(null, "subtract"));
            invalid("Invalid input tensor name provided (null)", () -> interpreter.getInputTensorFromSignature(null, "subtract"));
            invalid("not found", () -> interpreter.getInputTensorFromSignature("x", ""));
        }
    }

    @Test
    public void wrongRunsOfSignaturesAreRefused() {
        try (Interpreter interpreter = open("signatures")) {
            Map<String, Object> inputs = operands(new float[4], new float[4]);
            Map<String, Object> outputs = Collections.singletonMap("difference", new float[4]);
            invalid("Input error: SignatureDef signatureKey should not be null. null is only allowed if the model has a single"
                    + " Signature. Available Signatures: [square, subtract]", () -> interpreter.runSignature(inputs, outputs));
            invalid("not found", () -> interpreter.runSignature(inputs, outputs, "none"));
            invalid("null or empty", () -> interpreter.runSignature(null, outputs, "subtract"));
            invalid("null or empty", () -> interpreter.runSignature(new HashMap<>(), outputs, "subtract"));
            invalid("Outputs should not be null", () -> interpreter.runSignature(inputs, null, "subtract"));
            invalid("Input error: input x not found.",
                    () -> interpreter.runSignature(Collections.singletonMap("x", new float[4]), outputs, "subtract"));
            invalid("Input error: output y not found.",
                    () -> interpreter.runSignature(inputs, Collections.singletonMap("y", new float[4]), "subtract"));
            invalid("null", () -> interpreter.runSignature(operands(null, new float[4]), outputs, "subtract"));
            invalid("INT32",
                    () -> interpreter.runSignature(Collections.singletonMap("to", new int[4]), outputs, "subtract"));
            invalid("shapes", () -> interpreter.runSignature(operands(new float[3], new float[4]), outputs, "subtract"));
            invalid("[5]", () -> interpreter.runSignature(inputs, Collections.singletonMap("difference", new float[5]), "subtract"));
            interpreter.runSignature(inputs, outputs, "subtract");
        }
    }
}
