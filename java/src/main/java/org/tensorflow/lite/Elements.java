package org.tensorflow.lite;

import java.lang.reflect.Array;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;

/** What Java has for the elements of a tensor: arrays, buffers and boxed values. */
final class Elements {
    private Elements() {}

    /** Returns the type of the elements of an array, a typed buffer or a boxed value. A byte stands for UINT8 and INT8. */
    static DataType typeOf(Object value) {
        Class<?> type = value.getClass();
        while (type.isArray()) {
            type = type.getComponentType();
        }
        if (type == float.class || type == Float.class || value instanceof FloatBuffer) {
            return DataType.FLOAT32;
        } else if (type == int.class || type == Integer.class || value instanceof IntBuffer) {
            return DataType.INT32;
        } else if (type == byte.class || type == Byte.class) {
            return DataType.UINT8;
        } else if (type == long.class || type == Long.class || value instanceof LongBuffer) {
            return DataType.INT64;
        } else if (type == short.class || type == Short.class || value instanceof ShortBuffer) {
            return DataType.INT16;
        } else if (type == boolean.class || type == Boolean.class) {
            return DataType.BOOL;
        } else if (type == String.class) {
            return DataType.STRING;
        }
        throw new IllegalArgumentException("DataType error: cannot resolve DataType of " + value.getClass().getName());
    }

    /** Returns the shape of an array that stands for a tensor of a type; that of a scalar for a boxed value. */
    static int[] shapeOf(Object value, DataType tensor) {
        int rank = 0;
        for (Class<?> type = value.getClass(); type.isArray(); type = type.getComponentType()) {
            rank++;
        }
        int[] shape = new int[tensor == DataType.STRING ? Texts.rankOf(value.getClass()) : rank];
        Arrays.fill(shape, -1);
        measure(value, 0, shape);
        return shape;
    }

    private static void measure(Object value, int axis, int[] shape) {
        if (axis == shape.length) {
            return;
        }
        if (value == null) {
            throw new IllegalArgumentException("An array has a null part in dimension " + axis + ".");
        }
        int length = Array.getLength(value);
        if (length == 0) {
            throw new IllegalArgumentException("Array lengths cannot be 0. That of dimension " + axis + " is.");
        }
        if (shape[axis] != -1 && shape[axis] != length) {
            throw new IllegalArgumentException("The parts of an array have different lengths in dimension " + axis + ": "
                    + shape[axis] + " and " + length + ".");
        }
        shape[axis] = length;
        if (value instanceof Object[]) {
            for (Object part : (Object[]) value) {
                measure(part, axis + 1, shape);
            }
        }
    }

    /** Returns the number of bytes in a buffer, whatever its position and limit. */
    static long bytesOf(Buffer buffer) {
        return buffer.capacity() * (buffer instanceof ByteBuffer ? 1L : typeOf(buffer).byteSize());
    }

    /** Copies a buffer, an array or a boxed value to the memory of a tensor, which has its size. */
    static void write(Object value, DataType type, ByteBuffer memory) {
        memory.order(ByteOrder.nativeOrder());
        if (value instanceof Buffer) {
            // Duplicates have positions of their own, and those of bytes the order of the machine.
            Buffer source = duplicate((Buffer) value);
            source.clear();
            put(source, view(type, memory, source instanceof ByteBuffer));
        } else if (value.getClass().isArray()) {
            writeArray(value, view(type, memory, false));
        } else {
            writeScalar(value, memory);
        }
    }

    /** Copies the memory of a tensor to a buffer, from its position on, or an array of its shape. */
    static void read(ByteBuffer memory, DataType type, Object value) {
        memory.order(ByteOrder.nativeOrder());
        if (value instanceof Buffer) {
            put(view(type, memory, value instanceof ByteBuffer), (Buffer) value);
        } else {
            readArray(view(type, memory, false), value);
        }
    }

    /** Returns memory as elements of a type; bytes as they are. */
    private static Buffer view(DataType type, ByteBuffer memory, boolean isBytes) {
        if (isBytes) {
            return memory;
        }
        switch (type) {
            case FLOAT32:
                return memory.asFloatBuffer();
            case INT32:
                return memory.asIntBuffer();
            case INT64:
                return memory.asLongBuffer();
            case INT16:
                return memory.asShortBuffer();
            default:
                return memory;
        }
    }

    private static Buffer duplicate(Buffer buffer) {
        if (buffer instanceof ByteBuffer) {
            return ((ByteBuffer) buffer).duplicate();
        } else if (buffer instanceof FloatBuffer) {
            return ((FloatBuffer) buffer).duplicate();
        } else if (buffer instanceof IntBuffer) {
            return ((IntBuffer) buffer).duplicate();
        } else if (buffer instanceof LongBuffer) {
            return ((LongBuffer) buffer).duplicate();
        }
        return ((ShortBuffer) buffer).duplicate();
    }

    /** Copies what remains of a buffer to another one of the same kind. */
    private static void put(Buffer from, Buffer to) {
        if (from instanceof ByteBuffer) {
            ((ByteBuffer) to).put((ByteBuffer) from);
        } else if (from instanceof FloatBuffer) {
            ((FloatBuffer) to).put((FloatBuffer) from);
        } else if (from instanceof IntBuffer) {
            ((IntBuffer) to).put((IntBuffer) from);
        } else if (from instanceof LongBuffer) {
            ((LongBuffer) to).put((LongBuffer) from);
        } else {
            ((ShortBuffer) to).put((ShortBuffer) from);
        }
    }

    private static void writeArray(Object array, Buffer memory) {
        if (array instanceof float[]) {
            ((FloatBuffer) memory).put((float[]) array);
        } else if (array instanceof int[]) {
            ((IntBuffer) memory).put((int[]) array);
        } else if (array instanceof long[]) {
            ((LongBuffer) memory).put((long[]) array);
        } else if (array instanceof short[]) {
            ((ShortBuffer) memory).put((short[]) array);
        } else if (array instanceof byte[]) {
            ((ByteBuffer) memory).put((byte[]) array);
        } else if (array instanceof boolean[]) {
            for (boolean value : (boolean[]) array) {
                ((ByteBuffer) memory).put((byte) (value ? 1 : 0));
            }
        } else {
            for (Object part : parts(array)) {
                writeArray(part, memory);
            }
        }
    }

    private static void readArray(Buffer memory, Object array) {
        if (array instanceof float[]) {
            ((FloatBuffer) memory).get((float[]) array);
        } else if (array instanceof int[]) {
            ((IntBuffer) memory).get((int[]) array);
        } else if (array instanceof long[]) {
            ((LongBuffer) memory).get((long[]) array);
        } else if (array instanceof short[]) {
            ((ShortBuffer) memory).get((short[]) array);
        } else if (array instanceof byte[]) {
            ((ByteBuffer) memory).get((byte[]) array);
        } else if (array instanceof boolean[]) {
            boolean[] values = (boolean[]) array;
            for (int i = 0; i < values.length; i++) {
                values[i] = ((ByteBuffer) memory).get() != 0;
            }
        } else {
            for (Object part : parts(array)) {
                readArray(memory, part);
            }
        }
    }

    /** Returns the arrays that an array consists of. */
    private static Object[] parts(Object array) {
        return (Object[]) array;
    }

    /** Returns whether an array consists of boxed values, which have no place in memory that is copied from or to. */
    static boolean isOfBoxes(Object array) {
        Class<?> type = array.getClass();
        while (type.isArray()) {
            type = type.getComponentType();
        }
        return !type.isPrimitive();
    }

    private static void writeScalar(Object value, ByteBuffer memory) {
        if (value instanceof Float) {
            memory.putFloat((Float) value);
        } else if (value instanceof Integer) {
            memory.putInt((Integer) value);
        } else if (value instanceof Long) {
            memory.putLong((Long) value);
        } else if (value instanceof Short) {
            memory.putShort((Short) value);
        } else if (value instanceof Byte) {
            memory.put((Byte) value);
        } else {
            memory.put((byte) ((Boolean) value ? 1 : 0));
        }
    }
}
