"""Values at the limits of types and formulas, further ranks and broadcasts, and the highest versions."""

import numpy as np

from forms import SAME, VALID, fed, fed_truths, fed_values, int32, then_constants
from model_writer import options

PLAIN = ("plain", "default")  # the reference kernels are of lower versions

# Just below and above the limits of 32-bit integers. A device's native conversion saturates below the largest integer.
WIDE_REALS = np.array([2147483520, 2147483648, 3e9, -2147483648, -2147483904, -3e9, 16777216, 1e30, -1e30], np.float32)
WIDE_INTEGERS = int32(2**24 + 1, -2**24 - 1, 2**31 - 1, -2**31, 2**30 + 64)

# Quotients so close to integers that a single rounding determines the remainder.
NEAR_WHOLE = (
    np.array([0.7, -0.7, 0.3, 0.9, 6.3, 100.1, -100.1, 5000.3, 65536.5, 9e6, -9e6, 0.6, 1.2, 12, -12], np.float32),
    np.array([0.1, 0.1, 0.1, 0.3, 0.7, 0.7, 0.7, 0.1, 0.3, 0.7, 0.7, -0.2, -0.3, 3, -4], np.float32),
)


def casts(suite):
    for form, values, dtype in (("wide_reals_to_int32", WIDE_REALS, np.int32),
                                ("wide_integers_to_float32", WIDE_INTEGERS, np.float32)):
        suite.single("CAST", form, fed_values(values), "CastOptions", result=dtype)
    everything = np.arange(-128, 128, 5)
    for source in (np.int8, np.uint8, np.int16):
        for target in (np.float32, np.int32, np.bool_):
            form = f"{source.__name__}_to_{target.__name__.rstrip('_')}"
            values = (everything * (200 if source == np.int16 else 1)).astype(source)
            suite.single("CAST", form, fed_values(values), "CastOptions", result=target)


def quotients(suite):
    suite.single("FLOOR_MOD", "near_whole", fed_values(*NEAR_WHOLE), "FloorModOptions")
    suite.single("FLOOR_DIV", "near_whole", fed_values(*NEAR_WHOLE), "FloorDivOptions")
    longer = [np.tile(values[:12], 2).reshape(2, 12) for values in NEAR_WHOLE]
    suite.single("FLOOR_MOD", "near_whole_in_fours", fed_values(*longer), "FloorModOptions")
    suite.single("FLOOR_DIV", "near_whole_in_fours", fed_values(*longer), "FloorDivOptions")


def functions(suite):
    small = np.array([1e-30, 1e-10, 1e-3, 0.5, 1, 1e10, 1e30], np.float32)
    for operator, values in (("LOG", small), ("SQRT", small), ("RSQRT", small[1:])):
        suite.single(operator, "wide", fed_values(values))
    near = np.array([-2.5, -0.5, 0.5, 1.5, 8388607.5, -8388609], np.float32)
    for operator in ("FLOOR", "CEIL", "ROUND"):
        kernels = {} if operator == "FLOOR" else {"kernels": ("plain", "default")}
        suite.single(operator, "halves_and_large", fed_values(near), **kernels)
    for operator, table in (("ELU", None), ("LOGISTIC", None), ("TANH", None), ("HARD_SWISH", "HardSwishOptions")):
        tails = np.array([-1e4, -88, -20, -1e-4, 0, 1e-4, 20, 88, 1e4], np.float32)
        kernels = {"kernels": ("plain", "default")} if operator == "ELU" else {}
        suite.single(operator, "tails", fed_values(tails), table, **kernels)


def ranks(suite):
    five = (2, 1, 3, 1, 2)
    chosen = lambda *shapes: lambda m, draw: fed_truths(shapes[0])(m, draw) + [m.input(draw(*s)) for s in shapes[1:]]
    for form, shapes in (("condition_smaller", ((3, 1), (2, 3, 4), (2, 3, 4))), ("one_smaller", ((2, 3), (3,), (2, 3))),
                         ("condition_larger", ((2, 3, 4), (4,), (1, 1))), ("rank_5", ((5, 1), five, five))):
        suite.single("SELECT_V2", form, chosen(*shapes), "SelectV2Options")
    for rank in (1, 2, 3):
        shape = (4, 3, 5)[:rank]
        suite.single("GATHER", f"rank_{rank}", then_constants(fed(shape), int32(2, 0, 2)), "GatherOptions")
        axis = np.array(rank - 1, np.int32)
        suite.single("CUMSUM", f"rank_{rank}_both", then_constants(fed(shape), axis), "CumsumOptions", exclusive=True,
                     reverse=True)
        suite.single("REVERSE_V2", f"rank_{rank}_last", then_constants(fed(shape), int32(rank - 1)), "ReverseV2Options")
    for left, right in ((True, False), (False, True), (True, True)):
        shapes = ((2, 1, 4, 3) if left else (2, 1, 3, 4)), ((3, 5, 4) if right else (3, 4, 5))
        suite.single("BATCH_MATMUL", f"broadcast_{'t' if left else 'n'}{'t' if right else 'n'}", fed(*shapes),
                     "BatchMatMulOptions", adjX=left, adjY=right)
    for operator in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "MEAN"):
        for form, axes in (("negative", (-1, -3)), ("repeated", (1, 1, -2)), ("every_one", (0, 1, 2))):
            suite.single(operator, f"axes_{form}_kept", then_constants(fed((2, 3, 4)), int32(*axes)), "ReducerOptions",
                         keepDims=True)


def ties(suite):
    flat = np.array([[3, 3, 1, 3], [0, -1, -1, 0], [2, 2, 2, 2]], np.float32)
    for operator, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        for axis in (0, -1):
            form = f"ties_along_{'first' if axis == 0 else 'last'}"
            inputs = then_constants(fed_values(flat), np.array(axis, np.int32))
            suite.single(operator, form, inputs, table, outputType=2, result=np.int32)

    def largest(model, draw):
        inputs = [model.input(flat), model.constant(np.array(3, np.int32))]
        values, places = model.operator("TOPK_V2", inputs, options("TopKV2Options"), results=2)
        model.tensors[places].type = 2
        return [values, places]

    suite.case("TOPK_V2", "ties_in_rows", largest)


def places(suite):
    far = fed_values(int32(0, 1, 2047, 2048, 2049, 2050, 2099, -1, 2100))
    deep = then_constants(far, np.array(2100, np.int32), np.float32(1), np.float32(0))
    back = options("ReducerOptions", keepDims=False)

    def hot(model, draw):
        indices, depth, on, off = deep(model, draw)
        rows = model.operator("ONE_HOT", [indices, depth, on, off], options("OneHotOptions", axis=-1))
        return [model.operator("SUM", [rows, model.constant(int32(1))], back),
                model.operator("ARG_MAX", [rows, model.constant(np.array(1, np.int32))],
                               options("ArgMaxOptions", outputType=2), dtype=np.int32)]

    suite.case("ONE_HOT", "far_places", hot)


def versions(suite):
    """The highest version with a kernel in LiteRT. For floats, it has the same meaning as earlier versions."""
    image, filters, bias = (1, 4, 5, 2), (3, 2, 2, 2), (3,)
    draw_constants = lambda *shapes: lambda m, draw: [m.input(draw(*shapes[0]))] + [
        m.constant(draw(*shape)) for shape in shapes[1:]]
    suite.single("CONV_2D", "version_8", draw_constants(image, filters, bias), "Conv2DOptions", version=8, padding=SAME,
                 strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
    suite.single("DEPTHWISE_CONV_2D", "version_7", draw_constants(image, (1, 2, 2, 2), (2,)), "DepthwiseConv2DOptions",
                 version=7, padding=SAME, strideW=1, strideH=1, depthMultiplier=1, dilationWFactor=1, dilationHFactor=1,
                 kernels=PLAIN)
    suite.single("FULLY_CONNECTED", "version_14", draw_constants((2, 3), (4, 3), (4,)), "FullyConnectedOptions",
                 version=14)
    transposed = lambda m, draw: [m.constant(int32(1, 8, 10, 3)), m.constant(draw(*filters)), m.input(draw(*image))]
    suite.single("TRANSPOSE_CONV", "version_5", transposed, "TransposeConvOptions", version=5, padding=SAME, strideW=2,
                 strideH=2)
    suite.single("SOFTMAX", "version_4", fed((2, 5)), "SoftmaxOptions", version=4, beta=1.0, kernels=PLAIN)
    filled = lambda m, draw: [m.constant(int32(2, 3)), m.input(draw())]
    suite.single("FILL", "version_5", filled, "FillOptions", version=5)




def patches(suite):
    """Windows that lie side by side, as the first layer of a network that sees patches has them."""
    def case(form, image, filters, bias, padding, kind="f32", **fields):
        def inputs(model, draw):
            return [model.input(draw(*image)), model.constant(draw(*filters)), model.constant(draw(*bias))]

        fields = {"padding": padding, "strideH": filters[1], "strideW": filters[2], "dilationHFactor": 1,
                  "dilationWFactor": 1, **fields}
        suite.single("CONV_2D", form, inputs, "Conv2DOptions", kind, **fields)

    case("patches", (2, 8, 12, 3), (6, 4, 4, 3), (6,), VALID)
    case("patches_of_a_part", (1, 19, 14, 1), (8, 8, 4, 1), (8,), VALID)
    case("patches_that_are_padded", (1, 10, 9, 3), (4, 4, 4, 3), (4,), SAME)
    case("patches_with_gaps", (1, 11, 11, 2), (4, 4, 4, 2), (4,), VALID, strideH=5, strideW=5)


def single_elements(suite):
    """The output has the shape that the file states where each input has one element."""
    def case(operator, form, shapes, stated, dtype=np.float32):
        def build(model, draw):
            values = [model.input(np.full(shape, number, dtype)) for shape, number in zip(shapes[1:], (3, 5))]
            index = model.operator(operator, [model.input(np.ones(shapes[0], bool)), *values], dtype=dtype)
            model.tensors[index].shape = list(stated)
            return [index]
        suite.case(operator, f"single_{form}", build, "f32" if dtype == np.float32 else "i32")

    for operator in "SELECT", "SELECT_V2":
        case(operator, "list_to_table", ((1,), (1,), (1,)), (1, 1))
        case(operator, "list_to_scalar", ((1,), (1,), (1,)), ())
        case(operator, "scalars_to_list", ((), (), ()), (1,), np.int32)
        case(operator, "mixed_ranks", ((1,), (1, 1, 1), ()), (1, 1))


def extrema_of_nothing(suite):
    for operator in "REDUCE_MAX", "REDUCE_MIN":
        for form, shape, axes in (("rows", (3, 0), (1,)), ("middle", (2, 0, 3), (1,)), ("everything", (0, 2), (0, 1))):
            suite.single(operator, f"nothing_{form}", then_constants(fed(shape), int32(*axes)), "ReducerOptions",
                         kernels=("reference", "plain"), keepDims=form == "middle")


FAMILIES = (casts, quotients, functions, ranks, ties, places, versions, patches, single_elements, extrema_of_nothing)
