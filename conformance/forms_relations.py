"""Unary functions, comparisons, logic, selections, casts, reductions: ranks, broadcasts, element types."""

import numpy as np

from forms import FUSED, fed, fed_integers, fed_truths, fed_values, int32, then_constants, then_fed
from model_writer import options, schema

OPTIMIZED = ("plain", "default")  # LiteRT has no reference kernel of a few operators

UNARY = {  # the range of the inputs
    "ABS": (-9, 9), "CEIL": (-9, 9), "COS": (-9, 9), "ELU": (-9, 3), "EXP": (-9, 3), "FLOOR": (-9, 9), "GELU": (-4, 4),
    "HARD_SWISH": (-5, 5), "LOG": (0.01, 9), "NEG": (-9, 9), "RELU_0_TO_1": (-2, 2), "RELU_N1_TO_1": (-2, 2),
    "ROUND": (-9, 9), "SIGN": (-9, 9), "SIN": (-9, 9), "SQRT": (0, 9), "SQUARE": (-9, 9), "TANH": (-4, 4),
}
UNARY_OPTIONS = {
    "ABS": "AbsOptions", "COS": "CosOptions", "EXP": "ExpOptions", "GELU": "GeluOptions",
    "HARD_SWISH": "HardSwishOptions", "NEG": "NegOptions", "SIGN": "SignOptions", "SQUARE": "SquareOptions",
}
UNOPTIMIZED = {"CEIL", "ELU", "ROUND"}

COMPARISONS = {
    "EQUAL": "EqualOptions", "GREATER": "GreaterOptions", "GREATER_EQUAL": "GreaterEqualOptions",
    "LESS": "LessOptions", "LESS_EQUAL": "LessEqualOptions", "NOT_EQUAL": "NotEqualOptions",
}

BOTH_5D = ((2, 1, 2, 1, 2), (1, 3, 1, 2, 1))

REALS = np.array([0, -0.4, 1.9, -1.9, 127.5, 128, 255.9, 300, -129, 4e4, 7e4, -7e4, -3e9], np.float32)
HUGE_REALS = np.array([3e9, 1e19, -1e19, np.inf, -np.inf, np.nan], np.float32)
HALVES = np.array([0, -0.4, 1.9, -1.9, 127.5, 300, -129, 6e4, -6e4], np.float16)
INTEGERS = int32(0, 1, -1, 127, 128, 255, 256, 300, -129, 40000, 70000, 2**24 + 1, 2**31 - 1, -2**31)
LONG_INTEGERS = np.array([0, 1, -1, 300, 2**31, 2**32 + 5, -2**40], np.int64)
BYTES = np.array([0, 1, 127, 128, 255], np.uint8)
TRUTHS = np.array([True, False, True])
CASTS = {  # what is cast, and to which types
    "huge_reals": (HUGE_REALS, (np.int64,)),
    "reals": (REALS, (np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_)),
    "finite_reals": (REALS[:10], (np.float16,)),
    "halves": (HALVES, (np.float32, np.int32, np.uint8, np.bool_)),
    "integers": (INTEGERS, (np.float32, np.int64, np.int16, np.int8, np.uint8, np.bool_)),
    "small_integers": (INTEGERS[:10], (np.float16,)),
    "long_integers": (LONG_INTEGERS, (np.float32, np.int32, np.bool_)),
    "bytes": (BYTES, (np.float32, np.int32, np.int8)),
    "truths": (TRUTHS, (np.float32, np.int32, np.uint8)),
}
DOUBLES = np.array([0, -0.4, 1.9, -1.9, 300, -129, 65519.9, 2049 + 1e-8, 7e4, -7e4, 3e9, -3e9], np.float64)
HUGE_DOUBLES = np.array([5e9, 1e19, -1e19, np.inf, -np.inf, np.nan], np.float64)
UNSIGNED = np.array([0, 1, 255, 300, 40000, 65535], np.uint16)
LONG_UNSIGNED = np.array([0, 1, 300, 70000, 2**24 + 1, 2**31, 2**32 - 1], np.uint32)
COMPLEX = np.array([0, 1j, 1.9 - 2j, -1.9, 300 + 1j, -129], np.complex64)
WHOLE = np.array([2**53 + 1, -5, 2**62 + 1], np.int64)
RARE_CASTS = {  # the same with elements that no device has
    "doubles": (DOUBLES, (np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.bool_, np.float32, np.complex64, np.float64)),
    "small_doubles": (DOUBLES[:8], (np.float16,)),
    "huge_doubles": (HUGE_DOUBLES, (np.int64, np.int32, np.uint32, np.uint16)),
    "unsigned": (UNSIGNED, (np.float32, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.float64, np.bool_)),
    "long_unsigned": (LONG_UNSIGNED, (np.float32, np.int8, np.int32, np.int64, np.uint16, np.float64, np.complex64)),
    "complex": (COMPLEX, (np.float32, np.float16, np.float64, np.int32, np.uint8, np.int64, np.bool_, np.complex64)),
    "reals": (REALS, (np.uint16, np.uint32, np.float64, np.complex64)),
    "huge_reals": (HUGE_REALS, (np.uint32,)),
    "halves": (HALVES, (np.uint16, np.uint32, np.float64, np.complex64)),
    "integers": (INTEGERS, (np.uint16, np.uint32, np.float64, np.complex64)),
    "whole": (WHOLE, (np.float64, np.uint32)),
    "truths": (TRUTHS, (np.uint16, np.uint32, np.float64, np.complex64)),
}
NARROW = np.array([0, 0.4, -0.4, 1.5, 2.5, -1.5, -2.5, 7, 8, -8, -9, 15, 16, 100, -100, 3.9, 1e9], np.float32)


def unary(suite):
    for operator, (low, high) in UNARY.items():
        kernels = {"kernels": OPTIMIZED} if operator in UNOPTIMIZED else {}
        table = UNARY_OPTIONS.get(operator)
        suite.single(operator, "rank_5", fed((2, 1, 2, 1, 3), low=low, high=high), table, **kernels)
    for operator in ("EXP", "FLOOR", "TANH"):
        suite.single(operator, "rank_0", fed(()), UNARY_OPTIONS.get(operator))
    for operator in ("ABS", "NEG", "SIGN"):
        suite.single(operator, "int32", fed_integers((2, 5)), UNARY_OPTIONS[operator], kind="i32")
    long = fed_values(np.array([5, -2**40, 0], np.int64))
    suite.single("NEG", "int64", long, "NegOptions", kind="i64")
    halves = fed_values(np.arange(-3, 3.5, 0.5, np.float32))
    suite.single("ROUND", "halves", halves, kernels=OPTIMIZED)
    suite.single("GELU", "approximate", fed((3, 5), low=-4, high=4), "GeluOptions", approximate=True)
    for form, slope in (("gentle", 0.1), ("falling", -0.5), ("steep", 2.0)):
        suite.single("LEAKY_RELU", f"{form}_slope", fed((3, 5)), "LeakyReluOptions", alpha=slope)
    suite.single("LEAKY_RELU", "rank_5", fed((2, 1, 2, 1, 3)), "LeakyReluOptions", alpha=0.25)
    for operator in ("TANH", "GELU", "HARD_SWISH"):
        suite.single(operator, "saturated", fed((2, 5), low=-60, high=60), UNARY_OPTIONS.get(operator))
    suite.single("EXP", "extremes", fed_values(np.array([-110, -88, 0, 20, 88], np.float32)), "ExpOptions")


def binary(suite):
    odd = lambda draw, *shape: np.sign(draw(*shape)) * (np.abs(draw(*shape)) + np.float32(0.5))
    floats = lambda *shapes: lambda m, draw: [m.input(draw(*shapes[0], low=-9, high=9)), m.input(odd(draw, *shapes[1]))]
    divisible = (int32(7, -7, 7, -7, 6, 0), int32(2, 2, -2, -2, 3, 5))
    quotients = {"DIV": "DivOptions", "FLOOR_DIV": "FloorDivOptions", "FLOOR_MOD": "FloorModOptions"}
    for operator, table in quotients.items():
        suite.single(operator, "both_5d", floats(*BOTH_5D), table)
        suite.single(operator, "scalar_left", floats((), (2, 3)), table)
        suite.single(operator, "int32", fed_values(*divisible), table, kind="i32")
    for form, activation in FUSED.items():
        suite.single("DIV", form, floats((2, 5), (5,)), "DivOptions", fusedActivationFunction=activation)
    wide = [value.astype(np.int64) * 2**33 for value in divisible]
    suite.single("FLOOR_MOD", "int64", fed_values(*wide), "FloorModOptions", kind="i64")
    suite.single("MAXIMUM", "both_5d", fed(*BOTH_5D), "MaximumMinimumOptions")
    suite.single("MAXIMUM", "scalar_right", fed((2, 3), ()), "MaximumMinimumOptions")
    suite.single("MAXIMUM", "int32", fed_integers((2, 3, 4), (3, 1)), "MaximumMinimumOptions", kind="i32")
    suite.single("MAXIMUM", "int64", fed_values(*wide), "MaximumMinimumOptions", kind="i64")
    positive = lambda m, draw: [m.input(draw(*BOTH_5D[0], low=0.1, high=3)), m.input(draw(*BOTH_5D[1]))]
    suite.single("POW", "both_5d", positive, "PowOptions")
    signed = np.array([-2, -2, -1.5, 0, 0, 3, -3], np.float32), np.array([3, -2, 0, 0, 2, -1, 4], np.float32)
    suite.single("POW", "whole_exponents", fed_values(*signed), "PowOptions")
    suite.single("POW", "square", then_constants(fed((2, 5)), np.float32(2)), "PowOptions")
    suite.single("POW", "int32", fed_values(int32(2, -2, 3, 0), int32(10, 3, 0, 2)), "PowOptions", kind="i32")


def comparisons(suite):
    halves = lambda m, draw: [m.input(np.round(draw(*shape) * 2) / 2) for shape in BOTH_5D]
    few = lambda m, draw: [m.input(draw(*shape, dtype=np.int32, low=0, high=4)) for shape in ((2, 3, 4), (3, 1))]
    long = fed_values(np.array([2**40, 2**40 + 1, 5], np.int64), np.array([2**40 + 1], np.int64))
    for operator, table in COMPARISONS.items():
        suite.single(operator, "both_5d", halves, table, result=np.bool_)
        suite.single(operator, "int32", few, table, kind="i32", result=np.bool_)
    for operator in ("EQUAL", "NOT_EQUAL"):
        truths = fed_truths((2, 3), (3,))
        suite.single(operator, "truths", truths, COMPARISONS[operator], kind="bool", result=np.bool_)
    for operator in ("LESS", "EQUAL"):
        label = then_constants(fed_integers((3, 5)), int32(2))
        suite.single(operator, "constant_int32", label, COMPARISONS[operator], kind="i32", result=np.bool_)
        suite.single(operator, "int64", long, COMPARISONS[operator], kind="i64", result=np.bool_)


def logic(suite):
    for operator, table in (("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions")):
        suite.single(operator, "both_5d", fed_truths(*BOTH_5D), table, kind="bool")
        suite.single(operator, "scalar_left", fed_truths((), (2, 3)), table, kind="bool")
    for shape in ((), (2, 1, 2, 1, 3)):
        suite.single("LOGICAL_NOT", f"rank_{len(shape)}", fed_truths(shape), "LogicalNotOptions", kind="bool")


def choices(suite):
    def chosen(shapes, dtype=np.float32):
        def listed(model, draw):
            condition = fed_truths(shapes[0])(model, draw)
            return condition + [model.input(draw(*shape, dtype=dtype, low=0, high=99)) for shape in shapes[1:]]
        return listed

    for form, condition in (("scalar", ()), ("slices", (2,)), ("elements", (2, 1, 2, 1, 3))):
        same = (2, 1, 2, 1, 3)
        suite.single("SELECT", f"condition_of_{form}", chosen((condition, same, same)), "SelectOptions")
    suite.single("SELECT_V2", "all_5d", chosen(((2, 1, 2, 1, 2), (1, 3, 1, 2, 1), (2,))), "SelectV2Options")
    suite.single("SELECT_V2", "scalars", chosen(((2, 3), (), ())), "SelectV2Options")
    rows = ((2, 1), (2, 3), (3,))
    suite.single("SELECT_V2", "int32", chosen(rows, np.int32), "SelectV2Options", kind="i32")
    suite.single("SELECT_V2", "bytes", chosen(rows, np.uint8), "SelectV2Options", result=np.uint8)
    truths = fed_truths((2, 1), (2, 3), (3,))
    suite.single("SELECT_V2", "truths", truths, "SelectV2Options", kind="bool")


def casts(suite):
    for form, (values, types) in CASTS.items():
        for result in types:
            name = f"{form}_to_{np.dtype(result).name}"
            suite.single("CAST", name, fed_values(values), "CastOptions", result=result)
    for form, (values, types) in RARE_CASTS.items():
        for result in types:
            name = f"{form}_to_{np.dtype(result).name}"
            suite.single("CAST", name, fed_values(values), "CastOptions", result=result)
    for between in ("INT4", "UINT4", "INT2", "BFLOAT16"):
        suite.case("CAST", f"through_{between.lower()}", cast_through(between))


def cast_through(between):
    """Casts floats to elements of a type that NumPy lacks, and back."""
    def build(model, draw):
        there = model.operator("CAST", [model.input(NARROW)], options("CastOptions"), shape=NARROW.shape)
        model.tensors[there].type = getattr(schema.TensorType, between)
        return [model.operator("CAST", [there], options("CastOptions"), shape=NARROW.shape)]
    return build


def folds(suite):
    mixed = lambda *axes: then_constants(fed((2, 3, 1, 2, 3)), int32(*axes))
    for operator in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        suite.single(operator, "rank_5_mixed", mixed(1, 3), "ReducerOptions", keepDims=False)
        suite.single(operator, "rank_5_kept", mixed(-1, 0, -5), "ReducerOptions", keepDims=True)
        integers = then_constants(fed_integers((2, 3, 4)), int32(1))
        suite.single(operator, "int32", integers, "ReducerOptions", kind="i32", keepDims=False)
    suite.single("SUM", "no_axes", then_constants(fed((2, 3)), np.zeros(0, np.int32)), "ReducerOptions", keepDims=False)
    suite.single("SUM", "nothing", then_constants(fed((2, 0)), int32(1)), "ReducerOptions", keepDims=False)
    suite.single("SUM", "runtime_axes", then_fed(fed((2, 3)), int32(1)), "ReducerOptions", keepDims=False)
    wrapping = then_constants(fed_values(int32(2**30, 2**30, 2**30)), int32(0))
    suite.single("SUM", "wraps", wrapping, "ReducerOptions", kind="i32", keepDims=False)
    long = then_constants(fed_values(np.array([[2**40, -3], [5, 2**33]], np.int64)), int32(1))
    for operator in ("SUM", "REDUCE_MAX"):
        suite.single(operator, "int64", long, "ReducerOptions", kind="i64", keepDims=False)
    for operator in ("REDUCE_ANY", "REDUCE_ALL"):
        truths = fed_truths((2, 3, 1, 2, 2))
        mixed_truths = then_constants(truths, int32(1, 4))
        suite.single(operator, "rank_5_mixed", mixed_truths, "ReducerOptions", kind="bool", keepDims=False)
        suite.single(operator, "scalar_axis_kept", then_constants(truths, np.int32(-1)), "ReducerOptions", kind="bool",
                     keepDims=True)
        nothing = then_constants(fed_truths((2, 0)), int32(1))
        suite.single(operator, "nothing", nothing, "ReducerOptions", kind="bool", keepDims=False)


def graphs(suite):
    """Booleans and integers as intermediate values."""
    def masked(model, draw):
        x = model.input(draw(2, 3, 4))
        positive = model.operator("GREATER", [x, model.constant(draw())], options("GreaterOptions"), dtype=np.bool_)
        small = model.operator("LESS", [x, model.constant(np.float32(1))], options("LessOptions"), dtype=np.bool_)
        both = model.operator("LOGICAL_AND", [positive, small], options("LogicalAndOptions"), dtype=np.bool_)
        kept = options("ReducerOptions", keepDims=True)
        any_row = model.operator("REDUCE_ANY", [both, model.constant(int32(2))], kept, dtype=np.bool_)
        mask = model.operator("CAST", [any_row], options("CastOptions"))
        zero = model.constant(np.float32(0))
        chosen = model.operator("SELECT_V2", [both, x, zero], options("SelectV2Options"))
        return [model.operator("MUL", [chosen, mask], options("MulOptions")), both]

    def through_integers(model, draw):
        x = model.input(draw(3, 5, low=-9, high=9))
        whole = model.operator("CAST", [x], options("CastOptions"), dtype=np.int32)
        is_two = model.operator("EQUAL", [whole, model.constant(np.int32(2))], options("EqualOptions"), dtype=np.bool_)
        back = model.operator("CAST", [whole], options("CastOptions"))
        return [model.operator("SUB", [x, back], options("SubOptions")), is_two, whole]

    suite.case("GRAPH", "masked_by_comparisons", masked)
    suite.case("GRAPH", "through_integers", through_integers)


FAMILIES = (unary, binary, comparisons, logic, choices, casts, folds, graphs)
