"""More forms of operators with few: every rank, constants, empty tensors, and each type of elements that LiteRT prepares."""

import numpy as np

from forms import SAME, VALID, int32
from forms_quantized import REFERENCE, scaled
from model_writer import TENSOR_TYPES as TYPES
from model_writer import options

PLAIN = ("plain", "default")  # LiteRT has no reference kernel of a few operators
WITHOUT_XNNPACK = ("reference", "plain")

SHAPES = {"rank_0": (), "rank_1": (5,), "rank_2": (3, 5), "rank_3": (2, 3, 4), "rank_4": (2, 1, 3, 4), "rank_6": (1, 2, 1, 2, 2, 2),
          "many": (3, 131), "empty": (0, 3)}

BYTES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}

UNARY = {  # operator: table, the range of the inputs, kernels, and per quantized type the scales and zero points
    "ABS": ("AbsOptions", (-9, 9), None, {"i8": ((0.1, 3), (0.1, -100)), "i16": ((0.01, 0), (0.01, 0))}),
    "CEIL": (None, (-9, 9), PLAIN, {}),
    "COS": ("CosOptions", (-9, 9), None, {}),
    "ELU": (None, (-9, 3), PLAIN, {"i8": ((0.05, 9), (0.05, -20))}),
    "EXP": ("ExpOptions", (-5, 3), None, {"i8": ((0.02, 9), (0.1, -128)), "i16": ((1e-4, 0), (0.001, 0))}),
    "HARD_SWISH": ("HardSwishOptions", (-5, 5), None, {"i8": ((0.05, 9), (0.04, -110)), "u8": ((0.05, 137), (0.04, 10))}),
    "LEAKY_RELU": ("LeakyReluOptions", (-9, 9), None, {"i8": ((0.1, 3), (0.07, -9)), "u8": ((0.1, 131), (0.07, 119)), "i16": ((0.01, 0), (0.007, 0))}),
    "LOG": (None, (0.01, 9), None, {"i8": ((0.05, -128), (0.02, 90)), "i16": ((0.001, 0), (0.0004, 0))}),
    "LOG_SOFTMAX": ("LogSoftmaxOptions", (-5, 5), None, {"i8": ((0.1, 3), (16 / 256, 127)), "u8": ((0.1, 131), (16 / 256, 255))}),
    "L2_NORMALIZATION": ("L2NormOptions", (-5, 5), None, {"i8": ((0.1, 3), (1 / 128, 0)), "u8": ((0.1, 131), (1 / 128, 128))}),
    "RELU": (None, (-9, 9), None, {"i8": ((0.1, 3), (0.07, -9)), "u8": ((0.1, 131), (0.07, 119)), "i16": ((0.01, 0), (0.007, 0))}),
    "RELU6": (None, (-9, 9), None, {"i8": ((0.1, 3), (0.07, -9)), "u8": ((0.1, 131), (0.07, 119)), "i16": ((0.01, 0), (0.007, 0))}),
    "RELU_0_TO_1": (None, (-2, 2), None, {"i8": ((0.02, 3), (0.01, -9)), "u8": ((0.02, 131), (0.01, 119))}),
    "RELU_N1_TO_1": (None, (-2, 2), None, {"i8": ((0.02, 3), (0.01, -9)), "u8": ((0.02, 131), (0.01, 119))}),
    "RSQRT": (None, (0.01, 9), None, {"i8": ((0.05, -128), (0.1, -128)), "i16": ((0.001, 0), (0.001, 0))}),
    "SIGN": ("SignOptions", (-9, 9), None, {}),
    "SIN": (None, (-9, 9), None, {}),
    "SQRT": (None, (0, 9), None, {"i8": ((0.05, -128), (0.02, -128))}),
    "SQUARE": ("SquareOptions", (-9, 9), None, {}),
}


def values(draw, dtype, *shape):
    """Values of any type: small integers, truths, or floats."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return draw(*shape) < 0
    low = 0 if dtype.kind == "u" else -99
    return np.asarray(draw(*shape, dtype=np.float64, low=low, high=99)).astype(dtype)


def kind_of(dtype):
    names = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16"}
    return names.get(np.dtype(dtype).name, "f32")


def unary(suite):
    for operator, (table, (low, high), kernels, stored) in UNARY.items():
        fields = {"alpha": 0.3} if operator == "LEAKY_RELU" else {}
        more = {"kernels": kernels} if kernels else {}
        for form, shape in SHAPES.items():
            if shape == () and operator in ("LOG_SOFTMAX", "L2_NORMALIZATION"):
                continue
            inputs = lambda m, draw: [m.input(draw(*shape, low=low, high=high))]
            suite.single(operator, f"more_{form}", inputs, table, **more, **fields)
        inputs = lambda m, draw: [m.constant(draw(2, 7, low=low, high=high))]
        suite.single(operator, "more_constant", inputs, table, **more, **fields)
        if operator not in ("LOG_SOFTMAX", "L2_NORMALIZATION", "LOG", "RSQRT", "SQRT"):
            extremes = np.array([0, -0.0, 2e-38, -2e-38, 0.5, -0.5, 1.5, -2.5, 6, 80, -80], np.float32)
            suite.single(operator, "more_extremes", lambda m, draw: [m.input(extremes)], table, **more, **fields)
        for kind, (source, target) in stored.items():
            for form, shape in (("rank_1", (256,)), ("rank_4", (2, 1, 3, 4)), ("rank_2", (3, 7))):
                def build(model, draw):
                    limits = np.iinfo(BYTES[kind])
                    least = 0 if kind == "i16" and operator in ("LOG", "RSQRT") else limits.min
                    drawn = draw(*shape, dtype=np.float64, low=least, high=limits.max).astype(BYTES[kind])
                    if kind == "i8" and operator in ("LOG", "RSQRT", "SQRT"):
                        drawn = np.maximum(drawn, -127)
                    index = scaled(model, model.input(drawn), *source)
                    chosen = options(table, **fields) if table else None
                    version = 1 if operator in ("ELU", "HARD_SWISH", "RELU_0_TO_1", "RELU_N1_TO_1") else 2
                    return [scaled(model, model.operator(operator, [index], chosen, version, dtype=BYTES[kind]), *target)]
                suite.case(operator, f"more_stored_{form}", build, kind, PLAIN[:1] if operator == "ELU" else REFERENCE)
    suite.single("SQUARE", "more_large", lambda m, draw: [m.input(draw(7, low=-1e15, high=1e15))], "SquareOptions")


def logic(suite):
    pairs = {"scalars": ((), ()), "scalar_left": ((), (2, 3)), "scalar_right": ((2, 3), ()), "rank_1": ((7,), (7,)),
             "both_3d": ((2, 1, 3), (1, 4, 1)), "both_4d": ((2, 1, 3, 1), (1, 4, 1, 5)), "vector_by_4d": ((2,), (2, 3, 1, 2)),
             "many": ((3, 131), (3, 131)), "empty": ((0, 3), (3,))}
    for operator in ("LOGICAL_AND", "LOGICAL_OR"):
        table = {"LOGICAL_AND": "LogicalAndOptions", "LOGICAL_OR": "LogicalOrOptions"}[operator]
        for form, shapes in pairs.items():
            suite.single(operator, f"more_{form}", lambda m, draw: [m.input(draw(*shape) < 0) for shape in shapes], table, "bool")
        constant = lambda m, draw: [m.input(draw(3, 4) < 0), m.constant(draw(4) < 0)]
        suite.single(operator, "more_constant", constant, table, "bool")
        suite.single(operator, "more_twice_the_same", lambda m, draw: [m.input(draw(3, 4) < 0)] * 2, table, "bool")
    for form, shape in SHAPES.items():
        suite.single("LOGICAL_NOT", f"more_{form}", lambda m, draw: [m.input(draw(*shape) < 0)], "LogicalNotOptions", "bool")
    suite.single("LOGICAL_NOT", "more_constant", lambda m, draw: [m.constant(draw(9) < 0)], "LogicalNotOptions", "bool")
    suite.single("LOGICAL_NOT", "more_rank_5", lambda m, draw: [m.input(draw(2, 1, 2, 3, 2) < 0)], "LogicalNotOptions", "bool")


def gridded(model, index, dtype):
    """Gives integers of 8 and 16 bits a scale."""
    return scaled(model, index, 0.5, 0 if dtype == np.int16 else 3) if kind_of(dtype) in BYTES else index


def kernels_for(dtype):
    return REFERENCE if kind_of(dtype) in BYTES else ("reference", "plain", "default")


MOVED = (np.float32, np.int32, np.int64, np.int8, np.uint8, np.int16, np.bool_, np.float16, np.uint32, np.uint16)


def moved(suite, operator, form, dtype, shapes, table=None, constants=(), kernels=None, version=1, results=1, **fields):
    """A case of an operator that moves elements: it has inputs of these shapes, then constants."""
    def build(model, draw):
        inputs = [gridded(model, model.input(values(draw, dtype, *shape)), dtype) for shape in shapes] + [model.constant(value) for value in constants]
        made = model.operator(operator, inputs, options(table, **fields) if table else None, version, results=results, dtype=dtype)
        made = made if isinstance(made, list) else [made]
        return [gridded(model, index, dtype) for index in made]
    suite.case(operator, f"more_{form}", build, kind_of(dtype), kernels or kernels_for(dtype))


def blocks(suite):
    for dtype in MOVED[:6]:
        name = np.dtype(dtype).name
        for operator, shape, table in (("SPACE_TO_DEPTH", (2, 4, 6, 3), "SpaceToDepthOptions"), ("DEPTH_TO_SPACE", (2, 2, 3, 12), "DepthToSpaceOptions")):
            if dtype == np.int16:
                continue
            moved(suite, operator, f"type_{name}", dtype, [shape], table, blockSize=2)
        pairs = int32([1, 0], [0, 2])
        if dtype != np.int64:
            moved(suite, "SPACE_TO_BATCH_ND", f"type_{name}", dtype, [(2, 3, 4, 3)], "SpaceToBatchNDOptions", [int32(2, 3), pairs])
            moved(suite, "BATCH_TO_SPACE_ND", f"type_{name}", dtype, [(12, 2, 2, 3)], "BatchToSpaceNDOptions", [int32(2, 3), pairs])
    for form, shape, block in (("one_pixel", (1, 3, 3, 2), 3), ("block_1", (1, 2, 2, 4), 1), ("one_channel", (3, 2, 8, 1), 2), ("wide", (1, 2, 64, 5), 2)):
        moved(suite, "SPACE_TO_DEPTH", form, np.float32, [shape], "SpaceToDepthOptions", blockSize=block)
    for form, shape, block in (("one_row", (1, 1, 8, 4), 2), ("wide", (1, 1, 32, 20), 2), ("to_one_channel", (2, 2, 2, 9), 3)):
        moved(suite, "DEPTH_TO_SPACE", form, np.float32, [shape], "DepthToSpaceOptions", blockSize=block)
    for form, shape, block, pairs in (
        ("rank_3", (2, 4, 3), (2,), ([1, 1],)), ("nothing", (2, 3, 3, 1), (1, 1), ([0, 0], [0, 0])), ("pads_alone", (1, 2, 2, 2), (1, 1), ([1, 2], [0, 1])),
        ("one_axis", (1, 6, 2, 3), (3, 1), ([0, 0], [0, 0])), ("large_blocks", (1, 4, 5, 1), (4, 5), ([0, 0], [0, 0])),
    ):
        moved(suite, "SPACE_TO_BATCH_ND", form, np.float32, [shape], "SpaceToBatchNDOptions", [int32(*block), int32(*pairs).reshape(-1, 2)])
    for form, shape, block, pairs in (
        ("rank_3", (4, 3, 3), (2,), ([1, 1],)), ("nothing", (2, 3, 3, 1), (1, 1), ([0, 0], [0, 0])), ("crops_alone", (1, 4, 4, 2), (1, 1), ([1, 2], [0, 1])),
        ("one_axis", (3, 2, 2, 3), (3, 1), ([0, 0], [0, 0])), ("large_blocks", (20, 1, 1, 1), (4, 5), ([0, 0], [0, 0])),
    ):
        moved(suite, "BATCH_TO_SPACE_ND", form, np.float32, [shape], "BatchToSpaceNDOptions", [int32(*block), int32(*pairs).reshape(-1, 2)])


def pieces(suite):
    for dtype in MOVED[:7]:
        name = np.dtype(dtype).name
        if dtype != np.bool_:
            split(suite, f"type_{name}", dtype, (2, 6, 3), 1, 3)
            split_v(suite, f"type_{name}", dtype, (2, 6, 3), 1, (1, 3, 2))
        if dtype != np.int64:
            moved(suite, "UNPACK", f"type_{name}", dtype, [(2, 3, 4)], "UnpackOptions", results=3, num=3, axis=1)
        if dtype != np.bool_:
            moved(suite, "PACK", f"type_{name}", dtype, [(2, 3)] * 3, "PackOptions", valuesCount=3, axis=1)
    for form, shape, axis in (("rank_1", (3,), 0), ("rank_2_last", (2, 3), -1), ("rank_5", (2, 1, 2, 3, 2), 3), ("one", (1, 4), 0)):
        moved(suite, "UNPACK", form, np.float32, [shape], "UnpackOptions", results=shape[axis], num=shape[axis], axis=axis)
    for form, shape, axis, count in (("scalars", (), 0, 3), ("one", (2, 3), -1, 1), ("rank_4", (2, 1, 2, 3), 2, 2)):
        moved(suite, "PACK", form, np.float32, [shape] * count, "PackOptions", valuesCount=count, axis=axis)
    for form, shape, axis, count in (("rank_1", (6,), 0, 3), ("first", (4, 3), 0, 2), ("last", (2, 3, 4), -1, 4), ("one", (2, 3), 1, 1), ("rank_5", (2, 1, 2, 4, 2), 3, 2)):
        split(suite, form, np.float32, shape, axis, count)
    for form, shape, axis, sizes in (("rest", (2, 7), 1, (2, -1, 1)), ("empty_piece", (4, 3), 0, (0, 4)), ("last", (2, 3, 5), -1, (4, 1)), ("one", (2, 3), 1, (3,)), ("rank_5", (2, 1, 2, 4, 2), 3, (1, 3))):
        split_v(suite, form, np.float32, shape, axis, sizes)


def several(suite, operator, form, dtype, inputs, table, count, version=1, **fields):
    def build(model, draw):
        grid = lambda index: gridded(model, index, dtype)
        made = model.operator(operator, inputs(model, draw, grid), options(table, **fields), version, results=count, dtype=dtype)
        return [grid(index) for index in (made if isinstance(made, list) else [made])]
    suite.case(operator, f"more_{form}", build, kind_of(dtype), kernels_for(dtype))


def split(suite, form, dtype, shape, axis, count):
    inputs = lambda m, draw, grid: [m.constant(np.array(axis, np.int32)), grid(m.input(values(draw, dtype, *shape)))]
    several(suite, "SPLIT", form, dtype, inputs, "SplitOptions", count, numSplits=count)


def split_v(suite, form, dtype, shape, axis, sizes):
    inputs = lambda m, draw, grid: [grid(m.input(values(draw, dtype, *shape))), m.constant(int32(*sizes)), m.constant(np.array(axis, np.int32))]
    several(suite, "SPLIT_V", form, dtype, inputs, "SplitVOptions", len(sizes), numSplits=len(sizes))


def shapes(suite):
    for form, shape in {**SHAPES, "rank_5": (2, 1, 2, 3, 1)}.items():
        if shape == ():
            continue
        suite.single("SHAPE", f"more_{form}", lambda m, draw: [m.input(draw(*shape))], "ShapeOptions", "i32", result=np.int32, outType=TYPES[np.dtype(np.int32)])
    for dtype in (np.int8, np.int64):
        suite.single("SHAPE", f"more_of_{np.dtype(dtype).name}", lambda m, draw: [m.input(values(draw, dtype, 2, 3))], "ShapeOptions", "i64",
                     result=np.int64, outType=TYPES[np.dtype(np.int64)])
    for dtype in MOVED[:7]:
        name = np.dtype(dtype).name
        for form, shape, axis in (("first", (2, 3), 0), ("last", (2, 3), -1)):
            moved(suite, "EXPAND_DIMS", f"{form}_{name}", dtype, [shape], "ExpandDimsOptions", [np.array(axis, np.int32)])
        moved(suite, "TILE", f"type_{name}", dtype, [(2, 1, 3)], "TileOptions", [int32(2, 3, 1)]) if dtype not in (np.int16,) else None
        moved(suite, "BROADCAST_TO", f"type_{name}", dtype, [(2, 1, 3)], "BroadcastToOptions", [int32(2, 2, 4, 3)], version=2)
    for form, shape, to in (("scalar", (), (2, 3)), ("rank_1", (1,), (5,)), ("same", (2, 3), (2, 3)), ("rank_6", (2, 1, 3), (1, 2, 1, 2, 4, 3)), ("rank_8", (2, 1), (1, 1, 2, 1, 2, 1, 2, 3))):
        moved(suite, "BROADCAST_TO", form, np.float32, [shape], "BroadcastToOptions", [int32(*to)], version=3)
    moved(suite, "BROADCAST_TO", "int64_shape", np.float32, [(2, 1)], "BroadcastToOptions", [np.array([3, 2, 2], np.int64)], version=2)


def orders(suite):
    for dtype in MOVED[:7]:
        name = np.dtype(dtype).name
        moved(suite, "REVERSE_V2", f"type_{name}", dtype, [(2, 3, 4)], "ReverseV2Options", [int32(1)], version=3)
        if dtype != np.float32:
            moved(suite, "TRANSPOSE", f"type_{name}", dtype, [(2, 3, 4)], "TransposeOptions", [int32(2, 0, 1)], version=4)
    for form, shape, order in (("rank_1", (5,), (0,)), ("rank_2", (3, 5), (1, 0)), ("rank_6", (2, 1, 3, 2, 1, 2), (5, 3, 0, 2, 4, 1)), ("same", (2, 3, 4), (0, 1, 2)), ("outer", (2, 3, 4, 5), (1, 0, 2, 3))):
        moved(suite, "TRANSPOSE", form, np.float32, [shape], "TransposeOptions", [int32(*order)], version=4)
    for form, shape, axes in (("rank_1", (7,), (0,)), ("last_two", (2, 3, 4), (1, 2)), ("negative", (2, 3, 4), (-1,)), ("rank_5", (2, 1, 2, 3, 2), (3, 4))):
        moved(suite, "REVERSE_V2", form, np.float32, [shape], "ReverseV2Options", [int32(*axes)], version=3)


def choices(suite):
    for dtype in MOVED[:7] + (np.uint32,):
        name = np.dtype(dtype).name
        for operator, table in (("SELECT", "SelectOptions"), ("SELECT_V2", "SelectV2Options")):
            selected(suite, operator, table, f"type_{name}", dtype, (2, 3, 5), (2, 3, 5), (2, 3, 5))
    for form, condition, shape in (("scalars", (), ()), ("rank_1", (7,), (7,)), ("rank_4", (2, 1, 3, 2), (2, 1, 3, 2)), ("by_rows", (3,), (3, 4, 2)), ("one_condition", (), (3, 4)), ("empty", (0, 3), (0, 3))):
        selected(suite, "SELECT", "SelectOptions", form, np.float32, condition, shape, shape)
    for form, *three in (("scalars", (), (), ()), ("all_broadcast", (2, 1, 1), (1, 3, 1), (1, 1, 4)), ("scalar_values", (3, 4), (), ()), ("rank_5", (2, 1, 2, 1, 2), (1, 3, 1, 2, 1), (2,))):
        selected(suite, "SELECT_V2", "SelectV2Options", form, np.float32, *three)


def selected(suite, operator, table, form, dtype, condition, left, right):
    def build(model, draw):
        grid = lambda index: gridded(model, index, dtype)
        inputs = [model.input(draw(*condition) < 0)] + [grid(model.input(values(draw, dtype, *shape))) for shape in (left, right)]
        return [grid(model.operator(operator, inputs, options(table), dtype=dtype))]
    suite.case(operator, f"more_{form}", build, kind_of(dtype), kernels_for(dtype))


REDUCTIONS = {"rank_1": ((5,), (0,)), "rows": ((3, 4), (1,)), "columns": ((3, 4), (0,)), "outer": ((2, 3, 4), (0, 2)), "negative": ((2, 3, 4, 5), (-2, -1)),
              "everything": ((2, 3, 4, 5), (0, 1, 2, 3)), "no_axes": ((2, 3), ()), "rank_0": ((), ()), "rank_5": ((2, 3, 2, 2, 3), (1, 3))}


def reductions(suite):
    for operator in ("REDUCE_ALL", "REDUCE_ANY"):
        for form, (shape, axes) in REDUCTIONS.items():
            inputs = lambda m, draw: [m.input(draw(*shape, low=-9, high=2) < 0), m.constant(int32(*axes))]
            suite.single(operator, f"more_{form}", inputs, "ReducerOptions", "bool", keepDims=form in ("rows", "outer"))
    for operator in ("REDUCE_MIN", "REDUCE_MAX"):
        for form in ("rank_1", "rank_0", "outer"):
            shape, axes = REDUCTIONS[form]
            inputs = lambda m, draw: [m.input(draw(*shape)), m.constant(int32(*axes))]
            suite.single(operator, f"more_{form}", inputs, "ReducerOptions", keepDims=form == "outer")
        for dtype in (np.int8, np.uint8, np.int16, np.int64):
            moved(suite, operator, f"type_{np.dtype(dtype).name}", dtype, [(2, 3, 4)], "ReducerOptions", [int32(0, 2)], version=3 if dtype == np.int16 else 2, kernels=REFERENCE)


def arithmetic(suite):
    for form, shapes in {"scalars": ((), ()), "scalar_right": ((2, 3), ()), "rank_1": ((7,), (7,)), "both_4d": ((2, 1, 3, 1), (1, 4, 1, 5)),
                         "vector_by_4d": ((2,), (2, 3, 1, 2)), "empty": ((0, 3), (3,)), "many": ((3, 131), (131,))}.items():
        positive = lambda m, draw: [m.input(draw(*shapes[0], low=0.1, high=3)), m.input(draw(*shapes[1]))]
        suite.single("POW", f"more_{form}", positive, "PowOptions")
        away = lambda m, draw: [m.input(draw(*shapes[0])), m.input(draw(*shapes[1], low=0.3, high=3))]
        suite.single("DIV", f"more_{form}", away, "DivOptions")
    whole = lambda m, draw: [m.input(draw(2, 3, dtype=np.int32, low=-5, high=6)), m.input(draw(3, dtype=np.int32, low=0, high=5))]
    suite.single("POW", "more_int32", whole, "PowOptions", "i32")
    suite.single("POW", "more_constant_exponent", lambda m, draw: [m.input(draw(2, 3, low=0, high=3)), m.constant(np.float32(2.5))], "PowOptions")
    for start, limit, delta, dtype, form in (
        (0, 1, 1, np.int32, "one"), (-3, 12, 4, np.int32, "uneven"), (9, -9, -5, np.int32, "down"),
        (0, 40, 7, np.int64, "int64"), (1 << 33, (1 << 33) + 5, 2, np.int64, "large_int64"), (0, 1, 0.25, np.float32, "quarters"), (1, -1, -0.4, np.float32, "reals_down"),
    ):
        numbers = [np.array(number, dtype) for number in (start, limit, delta)]
        kind = kind_of(dtype)
        suite.single("RANGE", f"more_{form}", lambda m, draw: [m.input(number) for number in numbers], "RangeOptions", kind, result=dtype)
    constants = lambda m, draw: [m.constant(np.array(number, np.int32)) for number in (2, 9, 3)]
    suite.single("RANGE", "more_constants", constants, "RangeOptions", "i32")


def searches(suite):
    for dtype in (np.float32, np.int32, np.int64, np.uint8, np.int8, np.uint32, np.bool_):
        inputs = lambda m, draw: [m.input(values(draw, dtype, 3, 4) * (draw(3, 4) < 0))]
        suite.single("WHERE", f"more_type_{np.dtype(dtype).name}", inputs, None, "i64", result=np.int64)
    for form, shape in (("rank_1", (9,)), ("rank_2", (3, 4)), ("rank_4", (2, 1, 3, 2))):
        suite.single("WHERE", f"more_truths_{form}", lambda m, draw: [m.input(draw(*shape) < 0)], None, "i64", result=np.int64)
    for form, shape, axis, dtype in (("int32", (4,), -1, np.int32), ("int64", (4,), 0, np.int64), ("bool", (3,), -1, np.bool_), ("int8", (2, 2), 1, np.int8), ("uint8", (2, 2), -1, np.uint8), ("rank_0", (), -1, np.float32), ("rank_3", (2, 1, 3), 0, np.float32)):
        on, off = (np.array(value).astype(dtype) for value in (1, 0))
        inputs = lambda m, draw: [m.input(draw(*shape, dtype=np.int32, low=-1, high=6)), m.constant(np.array(5, np.int32)), m.constant(on), m.constant(off)]
        suite.single("ONE_HOT", f"more_{form}", inputs, "OneHotOptions", "bool" if dtype == np.bool_ else "f32", result=dtype, axis=axis)
    for form, shape, axis, exclusive, reverse, dtype in (
        ("rank_1", (7,), 0, False, False, np.float32), ("rank_4_exclusive", (2, 3, 2, 4), -1, True, False, np.float32), ("reverse", (3, 5), 0, False, True, np.float32),
        ("int32", (2, 5), 1, True, True, np.int32), ("int64", (2, 5), 1, False, False, np.int64), ("one", (3, 1), 1, True, False, np.float32),
    ):
        inputs = lambda m, draw: [m.input(values(draw, dtype, *shape)), m.constant(np.array(axis, np.int32))]
        suite.single("CUMSUM", f"more_{form}", inputs, "CumsumOptions", kind_of(dtype), result=dtype, exclusive=exclusive, reverse=reverse)
    for dtype in (np.int32, np.int64, np.int8, np.uint8, np.int16):
        def build(model, draw):
            drawn = draw.generator.permutation(30).astype(dtype).reshape(3, 10)
            inputs = [gridded(model, model.input(drawn), dtype), model.constant(np.array(4, np.int32))]
            found, places = model.operator("TOPK_V2", inputs, options("TopKV2Options"), results=2, dtype=dtype)
            model.tensors[places].type = TYPES[np.dtype(np.int32)]
            return [gridded(model, found, dtype), places]
        suite.case("TOPK_V2", f"more_type_{np.dtype(dtype).name}", build, kind_of(dtype), REFERENCE)


def windows(suite):
    for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for form, kind, shape, size, strides, padding in (
            ("i8", "i8", (1, 5, 6, 3), (2, 3), (1, 2), SAME), ("u8", "u8", (2, 4, 4, 5), (2, 2), (2, 2), VALID), ("i16", "i16", (1, 5, 5, 2), (3, 3), (1, 1), SAME),
            ("whole", "f32", (1, 4, 4, 3), (4, 4), (1, 1), VALID), ("one", "f32", (2, 3, 3, 2), (1, 1), (2, 2), VALID),
        ):
            dtype = {"f32": np.float32, **BYTES}[kind]
            moved(suite, operator, form, dtype, [shape], "Pool2DOptions", version=3 if kind == "i16" else 2, kernels=REFERENCE if kind != "f32" else None,
                  filterHeight=size[0], filterWidth=size[1], strideH=strides[0], strideW=strides[1], padding=padding)
    for dtype in MOVED[:6]:
        name = np.dtype(dtype).name

        def build(model, draw):
            grid = lambda index: gridded(model, index, dtype)
            inputs = [grid(model.input(values(draw, dtype, 2, 3))), model.constant(int32([1, 0], [2, 1])), grid(model.constant(np.array(7).astype(dtype)))]
            return [grid(model.operator("PADV2", inputs, options("PadV2Options"), dtype=dtype))]
        suite.case("PADV2", f"more_type_{name}", build, kind_of(dtype), kernels_for(dtype))


FAMILIES = (unary, logic, blocks, pieces, shapes, orders, choices, reductions, arithmetic, searches, windows)
