package org.tensorflow.lite.gpu;

import org.tensorflow.lite.Delegate;
import org.tensorflow.lite.DelegateFactory;
import org.tensorflow.lite.RuntimeFlavor;
import org.tensorflow.lite.attache.Natives;

/** Makes a {@link GpuDelegate} for each interpreter. */
public class GpuDelegateFactory implements DelegateFactory {
    private final Options options;

    /** Options of the GPU delegate. */
    public static class Options {
        /** Prefer that a single run ends early. */
        public static final int INFERENCE_PREFERENCE_FAST_SINGLE_ANSWER = 0;
        /** Prefer that many runs end soon. */
        public static final int INFERENCE_PREFERENCE_SUSTAINED_SPEED = 1;

        /** Flags of TensorFlow Lite's C interface. */
        private static final long ENABLE_QUANTIZED = 1;
        private static final long ENABLE_SERIALIZATION = 8;

        /** A graphics interface. */
        public enum GpuBackend {
            /** Any that the system has. */
            UNSET(0),
            /** OpenCL, through which nothing runs here: any other is used. */
            OPENCL(1),
            /** OpenGL. Any interface that the system has is used. */
            OPENGL(2);

            private final int value;

            GpuBackend(int value) {
                this.value = value;
            }

            /** Returns the number of TensorFlow Lite's. */
            public int value() {
                return value;
            }
        }

        private boolean isPrecisionLossAllowed = true;
        private boolean areQuantizedModelsAllowed = true;
        private int inferencePreference = INFERENCE_PREFERENCE_FAST_SINGLE_ANSWER;
        private String serializationDir;
        private String modelToken;
        private GpuBackend forceBackend = GpuBackend.UNSET;

        /** Makes default options. */
        public Options() {}

        /** Sets whether values may be stored in 16 bits; by default true. False computes everything in 32 bits. */
        public Options setPrecisionLossAllowed(boolean precisionLossAllowed) {
            isPrecisionLossAllowed = precisionLossAllowed;
            return this;
        }

        /** Returns whether values may be stored in 16 bits. */
        public boolean isPrecisionLossAllowed() {
            return isPrecisionLossAllowed;
        }

        /** Sets whether quantized models may run on the GPU; by default true. Without effect: they run in any case. */
        public Options setQuantizedModelsAllowed(boolean quantizedModelsAllowed) {
            areQuantizedModelsAllowed = quantizedModelsAllowed;
            return this;
        }

        /** Returns what {@link #setQuantizedModelsAllowed} was called with; by default true. */
        public boolean areQuantizedModelsAllowed() {
            return areQuantizedModelsAllowed;
        }

        /** Sets what is preferred: one of the constants of this class. */
        public Options setInferencePreference(int preference) {
            inferencePreference = preference;
            return this;
        }

        /** Returns what is preferred. */
        public int getInferencePreference() {
            return inferencePreference;
        }

        /**
         * Stores what was prepared, so that the next start is faster.
         *
         * @param serializationDir a folder that only this program writes to
         * @param modelToken a text that stands for the content of the model
         */
        public Options setSerializationParams(String serializationDir, String modelToken) {
            this.serializationDir = serializationDir;
            this.modelToken = modelToken;
            return this;
        }

        /** Returns the folder in which is stored what was prepared; null for none. */
        public String getSerializationDir() {
            return serializationDir;
        }

        /** Returns the text that stands for the content of the model; null for none. */
        public String getModelToken() {
            return modelToken;
        }

        /** Asks for a graphics interface. Without effect: any that the system has is used. */
        public Options setForceBackend(GpuBackend forceBackend) {
            if (forceBackend == null) {
                throw new IllegalArgumentException("The graphics interface is null.");
            }
            this.forceBackend = forceBackend;
            return this;
        }

        /** Returns the graphics interface that was asked for. */
        public GpuBackend getForceBackend() {
            return forceBackend;
        }

        /** Returns the address of a new native delegate; 0 on an error. */
        long create() {
            boolean isStored = serializationDir != null && modelToken != null;
            long flags = (areQuantizedModelsAllowed ? ENABLE_QUANTIZED : 0) | (isStored ? ENABLE_SERIALIZATION : 0);
            return Natives.createGpuDelegate(isPrecisionLossAllowed, inferencePreference, flags,
                    isStored ? Natives.bytes(serializationDir) : null, isStored ? Natives.bytes(modelToken) : null);
        }
    }

    /** Makes a factory of delegates with default options. */
    public GpuDelegateFactory() {
        this(new Options());
    }

    /** Makes a factory of delegates with options. */
    public GpuDelegateFactory(Options options) {
        if (options == null) {
            throw new IllegalArgumentException("The options are null.");
        }
        this.options = options;
    }

    /**
     * Makes a delegate.
     *
     * @throws IllegalArgumentException as {@link GpuDelegate#GpuDelegate(Options)}
     * @throws IllegalStateException for {@link RuntimeFlavor#SYSTEM}, which is part of Google Play services
     */
    @Override
    public Delegate create(RuntimeFlavor runtimeFlavor) {
        if (runtimeFlavor == null) {
            throw new IllegalArgumentException("The runtime is null.");
        }
        if (runtimeFlavor == RuntimeFlavor.SYSTEM) {
            throw new IllegalStateException("There is no GPU delegate of the system here: it is part of Google Play services.");
        }
        return new GpuDelegate(options);
    }
}
