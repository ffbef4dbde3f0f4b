package org.tensorflow.lite.attache;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Finds and loads the native library: in the folder that the system property {@value #FOLDER_PROPERTY} names, else in the
 * jar, else where {@link System#loadLibrary} looks, as on Android.
 */
final class NativeLibrary {
    static final String FOLDER_PROPERTY = "attache.native.path";

    /** The libraries in the order in which they are loaded. The second one needs the first. */
    private static final String[] NAMES = {"attache_c", "attache_jni"};

    private NativeLibrary() {}

    static void load() {
        String folder = System.getProperty(FOLDER_PROPERTY);
        if (folder != null) {
            for (String name : NAMES) {
                System.load(java.nio.file.Paths.get(folder, System.mapLibraryName(name)).toAbsolutePath().toString());
            }
        } else if (NativeLibrary.class.getResource(resource(NAMES[0])) != null) {
            loadFromJar();
        } else {
            loadFromSystem();
        }
    }

    private static void loadFromSystem() {
        try {
            for (String name : NAMES) {
                System.loadLibrary(name);
            }
        } catch (UnsatisfiedLinkError error) {
            UnsatisfiedLinkError explained = new UnsatisfiedLinkError("The native library of Attaché is not in the jar for "
                    + platform() + ", nor where System.loadLibrary looks; name its folder with -D" + FOLDER_PROPERTY + "=FOLDER. "
                    + error.getMessage());
            explained.initCause(error);
            throw explained;
        }
    }

    /** Extracts the libraries to a folder that only the user can read, and removes them as soon as they are loaded. */
    private static void loadFromJar() {
        try {
            // Readable by the user alone.
            Path folder = Files.createTempDirectory("attache");
            try {
                for (String name : NAMES) {
                    try (InputStream source = NativeLibrary.class.getResourceAsStream(resource(name))) {
                        Files.copy(source, folder.resolve(System.mapLibraryName(name)));
                    }
                }
                for (String name : NAMES) {
                    System.load(folder.resolve(System.mapLibraryName(name)).toString());
                }
            } finally {
                for (String name : NAMES) {
                    Files.deleteIfExists(folder.resolve(System.mapLibraryName(name)));
                }
                Files.deleteIfExists(folder);
            }
        } catch (IOException error) {
            UnsatisfiedLinkError explained = new UnsatisfiedLinkError("The native library of Attaché cannot be extracted to "
                    + System.getProperty("java.io.tmpdir") + " (-Djava.io.tmpdir=FOLDER names another folder): " + error);
            explained.initCause(error);
            throw explained;
        }
    }

    private static String resource(String name) {
        return "/native/" + platform() + "/" + System.mapLibraryName(name);
    }

    /** Returns the name of the system and its processor, for instance {@code linux-x86_64}. */
    private static String platform() {
        String system = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
        String processor = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
        String systemName = system.startsWith("windows") ? "windows" : system.startsWith("mac") ? "macos" : system;
        return systemName + "-" + (processor.equals("amd64") ? "x86_64" : processor);
    }
}
