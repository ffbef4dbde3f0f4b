package org.tensorflow.lite;

import java.lang.ref.WeakReference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.tensorflow.lite.attache.Natives;

/** A tensor of an interpreter. Methods that others do not see are called with the lock of the session. */
final class TensorImpl implements Tensor {
    private static final ByteBuffer EMPTY = ByteBuffer.allocateDirect(0).asReadOnlyBuffer();

    /** Keeps the native memory while somebody has the tensor. */
    private final Interpreter interpreter;

    private final Session session;
    private final long handle;
    private final String name;
    private final DataType type;
    /** What readers of {@link #asReadOnlyBuffer} see, while there are some. */
    private WeakReference<ByteBuffer> shown = new WeakReference<>(null);

    TensorImpl(Interpreter interpreter, Session session, long handle) {
        this.interpreter = interpreter;
        this.session = session;
        this.handle = handle;
        name = Natives.text(Natives.name(handle));
        type = DataType.of(Natives.type(handle), name);
    }

    /** Whether this is the tensor at an address. */
    boolean is(long other) {
        return handle == other;
    }

    @Override
    public DataType dataType() {
        synchronized (session) {
            session.handle();
            return type;
        }
    }

    @Override
    public int numDimensions() {
        return shape().length;
    }

    @Override
    public int numBytes() {
        synchronized (session) {
            session.handle();
            return bytes();
        }
    }

    @Override
    public int numElements() {
        int count = 1;
        for (int extent : shape()) {
            count = Math.multiplyExact(count, extent);
        }
        return count;
    }

    @Override
    public int[] shape() {
        synchronized (session) {
            session.handle();
            return Natives.shape(handle);
        }
    }

    @Override
    public int[] shapeSignature() {
        synchronized (session) {
            session.handle();
            return Natives.shapeSignature(handle);
        }
    }

    @Override
    public int index() {
        synchronized (session) {
            return Natives.index(session.handle(), handle);
        }
    }

    @Override
    public String name() {
        synchronized (session) {
            session.handle();
            return name;
        }
    }

    @Override
    public QuantizationParams quantizationParams() {
        synchronized (session) {
            session.handle();
            return new QuantizationParams(Natives.scale(handle), Natives.zeroPoint(handle));
        }
    }

    @Override
    public ByteBuffer asReadOnlyBuffer() {
        synchronized (session) {
            session.handle();
            ByteBuffer memory = memory();
            ByteBuffer copy = shown.get();
            if (copy == null || copy.capacity() != memory.capacity()) {
                copy = ByteBuffer.allocateDirect(memory.capacity());
                shown = new WeakReference<>(copy);
            }
            show(memory, copy);
            return copy.asReadOnlyBuffer().order(ByteOrder.nativeOrder());
        }
    }

    @Override
    public String toString() {
        return "Tensor \"" + name + "\" of " + type;
    }

    /** Brings up to date what readers see. */
    void refresh() {
        ByteBuffer copy = shown.get();
        if (copy == null) {
            return;
        }
        if (copy.capacity() == bytes()) {
            show(memory(), copy);
        } else {
            // Readers keep what they have; the next one gets a buffer of the new size.
            shown = new WeakReference<>(null);
        }
    }

    private static void show(ByteBuffer memory, ByteBuffer copy) {
        ByteBuffer target = copy.duplicate();
        target.clear();
        target.put(memory);
    }

    private int bytes() {
        long size = Natives.byteSize(handle);
        if (size > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(this + " has " + size + " bytes, more than a buffer of Java's can have.");
        }
        return (int) size;
    }

    private ByteBuffer memory() {
        if (bytes() == 0) {
            return EMPTY.duplicate();
        }
        ByteBuffer memory = Natives.memory(handle);
        if (memory == null) {
            throw new IllegalArgumentException(
                    this + " has no memory: call allocateTensors or, if its size follows from a run, run the model first.");
        }
        return memory;
    }

    /** Sets the extents. They take effect when tensors are allocated. */
    void resize(int[] shape) {
        if (!Natives.resize(handle, shape)) {
            throw new IllegalArgumentException(
                    this + " cannot have the extents " + Arrays.toString(shape) + ": " + Natives.message());
        }
    }

    /** Checks that extents differ from the present ones only where the model leaves them to the program. */
    void checkOpen(int[] shape) {
        int[] signature = Natives.shapeSignature(handle);
        boolean fits = signature.length == shape.length;
        for (int i = 0; fits && i < shape.length; i++) {
            fits = signature[i] == -1 || signature[i] == shape[i];
        }
        if (!fits) {
            throw new IllegalArgumentException("ResizeInputTensorStrict only allows mutating unknown dimensions identified"
                    + " by -1. The signature of " + this + " is " + Arrays.toString(signature) + ", not "
                    + Arrays.toString(shape) + ".");
        }
    }

    /** Returns the shape that the tensor has to get to take a value; null if it has it. Checks the value. */
    int[] newShapeFor(Object value) {
        check(value, "input");
        if (Natives.isConstant(handle)) {
            throw new IllegalArgumentException(this + " is a constant of the model, and cannot be set.");
        }
        if (value instanceof Buffer) {
            return null;
        }
        int[] shape = Elements.shapeOf(value, type);
        return Arrays.equals(shape, Natives.shape(handle)) ? null : shape;
    }

    /** Checks that a value is of a kind that stands for tensors of this type. */
    void check(Object value, String what) {
        if (value == null) {
            throw new IllegalArgumentException("The value of the " + what + " \"" + name + "\" is null.");
        }
        boolean isOutput = what.equals("output");
        if (isOutput && value instanceof Buffer && ((Buffer) value).isReadOnly()) {
            throw new IllegalArgumentException("The buffer for the output \"" + name + "\" is read-only.");
        }
        if (type == DataType.STRING && value instanceof Buffer) {
            throw new IllegalArgumentException(
                    this + " takes no buffer: strings are String and byte[], in arrays of the shape of the tensor.");
        }
        if (value instanceof ByteBuffer || type == DataType.STRING && isTextFor(value, isOutput)) {
            return;
        }
        DataType given = Elements.typeOf(value);
        if (!given.javaName().equals(type.javaName())) {
            throw new IllegalArgumentException("Cannot convert between a TensorFlowLite tensor with type " + type
                    + " and a Java object of type " + value.getClass().getName()
                    + " (which is compatible with the TensorFlowLite type " + given + "). The tensor is \"" + name + "\".");
        }
        if (value.getClass().isArray() && Elements.isOfBoxes(value)) {
            throw new IllegalArgumentException("DataType error: cannot resolve DataType of " + value.getClass().getName()
                    + ". Use an array of " + type.javaName() + " for \"" + name + "\".");
        }
        if (isOutput && !(value instanceof Buffer) && !value.getClass().isArray()) {
            throw new IllegalArgumentException(
                    "A boxed value cannot take the output \"" + name + "\": use a buffer of one element.");
        }
    }

    /** Returns whether a value stands for strings. An output replaces elements, so that it takes an array of them. */
    private static boolean isTextFor(Object value, boolean isOutput) {
        return Texts.isText(value) && !(isOutput && Texts.rankOf(value.getClass()) == 0);
    }

    /** Copies a value, whose kind and shape were checked, to the tensor. */
    void set(Object value) {
        if (type == DataType.STRING) {
            if (!Natives.setStrings(handle, Texts.write(value))) {
                throw new IllegalArgumentException(this + " cannot take the strings: " + Natives.message());
            }
            refresh();
            return;
        }
        if (value instanceof Buffer && Elements.bytesOf((Buffer) value) != bytes()) {
            throw new IllegalArgumentException("Cannot copy to a TensorFlowLite tensor (" + name + ") with " + bytes()
                    + " bytes from a Java Buffer with " + Elements.bytesOf((Buffer) value) + " bytes.");
        }
        if (bytes() > 0) {
            Elements.write(value, type, memory());
            refresh();
        }
    }

    /** Copies the tensor to a value, whose kind was checked. */
    void get(Object value) {
        if (value instanceof Buffer) {
            Buffer buffer = (Buffer) value;
            long room = Elements.bytesOf(buffer) / Math.max(buffer.capacity(), 1) * buffer.remaining();
            if (bytes() > room) {
                throw new IllegalArgumentException("Cannot copy from a TensorFlowLite tensor (" + name + ") with " + bytes()
                        + " bytes to a Java Buffer with " + room + " bytes behind its position.");
            }
        } else {
            int[] shape = Elements.shapeOf(value, type);
            if (!Arrays.equals(shape, Natives.shape(handle))) {
                throw new IllegalArgumentException("Cannot copy from a TensorFlowLite tensor (" + name + ") with shape "
                        + Arrays.toString(Natives.shape(handle)) + " to a Java object with shape " + Arrays.toString(shape)
                        + ".");
            }
        }
        if (type == DataType.STRING) {
            readStrings(value);
        } else if (bytes() > 0) {
            Elements.read(memory(), type, value);
        }
    }

    private void readStrings(Object array) {
        byte[] content = Natives.strings(handle);
        if (content == null) {
            throw new IllegalArgumentException(this + " has no strings: run the model first.");
        }
        Texts.read(content, array);
    }
}
