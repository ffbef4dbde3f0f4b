package org.tensorflow.lite;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.Test;
import org.tensorflow.lite.gpu.CompatibilityList;
import org.tensorflow.lite.gpu.GpuDelegate;

/** Machines without the native library or without a GPU, in processes of their own. */
public final class LibraryTest {
    /** Returns what a process with one of the programs below prints. */
    private static String printed(String program, boolean hasSoftware, String... options) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(new File(System.getProperty("java.home"), "bin/java").getPath());
        command.addAll(Arrays.asList(options));
        command.addAll(Arrays.asList("-cp", System.getProperty("java.class.path"), LibraryTest.class.getName(), program));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        Map<String, String> variables = builder.environment();
        if (!hasSoftware) {
            variables.remove("ATTACHE_SOFTWARE");
        }
        Process process = builder.start();
        StringBuilder text = new StringBuilder();
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                text.append(line).append('\n');
            }
        }
        assertEquals(text.toString(), 0, process.waitFor());
        return text.toString();
    }

    /** The programs. */
    public static void main(String[] arguments) {
        if (arguments[0].equals("load")) {
            for (int i = 0; i < 2; i++) {
                try {
                    TensorFlowLite.init();
                    System.out.println("loaded");
                } catch (UnsatisfiedLinkError error) {
                    System.out.println("refused: " + error.getMessage());
                }
            }
            return;
        }
        try (CompatibilityList list = new CompatibilityList()) {
            System.out.println("supported: " + list.isDelegateSupportedOnThisDevice());
        }
        try (GpuDelegate delegate = new GpuDelegate()) {
            System.out.println("made: " + (delegate.getNativeHandle() != 0));
        } catch (IllegalArgumentException error) {
            System.out.println("refused: " + error.getMessage());
        }
    }

    @Test
    public void aLibraryThatIsNotThereIsAnErrorAtEachUse() throws Exception {
        String text = printed("load", true, "-Dattache.native.path=" + File.separator + "no such folder");
        assertEquals(text, 3, text.split("refused: ").length);
        assertTrue(text, text.contains("no such folder"));
    }

    @Test
    public void theListAndTheDelegateAgreeWhetherThereIsAGpu() throws Exception {
        String[] options = System.getProperty("attache.native.path") == null
                ? new String[0]
                : new String[] {"-Dattache.native.path=" + System.getProperty("attache.native.path")};
        String software = printed("gpu", true, options);
        assertTrue(software, software.contains("supported: true") && software.contains("made: true"));
        String hardware = printed("gpu", false, options);
        boolean isThere = hardware.contains("supported: true");
        assertTrue(hardware, isThere ? hardware.contains("made: true") : hardware.contains("refused: No GPU delegate"));
    }
}
