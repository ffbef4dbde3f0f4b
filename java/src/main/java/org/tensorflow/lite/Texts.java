package org.tensorflow.lite;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The content of tensors of strings: as integers of 32 bits the number of strings, the offset of each and the end of the last
 * one, and then the strings. In Java an element is a {@link String}, whose bytes are UTF-8, or an array of bytes.
 */
final class Texts {
    private Texts() {}

    /** Returns whether the innermost arrays of a value are strings of bytes. */
    private static boolean isOfBytes(Class<?> type) {
        while (type.isArray()) {
            type = type.getComponentType();
        }
        return type == byte.class;
    }

    /** Returns whether a value stands for a tensor of strings: a string, an array of bytes, or arrays of these. */
    static boolean isText(Object value) {
        Class<?> type = value.getClass();
        while (type.isArray()) {
            type = type.getComponentType();
        }
        return type == String.class || value.getClass().isArray() && type == byte.class;
    }

    /** Returns the number of dimensions of the tensor that arrays of a type stand for. */
    static int rankOf(Class<?> type) {
        int rank = 0;
        for (Class<?> part = type; part.isArray(); part = part.getComponentType()) {
            rank++;
        }
        return isOfBytes(type) ? rank - 1 : rank;
    }

    /** Returns the content of a tensor with the strings of a value. */
    static byte[] write(Object value) {
        List<byte[]> texts = new ArrayList<>();
        collect(value, rankOf(value.getClass()), texts);
        long size = 4L * (texts.size() + 2);
        for (byte[] text : texts) {
            size += text.length;
        }
        // Java's longest arrays are some bytes shorter.
        if (size > Integer.MAX_VALUE - 8) {
            throw new IllegalArgumentException("The strings take " + size + " bytes, more than an array of Java's can have.");
        }
        ByteBuffer content = ByteBuffer.allocate((int) size).order(ByteOrder.nativeOrder());
        content.putInt(texts.size());
        int end = 4 * (texts.size() + 2);
        content.putInt(end);
        for (byte[] text : texts) {
            end += text.length;
            content.putInt(end);
        }
        for (byte[] text : texts) {
            content.put(text);
        }
        return content.array();
    }

    private static void collect(Object value, int rank, List<byte[]> texts) {
        if (rank > 0) {
            for (int i = 0; i < Array.getLength(value); i++) {
                collect(Array.get(value, i), rank - 1, texts);
            }
        } else if (value == null) {
            throw new IllegalArgumentException("An array has a null element.");
        } else if (value instanceof String) {
            texts.add(((String) value).getBytes(StandardCharsets.UTF_8));
        } else {
            texts.add((byte[]) value);
        }
    }

    /** Copies the content of a tensor to an array of its shape, whose elements are replaced. */
    static void read(byte[] content, Object array) {
        ByteBuffer bytes = ByteBuffer.wrap(content).order(ByteOrder.nativeOrder());
        bytes.position(4);
        fill(bytes, array, rankOf(array.getClass()), isOfBytes(array.getClass()));
    }

    /** Replaces the elements of an array. The position of the content is that of the offset of the next string. */
    private static void fill(ByteBuffer content, Object array, int rank, boolean isOfBytes) {
        for (int i = 0; i < Array.getLength(array); i++) {
            if (rank > 1) {
                fill(content, Array.get(array, i), rank - 1, isOfBytes);
                continue;
            }
            int start = content.getInt();
            int end = content.getInt(content.position());
            byte[] text = new byte[end - start];
            ByteBuffer source = content.duplicate();
            source.position(start);
            source.get(text);
            Array.set(array, i, isOfBytes ? text : new String(text, StandardCharsets.UTF_8));
        }
    }
}
