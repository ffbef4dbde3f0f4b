package org.tensorflow.lite;

/** The type of a tensor's elements. */
public enum DataType {
    /** Floats of 32 bits; {@code float} in Java. */
    FLOAT32(1, "float", 4),
    /** Signed integers of 32 bits; {@code int} in Java. */
    INT32(2, "int", 4),
    /** Unsigned integers of 8 bits; {@code byte} in Java, with the same bits. */
    UINT8(3, "byte", 1),
    /** Signed integers of 64 bits; {@code long} in Java. */
    INT64(4, "long", 8),
    /** Strings of any bytes; {@code String}, whose bytes are UTF-8, or {@code byte[]} in Java. */
    STRING(5, "string", -1),
    /** Truth values, a byte each; {@code boolean} in Java. */
    BOOL(6, "bool", -1),
    /** Signed integers of 16 bits; {@code short} in Java. */
    INT16(7, "short", 2),
    /** Signed integers of 8 bits; {@code byte} in Java. */
    INT8(9, "byte", 1);

    private final int code;
    private final String javaName;
    private final int byteSize;

    DataType(int code, String javaName, int byteSize) {
        this.code = code;
        this.javaName = javaName;
        this.byteSize = byteSize;
    }

    /** Returns the size of an element in bytes; -1 for {@link #STRING} and, as Java's size is not defined, {@link #BOOL}. */
    public int byteSize() {
        return byteSize;
    }

    /** Returns the name of the type in Java. Two types have the same name if Java does not tell them apart. */
    String javaName() {
        return javaName;
    }

    /** Returns the type with a number of TensorFlow Lite's. */
    static DataType of(int code, String tensor) {
        for (DataType type : values()) {
            if (type.code == code) {
                return type;
            }
        }
        throw new IllegalArgumentException("The tensor \"" + tensor + "\" has the type " + code
                + " of TensorFlow Lite's, which has no counterpart in DataType.");
    }
}
