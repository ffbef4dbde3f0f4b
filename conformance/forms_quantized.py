"""Quantized tensors: conversions between types and scales, 16-bit forms, operands of different scales.

Only the reference kernels are used, since the results are compared exactly and the other kernels round in other places.
The kind is the type of the elements that the form tests.
"""

import numpy as np

from model_writer import Activation, Padding, options, schema

TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "f32": np.float32}
REFERENCE = ("reference",)
SYMMETRIC = (2.0**-12, 0)


def every(kind):
    """All 8-bit integers, or some 16-bit or 32-bit integers including the limits of the type."""
    limits = np.iinfo(TYPES[kind])
    count = 256 if limits.bits == 8 else 301
    return np.linspace(limits.min, limits.max, count).round().astype(np.int64).astype(TYPES[kind])


def some(draw, kind, *shape):
    """Random integers from the whole range of the type."""
    limits = np.iinfo(TYPES[kind])
    return draw(*shape, dtype=np.float64, low=limits.min, high=limits.max).astype(TYPES[kind])


def scaled(model, index, scale, zero_point=0, axis=0):
    """Gives a tensor its scale and zero point, or several of them along an axis; returns the tensor."""
    quantization = schema.QuantizationParametersT()
    quantization.scale = [float(one) for one in np.atleast_1d(scale)]
    quantization.zeroPoint = [int(one) for one in np.atleast_1d(zero_point)]
    quantization.quantizedDimension = axis
    model.tensors[index].quantization = quantization
    return index


def stored(suite, operator, form, inputs, result, table=None, version=1, constants=(), kernels=REFERENCE, **fields):
    """A case of one operator. `inputs` are (kind, shape or None for all integers, scale and zero point), `result` is the
    kind with scale and zero point, or None for a boolean result; `constants` are further inputs.
    """
    def build(model, draw):
        def add(kind, shape, *quantization):
            value = every(kind) if shape is None else some(draw, kind, *shape)
            return scaled(model, model.input(value), *quantization)

        indices = [add(*one) for one in inputs] + [model.constant(value) for value in constants]
        chosen = options(table, **fields) if table else None
        dtype = np.bool_ if result is None else TYPES[result[0]]
        index = model.operator(operator, indices, chosen, version, dtype=dtype)
        return [index if result is None else scaled(model, index, *result[1:])]

    suite.case(operator, form, build, inputs[0][0], kernels)


def conversions(suite):
    for kind, scale, zero_point in (("i8", 0.37, -5), ("u8", 0.02, 131), ("i16", 0.001, 0)):
        def from_reals(model, draw):
            reals = (draw(40, low=-300, high=300) * scale).astype(np.float32)
            halves = ((np.arange(-20, 20) + 0.5) * scale).astype(np.float32)
            index = model.operator("QUANTIZE", [model.input(np.concatenate([reals, halves]))], dtype=TYPES[kind])
            return [scaled(model, index, scale, zero_point)]

        suite.case("QUANTIZE", f"to_{kind}", from_reals, "f32", REFERENCE)
        stored(suite, "DEQUANTIZE", "every", [(kind, None, scale, zero_point)], ("f32", 1), version=3)
    for kind, points in (("i8", (3, -4, 0)), ("u8", (0, 128, 255))):
        stored(suite, "DEQUANTIZE", "by_channel", [(kind, (2, 3, 2), (0.5, 0.01, 3), points, 1)], ("f32", 1), version=5)
    for source, target, form in (
        (("i8", 0.1, 3), ("i8", 0.07, -9), "i8_to_finer_i8"), (("i8", 0.1, 3), ("u8", 0.1, 131), "i8_to_u8"),
        (("u8", 0.1, 131), ("i8", 0.1, 3), "u8_to_i8"), (("u8", 0.02, 10), ("u8", 0.3, 99), "u8_to_coarser_u8"),
        (("i8", 0.1, 3), ("i16", 0.001, 0), "i8_to_i16"), (("i16", 0.001, 0), ("i8", 0.2, 7), "i16_to_i8"),
        (("i16", 0.001, 0), ("i16", 0.003, 0), "i16_to_coarser_i16"), (("i16", 0.001, 0), ("i32", 1e-5, 0), "i16_to_i32"),
        (("i32", 1e-9, 0), ("i8", 0.02, 7), "i32_to_i8"), (("i32", 1e-9, 0), ("i16", 1e-4, 0), "i32_to_i16"),
    ):
        stored(suite, "QUANTIZE", form, [(source[0], None, *source[1:])], target, version=2)


def packed(numbers, bits):
    """Integers of less than 8 bits, several a byte, the first in the lowest bits."""
    each = 8 // bits
    numbers = np.append(numbers.ravel().astype(np.int64) & ((1 << bits) - 1), np.zeros(-numbers.size % each, np.int64)).reshape(-1, each)
    return (numbers << np.arange(0, 8, bits)).sum(1).astype(np.uint8)


def nibbles(suite):
    def case(form, type_name, shape, *quantization, version=6):
        def build(model, draw):
            bits = int(type_name[-1])
            values = model.constant((37 * np.arange((np.prod(shape) * bits + 7) // 8)).astype(np.uint8))
            tensor = model.tensors[values]
            tensor.type, tensor.shape = getattr(schema.TensorType, type_name), list(shape)
            return [model.operator("DEQUANTIZE", [scaled(model, values, *quantization)], version=version)]

        suite.case("DEQUANTIZE", form, build, "i4", REFERENCE)

    case("nibbles", "INT4", (13,), 0.25, 1)
    case("nibbles_by_channel", "INT4", (3, 5), (0.25, 3, 0.01), (0, 0, 0), 0)
    case("nibbles_without_sign", "UINT4", (13,), 0.25, 9)
    case("nibbles_without_sign_by_channel", "UINT4", (2, 3), (0.25, 3, 0.01), (0, 15, 7), 1)
    case("quarter_bytes", "INT2", (3, 7), 0.25, -1)
    case("quarter_bytes_by_channel", "INT2", (2, 3, 2), (0.25, 3, 0.01), (0, 0, 0), 1)

    for name, point in (("INT4", -2), ("UINT4", 5)):
        for version in (4, 5, 6):
            def to_nibbles(model, draw):
                index = model.operator("QUANTIZE", [model.input(draw(3, 7, low=-5, high=5))], version=version, dtype=np.int8)
                model.tensors[index].type = getattr(schema.TensorType, name)
                return [model.operator("DEQUANTIZE", [scaled(model, index, 0.4, point)], version=6)]

            suite.case("QUANTIZE", f"to_{name.lower()}_{version}", to_nibbles, "f32", REFERENCE)


def different_scales(suite):
    stored(suite, "CONCATENATION", "different_scales",
           [("u8", (2, 3), 0.1, 3), ("u8", (2, 4), 0.023, 200), ("u8", (2, 2), 0.05, 128)], ("u8", 0.05, 128),
           "ConcatenationOptions", axis=1)
    for operator, table in (
        ("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("LESS", "LessOptions"),
        ("LESS_EQUAL", "LessEqualOptions"), ("GREATER", "GreaterOptions"), ("GREATER_EQUAL", "GreaterEqualOptions"),
    ):
        for kind, point in (("i8", -100), ("u8", 28)):
            stored(suite, operator, "different_scales",
                   [(kind, (60,), 0.05, point), (kind, (60,), 0.1, point + 64)], None, table, version=2)
        stored(suite, operator, "same_scale", [("i8", (3, 20), 0.05, 9), ("i8", (20,), 0.05, 9)], None, table, version=2)
    for kind in ("i8", "u8"):
        for operator, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            stored(suite, operator, "broadcast_relu6", [(kind, (3, 1, 9), 0.04, 30), (kind, (4, 1), 0.011, 77)],
                   (kind, 0.05, 5), table, version=2, fusedActivationFunction=Activation.RELU6)


def wide_arithmetic(suite):
    pair = lambda left, right: [("i16", (2, 3, 7), left, 0), ("i16", (3, 1), right, 0)]
    for operator, table in (("ADD", "AddOptions"), ("SUB", "SubOptions")):
        stored(suite, operator, "any_scales", pair(0.001, 0.0004), ("i16", 0.0012, 0), table, version=3,
               potScaleInt16=False)
        stored(suite, operator, "powers_that_are_none", pair(0.001, 0.0004), ("i16", 0.0012, 0), table, version=3)
    alike = [("i16", (40,), 2.0**-8, 0), ("i16", (40,), 2.0**-10, 0)]
    stored(suite, "ADD", "powers_of_two", alike, ("i16", 2.0**-8, 0), "AddOptions", version=3)
    stored(suite, "ADD", "powers_of_two_left", alike[::-1], ("i16", 2.0**-8, 0), "AddOptions", version=3,
           fusedActivationFunction=Activation.RELU)
    stored(suite, "MUL", "any_scales", pair(0.001, 0.0004), ("i16", 0.01, 0), "MulOptions", version=4)
    stored(suite, "MAXIMUM", "one_scale", pair(0.001, 0.001), ("i16", 0.001, 0), "MaximumMinimumOptions", version=3)


def zero_scales(suite):
    """An input of scale 0, as converters write it for an initial state of zeros. LiteRT ends the process for sums."""
    for kind in ("i8", "i16"):
        operands = [(kind, (2, 20), 0, 0), (kind, (2, 20), 0.01, 0)]
        version = 4 if kind == "i16" else 2
        stored(suite, "MUL", "scale_of_0", operands, (kind, 0.02, 0), "MulOptions", version=version)

        def dense(model, draw):
            data = scaled(model, model.input(some(draw, kind, 3, 8)), 0)
            weights = scaled(model, model.constant(some(draw, "i8", 5, 8)), 0.1)
            chosen = options("FullyConnectedOptions")
            index = model.operator("FULLY_CONNECTED", [data, weights], chosen, version + 3, dtype=TYPES[kind])
            return [scaled(model, index, 0.5)]

        suite.case("FULLY_CONNECTED", "scale_of_0", dense, kind, REFERENCE)


def wide_functions(suite):
    one = lambda scale: [("i16", None, scale, 0)]
    for operator in ("LOGISTIC", "TANH"):
        for form, scale in (("power_of_two", 2.0**-12), ("finer", 0.0001), ("coarser", 0.0007)):
            stored(suite, operator, form, one(scale), ("i16", 2.0**-15, 0), version=3)
    stored(suite, "TANH", "twice_a_power_of_two", one(2.0**-11), ("i16", 2.0**-15, 0), version=3)
    stored(suite, "EXP", "table", one(0.0001), ("i16", 0.001, 0), "ExpOptions", version=2)
    stored(suite, "LOG", "table", one(0.0001), ("i16", 0.001, 0), version=2)
    stored(suite, "ABS", "to_coarser", one(0.0001), ("i16", 0.0003, 0), "AbsOptions", version=3)
    stored(suite, "RELU", "to_coarser", one(0.0001), ("i16", 0.0003, 0), version=3)
    stored(suite, "RELU6", "to_coarser", one(0.001), ("i16", 0.0003, 0), version=3)
    stored(suite, "LEAKY_RELU", "to_coarser", one(0.0001), ("i16", 0.0003, 0), "LeakyReluOptions", version=2, alpha=0.3)
    stored(suite, "SOFTMAX", "table", [("i16", (5, 13), 0.0005, 0)], ("i16", 2.0**-15, 0), "SoftmaxOptions", version=3,
           beta=1.0)
    for kind, zero_point in (("i8", 3), ("u8", 131)):
        for form, shape, scale, beta in (("to_16_bits", (4, 11), 0.06, 1.0), ("to_16_bits_one_class", (3, 1), 0.5, 1.0),
                                         ("to_16_bits_long_rows", (2, 3, 300), 0.02, 1.5)):
            stored(suite, "SOFTMAX", form, [(kind, shape, scale, zero_point)], ("i16", 2.0**-16, -(2**15)),
                   "SoftmaxOptions", version=2, beta=beta)


def wide_windows(suite):
    image, scale = ("i16", (1, 5, 6, 3), 0.001, 0), ("i16", 0.001, 0)
    for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        stored(suite, operator, "same_padding", [image], scale, "Pool2DOptions", version=3, padding=Padding.SAME, strideH=2,
               strideW=2, filterHeight=3, filterWidth=3, fusedActivationFunction=Activation.RELU6)
    size = [np.array([7, 9], np.int32)]
    stored(suite, "RESIZE_BILINEAR", "half_pixels", [image], scale, "ResizeBilinearOptions", version=4, constants=size,
           halfPixelCenters=True)
    stored(suite, "RESIZE_NEAREST_NEIGHBOR", "larger", [image], scale, "ResizeNearestNeighborOptions", version=4,
           constants=size)
    axes = [np.array([1, 2], np.int32)]
    stored(suite, "MEAN", "other_scale", [image], ("i16", 0.0003, 0), "ReducerOptions", version=3, constants=axes)
    stored(suite, "REDUCE_MAX", "one_scale", [image], scale, "ReducerOptions", version=3, constants=axes)
    paddings = [np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)]
    stored(suite, "PAD", "zero_point", [("i8", (1, 2, 3, 2), 0.1, -7)], ("i8", 0.1, -7), "PadOptions", version=2,
           constants=paddings)
    stored(suite, "PAD", "zero_point", [("i16", (1, 2, 3, 2), 0.1, 0)], ("i16", 0.1, 0), "PadOptions", version=2,
           constants=paddings)
    for kind, points in (("i8", (5, 127)), ("u8", (133, 255))):
        stored(suite, "LOG_SOFTMAX", "rows", [(kind, (4, 11), 0.06, points[0])], (kind, 16 / 256, points[1]),
               "LogSoftmaxOptions", version=2)


def graphs(suite):
    """Values between two operators are rounded and saturated, even if the operators only move them."""
    def between(*moves):
        def build(model, draw):
            # Values that are exact in float16. Otherwise some of them would be rounded to another step.
            x = model.input(draw(2, 60, dtype=np.int32, low=-576, high=576).astype(np.float32) / 64)
            x = scaled(model, model.operator("QUANTIZE", [x], dtype=np.int8), 0.053, 11)
            for operator, chosen, constant in moves:
                constant = model.constant(np.array(constant, np.int32))
                x = scaled(model, model.operator(operator, [x, constant], chosen, dtype=np.int8), 0.053, 11)
            return [model.operator("DEQUANTIZE", [x], version=2)]
        return build

    moves = [("RESHAPE", None, [4, 30]), ("TRANSPOSE", options("TransposeOptions"), [1, 0])]
    suite.case("GRAPH", "stored_in_between", between(), "f32", REFERENCE)
    suite.case("GRAPH", "stored_and_moved_in_between", between(*moves), "f32", REFERENCE)


def numbers(suite):
    """Operators that compute on stored numbers, whatever scales these have."""
    i8, u8, i16 = ("i8", None, 0.37, -5), ("u8", None, 0.02, 131), ("i16", None, 0.001, 0)
    kinds = {"bool": schema.TensorType.BOOL, "f32": schema.TensorType.FLOAT32, "i8": schema.TensorType.INT8,
             "u8": schema.TensorType.UINT8, "i16": schema.TensorType.INT16, "i32": schema.TensorType.INT32}

    def cast(source, target, form):
        stored(suite, "CAST", form, [source], target, "CastOptions", inDataType=kinds[source[0]],
               outDataType=kinds[target[0] if target else "bool"])

    for source in (i8, u8, i16):
        cast(source, ("f32", 1), "stored_to_float32")
        cast(source, None, "stored_to_bool")
        cast(source, ("i32", []), "stored_to_int32")
    cast(i8, ("u8", 0.1, 3), "stored_to_uint8")
    cast(u8, ("i8", 0.1, 3), "stored_to_int8")
    cast(i16, ("i8", 0.2, 9), "stored_to_int8")

    def given(operator, form, inputs, result, table=None, **fields):
        """`inputs` are values, each with its scale and zero point or without."""
        def build(model, draw):
            indices = [scaled(model, model.input(value), *scale) if scale else model.input(value) for value, *scale in inputs]
            made = model.operator(operator, indices, options(table, **fields) if table else None, dtype=inputs[-1][0].dtype)
            return [scaled(model, made, *result)]
        suite.case(operator, form, build, "i8", REFERENCE)

    left, divisors = np.arange(-124, 124, 8, dtype=np.int8), np.array([3, -7, 5, 1, -1, 4, 100, -2] * 4, np.int8)[:31]
    for operator, table in (("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions"), ("STABLEHLO_ADD", None),
                            ("STABLEHLO_MULTIPLY", None), ("STABLEHLO_MAXIMUM", None), ("BITWISE_XOR", "BitwiseXorOptions")):
        given(operator, "stored", [(left, 0.5, 3), (divisors, 0.25, -9)], (0.5, 3), table)
    given("RIGHT_SHIFT", "stored", [(left, 0.5, 3), (np.abs(divisors) % 8, 0.25, -9)], (0.5, 3), "RightShiftOptions")
    stored(suite, "NEG", "stored", [("i8", None, 0.5, 3)], ("i8", 0.25, -9), "NegOptions")
    stored(suite, "NEG", "stored", [("i16", None, 0.5, 0)], ("i16", 0.25, 0), "NegOptions")
    given("MATRIX_DIAG", "stored", [(left[:4], 0.5, 3)], (0.5, 3), "MatrixDiagOptions")
    places = np.array([[4], [1], [4]], np.int32)
    size = np.array([6, 5], np.int32)

    def scatter(model, draw):
        updates = scaled(model, model.input(left[:15].reshape(3, 5)), 0.5, 3)
        indices = [model.constant(places), updates, model.constant(size)]
        return [scaled(model, model.operator("SCATTER_ND", indices, options("ScatterNdOptions"), dtype=np.int8), 0.5, 3)]

    def shared(model, draw):
        x = scaled(model, model.input(some(draw, "i8", 3, 5)), 0.4, 3)
        kept = options("CastOptions", inDataType=kinds["i8"], outDataType=kinds["f32"])
        rectified = scaled(model, model.operator("RELU", [x], version=2, dtype=np.int8), 0.3, -3)
        return [model.operator("CAST", [x], kept), rectified, model.operator("CAST", [rectified], kept)]

    suite.case("SCATTER_ND", "stored", scatter, "i8", REFERENCE)
    suite.case("GRAPH", "stored_numbers_and_floats", shared, "i8", REFERENCE)


def means_of_nothing(suite):
    """They are stored as 0, whatever that stands for."""
    for kind, zero_point in (("i8", 3), ("u8", 9), ("i16", 0)):
        for form, shape, axis in (("rows", (3, 0), 1), ("middle", (2, 0, 3), 1), ("list", (0,), 0)):
            stored(suite, "MEAN", f"nothing_{form}", [(kind, shape, 0.5, zero_point)], (kind, 0.25, zero_point),
                   "ReducerOptions", version=3 if kind == "i16" else 2, constants=[np.array([axis], np.int32)])


FAMILIES = (means_of_nothing, numbers, conversions, graphs, nibbles, different_scales, wide_arithmetic, zero_scales, wide_functions, wide_windows)
