"""Floats of 16 bits, integers without a scale and other types that few operators take."""

import numpy as np

from forms import FUSED, SAME, fed, fed_values, int32, then_constants
from forms_numbers import whole
from forms_quantized import scaled, some, stored
from model_writer import options, schema

BOTH = ("reference", "plain")
REFERENCE = ("reference",)
KERNELS = {"ROUND": ("plain",), "LOGISTIC": REFERENCE}  # no reference kernel; the other kernel rounds each step
HALF = np.float16
TAILS = np.array([-65504, -1e3, -20, -3, -1.5, -0.5, -6e-8, -0.0, 6e-8, 1e-3, 0.5, 2.5, 20, 88, 1e3, 65504], HALF)


def halves(*shapes, low=-4, high=4):
    """Every input is fed at run time, with floats of 16 bits."""
    return lambda model, draw: [model.input(draw(*shape, low=low, high=high).astype(HALF)) for shape in shapes]


def through_bfloat16(operator, count, table, result=np.float32):
    """Builds an operator between casts to BFLOAT16 and back, since numpy lacks the type."""
    def build(model, draw):
        def cast(index, to):
            made = model.operator("CAST", [index], options("CastOptions"))
            model.tensors[made].type = to
            return made

        inputs = [cast(model.input(draw(2, 3, 5, low=-4, high=4)), schema.TensorType.BFLOAT16) for _ in range(count)]
        made = model.operator(operator, inputs, options(table) if table else None, dtype=result)
        if result == np.bool_:
            return [made]
        model.tensors[made].type = schema.TensorType.BFLOAT16
        return [cast(made, schema.TensorType.FLOAT32)]

    return build


FUNCTIONS = {"COS": "CosOptions", "FLOOR": None, "GELU": "GeluOptions", "LOGISTIC": None, "NEG": "NegOptions", "ROUND": None,
             "SIN": None, "TANH": None}


def functions(suite):
    for operator, table in FUNCTIONS.items():
        def case(form, inputs, **fields):
            suite.single(operator, f"float16_{form}", inputs, table, "f32", result=HALF,
                         kernels=KERNELS.get(operator, BOTH), **fields)

        # Bits are compared, but the sign of a zero does not matter: nothing becomes one below zero.
        low = 1 if operator == "ROUND" else -4
        tails = TAILS[(np.abs(TAILS) <= 20) & (np.abs(TAILS) >= (0.5 if operator in ("ROUND", "TANH") else 0)) & (TAILS != -0.5)]
        for shape in ((), (7,), (3, 5), (2, 1, 3, 2), (2, 1, 2, 1, 3)):
            case(f"rank_{len(shape)}", halves(shape, low=low))
        case("tails", fed_values(tails))
        case("empty", halves((0, 3)))
        case("constant", lambda m, draw: [m.constant(draw(5).astype(HALF))])
        case("many", halves((4, 65), low=low))
        if operator == "GELU":
            for form, inputs in (("many", halves((4, 65))), ("tails", fed_values(tails)), ("rank_0", halves(()))):
                case(f"approximate_{form}", inputs, approximate=True)
    for operator in ("FLOOR", "LOGISTIC", "NEG", "ROUND", "TANH"):
        build = through_bfloat16(operator, 1, FUNCTIONS[operator])
        suite.case(operator, "bfloat16", build, kernels=KERNELS.get(operator, BOTH))
    for form, shape in (("rank_0", ()), ("rank_4", (2, 1, 3, 2))):
        inputs = lambda m, draw: [m.input(draw(*shape).astype(np.float64))]
        suite.single("SIGN", f"float64_{form}", inputs, "SignOptions", result=np.float64, kernels=BOTH)
    zeros = np.array([0.0, -0.0, 1e-300, -1e-300, 1e300], np.float64)
    suite.single("SIGN", "float64_around_zero", fed_values(zeros), "SignOptions", result=np.float64, kernels=BOTH)

    for shape in ((7,), (3, 5), (2, 1, 4), (2, 1, 3, 4), (2, 1, 2, 1, 4)):
        suite.single("SOFTMAX", f"float16_rank_{len(shape)}", halves(shape), "SoftmaxOptions", result=HALF, beta=1.0, kernels=BOTH)
    for form, inputs, beta in (("beta", halves((3, 9)), 0.7), ("beta_zero", halves((2, 5)), 0.0), ("one_class", halves((4, 1)), 1.0),
                               ("empty", halves((0, 3)), 1.0), ("long", halves((2, 300)), 1.0),
                               ("large", halves((3, 6), low=-6e4, high=6e4), 1.0), ("small", halves((3, 6), low=-1e-4, high=1e-4), 1.0),
                               ("constant", lambda m, draw: [m.constant(draw(2, 5).astype(HALF))], 1.0)):
        suite.single("SOFTMAX", f"float16_{form}", inputs, "SoftmaxOptions", result=HALF, beta=beta, kernels=BOTH)


PAIRS = {"ADD": "AddOptions", "MUL": "MulOptions", "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions",
         "ATAN2": None}
RELATIONS = {"EQUAL": "EqualOptions", "GREATER": "GreaterOptions", "GREATER_EQUAL": "GreaterEqualOptions", "LESS": "LessOptions",
             "LESS_EQUAL": "LessEqualOptions", "NOT_EQUAL": "NotEqualOptions"}
SHAPES = {"scalars": ((), ()), "rank_1": ((7,), (7,)), "rank_3": ((2, 3, 5), (2, 3, 5)), "scalar_right": ((3, 5), ()),
          "scalar_left": ((), (3, 5)), "both_4d": ((2, 1, 3, 1), (1, 4, 1, 5)), "vector_by_5d": ((3,), (2, 1, 2, 2, 3)),
          "empty": ((0, 3), (1, 3))}


def pairs(suite):
    for operator, table in {**PAIRS, **RELATIONS}.items():
        kind, result = ("bool", np.bool_) if operator in RELATIONS else ("f32", HALF)

        def case(form, inputs, **fields):
            suite.single(operator, f"float16_{form}", inputs, table, kind, result=result, kernels=BOTH, **fields)

        broadcasts = operator != "ATAN2"  # whose inputs have one shape
        for form, (left, right) in SHAPES.items():
            if broadcasts or left == right:
                case(form, halves(left, right))
        case("constant", then_constants(halves((3, 5)), np.linspace(-2, 2, 15 if not broadcasts else 5).astype(HALF).reshape((3, 5) if not broadcasts else (5,))))
        case("twice_the_same", lambda m, draw: [m.input(draw(3, 5).astype(HALF))] * 2)
        case("tails", fed_values(TAILS, TAILS[::-1].copy() if operator != "ADD" else TAILS / HALF(4)) if operator != "MUL" else fed_values(TAILS / HALF(512), TAILS[::-1] / HALF(512)))
        if operator in ("ADD", "MUL"):
            for form in ("relu", "relu6", "relu_n1_to_1"):
                case(form, halves((3, 5), (3, 5)), fusedActivationFunction=FUSED[form])
    for operator in ("MAXIMUM", "MINIMUM", "ATAN2", "GREATER", "LESS"):
        relation = operator in RELATIONS
        build = through_bfloat16(operator, 2, {**PAIRS, **RELATIONS}[operator], np.bool_ if relation else np.float32)
        suite.case(operator, "bfloat16", build, "bool" if relation else "f32", BOTH)


def integers(suite):
    """Stored integers that are computed whatever their scale, or without one."""
    for operator in ("FLOOR_DIV", "FLOOR_MOD"):
        for name, dtype in (("int8", np.int8), ("int16", np.int16)):
            def case(form, left, right, low, high):
                def inputs(model, draw):
                    divisor = draw(*right, low=low, high=high).astype(dtype)
                    divisor[...] = np.where(divisor == 0, 3, divisor)
                    return [model.input(whole(draw, *left, dtype=dtype)), model.input(divisor)]
                suite.single(operator, f"{name}_{form}", inputs, kind="i32", result=dtype)

            bounds = np.iinfo(dtype)
            case("same", (2, 3, 5), (2, 3, 5), -9, 9)
            case("any_divisor", (40,), (40,), bounds.min, bounds.max)
            case("both_4d", (2, 1, 3, 1), (1, 4, 1, 5), -9, 9)
            case("scalar_right", (3, 7), (), -9, 9)
            case("scalar_left", (), (9,), -9, 9)
            case("scalars", (), (), -9, 9)
            least = np.array([bounds.min, bounds.min, bounds.max, 0, -1], dtype)
            suite.single(operator, f"{name}_least", fed_values(least, np.array([1, 2, -1, -5, bounds.max], dtype)), kind="i32", result=dtype)
    for form, shape in (("rank_0", ()), ("rank_2", (3, 7)), ("rank_5", (2, 1, 2, 1, 3)), ("empty", (0, 3))):
        inputs = lambda m, draw: [m.input(np.maximum(whole(draw, *shape, dtype=np.int16), np.int16(-32767)))]
        suite.single("ABS", f"int16_plain_{form}", inputs, "AbsOptions", "i32", result=np.int16)

    def product(form, dtype, left, right, draws):
        inputs = lambda m, draw: [m.input(draws(draw, left)), m.input(draws(draw, right))]
        suite.single("MUL", form, inputs, "MulOptions", "i32" if dtype == np.uint32 else "f32", result=dtype)

    for form, left, right in (("scalars", (), ()), ("same", (2, 3, 5), (2, 3, 5)), ("both_4d", (2, 1, 3, 1), (1, 4, 1, 5)),
                              ("scalar_right", (3, 5), ()), ("vector_by_5d", (3,), (2, 1, 2, 2, 3)), ("empty", (0, 3), (1, 3))):
        product(f"uint32_{form}", np.uint32, left, right, lambda draw, shape: whole(draw, *shape, dtype=np.uint32))
        product(f"complex_{form}", np.complex64, left, right, lambda draw, shape: (draw(*shape) + 1j * draw(*shape)).astype(np.complex64))
    factors = np.array([0, 1, 2, 5, 2**16, 2**31], np.uint32), np.array([7, 1, 2, 1, 2**16, 1], np.uint32)
    for name in ("relu", "relu_n1_to_1", "relu6"):
        suite.single("MUL", f"uint32_{name}", fed_values(*factors), "MulOptions", "i32", result=np.uint32,
                     fusedActivationFunction=FUSED[name])


def places(suite):
    """Indices and numbers of elements of less than 32 bits."""
    narrow = np.int16
    for form, axis, shape, indices in (("rank_1", 0, (5,), [4, 0, 2]), ("first", 0, (3, 4), [2, 2, 0]), ("last", 2, (2, 1, 4), [3, 0]),
                                       ("scalar", 0, (3, 4), 1), ("matrix", 1, (2, 5, 2), [[0, 4], [1, 1]])):
        suite.single("GATHER", f"int16_{form}", lambda m, draw: [m.input(draw(*shape)), m.input(np.array(indices, narrow))],
                     "GatherOptions", axis=axis)
        suite.single("GATHER", f"int16_{form}_constant", lambda m, draw: [m.input(draw(*shape)), m.constant(np.array(indices, narrow))],
                     "GatherOptions", axis=axis)
    for form, shape, indices in (("rows", (3, 4), [[2], [0]]), ("elements", (3, 4), [[2, 1], [0, 3], [1, 1]]), ("single", (5,), [3]),
                                 ("deep", (2, 3, 2), [[[1, 2]], [[0, 0]]])):
        suite.single("GATHER_ND", f"int16_{form}", lambda m, draw: [m.input(draw(*shape)), m.input(np.array(indices, narrow))],
                     "GatherNdOptions")
    for name, dtype in (("int16", narrow), ("int8", np.int8)):
        for form, shape, amounts in (("rank_1", (4,), [[1, 2]]), ("rank_3", (2, 3, 2), [[0, 1], [2, 0], [1, 1]]),
                                     ("rank_4", (1, 2, 3, 1), [[0, 0], [1, 0], [0, 2], [0, 0]])):
            amounts = np.array(amounts, dtype)
            suite.single("PAD", f"{name}_amounts_{form}", then_constants(fed(shape), amounts), "PadOptions")
            suite.single("PADV2", f"{name}_amounts_{form}", then_constants(fed(shape), amounts, np.float32(0.5)), "PadV2Options")
        run_time = lambda m, draw: [m.input(draw(2, 3)), m.input(np.array([[1, 0], [0, 2]], dtype))]
        suite.single("PAD", f"{name}_amounts_at_run_time", run_time, "PadOptions")

    for form, shape, count in (("rank_1", (7,), 3), ("rank_2", (3, 6), 2), ("all", (2, 4), 4), ("one", (2, 1, 5), 1)):
        def build(model, draw):
            inputs = [model.input(draw(*shape)), model.constant(np.array(count, narrow))]
            values, chosen = model.operator("TOPK_V2", inputs, options("TopKV2Options"), results=2)
            model.tensors[chosen].type = schema.TensorType.INT16
            return [values, chosen]
        suite.case("TOPK_V2", f"int16_{form}", build)


def truths_and_bytes(suite):
    """Reductions of truths as numbers, and products of bytes; images of any type whose elements are moved."""
    axes = {"first": (0,), "last": (-1,), "every_one": (0, 1, 2)}
    for operator in ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"):
        for form, reduced in axes.items():
            inputs = lambda m, draw: [m.input(draw(2, 3, 4) < 1), m.constant(int32(*reduced))]
            suite.single(operator, f"bool_{form}", inputs, "ReducerOptions", "bool", kernels=REFERENCE, keepDims=form == "last")
    for form, reduced in axes.items():
        inputs = lambda m, draw: [m.input(draw(2, 3, 4, low=0, high=5).astype(np.uint8)), m.constant(int32(*reduced))]
        suite.single("REDUCE_PROD", f"uint8_{form}", inputs, "ReducerOptions", "u8", result=np.uint8, keepDims=form == "last")
    for name, dtype in (("float16", HALF), ("bool", np.bool_), ("uint16", np.uint16), ("uint32", np.uint32)):
        for form, size, fields in (("up", (6, 7), {}), ("down", (2, 2), {"halfPixelCenters": True}), ("corners", (5, 4), {"alignCorners": True})):
            image = lambda draw: draw(2, 3, 4, 2, low=0, high=90).astype(dtype) if dtype != np.bool_ else draw(2, 3, 4, 2) < 0
            inputs = lambda m, draw: [m.input(image(draw)), m.constant(int32(*size))]
            suite.single("RESIZE_NEAREST_NEIGHBOR", f"{name}_{form}", inputs, "ResizeNearestNeighborOptions", "bool" if dtype == np.bool_ else "f32",
                         result=dtype, **fields)


def weights(suite):
    """Weights of 16 bits, and weights with a sign whose zero point is not 0, constant or fed at run time."""
    def case(operator, form, table, kind, image, shape, weight, zero_point, constant, bias=None, scales=1, wanted=None, **fields):
        def build(model, draw):
            data = scaled(model, model.input(some(draw, kind, *image)), 0.02 if kind == "i8" else 1e-4, 5 if kind == "i8" else 0)
            add = model.constant if constant else model.input
            scale = np.linspace(0.01, 0.02, scales) * (1 if weight == "i8" else 0.01)
            filters = scaled(model, add(some(draw, weight, *shape)), scale, np.full(scales, zero_point))
            inputs = [data, filters] if wanted is None else [model.constant(int32(*wanted)), filters, data]
            if bias:
                values = draw(bias, low=-900, high=900).astype(np.int64 if (kind, weight) == ("i16", "i8") else np.int32)
                inputs.append(scaled(model, model.constant(values), scale * (0.02 if kind == "i8" else 1e-4), np.zeros(scales)))
            result = model.operator(operator, inputs, options(table, **fields), dtype=np.int8 if kind == "i8" else np.int16)
            return [scaled(model, result, 0.3 if kind == "i8" else 1e-3 if weight == "i8" else 4e-4, -7 if kind == "i8" else 0)]

        suite.case(operator, form, build, kind, REFERENCE)

    for constant in (True, False):
        name = "constant" if constant else "fed"
        for form, image, shape, more in (("plain", (3, 7), (4, 7), {}), ("no_bias", (1, 5), (9, 5), {"bias": None}), ("long", (2, 130), (5, 130), {}),
                                         ("zero_point", (3, 6), (4, 6), {"zero_point": 3}), ("relu", (2, 6), (3, 6), {"fusedActivationFunction": FUSED["relu"]}),
                                         ("kept", (2, 3, 4), (5, 4), {"keepNumDims": True})):
            fields = {"bias": shape[0], "zero_point": 0, **more}
            case("FULLY_CONNECTED", f"wide_weights_{form}_{name}", "FullyConnectedOptions", "i16", image, shape, "i16", constant=constant, **fields)
        for kind in ("i8", "i16"):
            depthwise = {"padding": SAME, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
            for form, image, shape, more in (("plain", (1, 4, 5, 3), (1, 3, 3, 3), {}), ("multiplied", (1, 4, 4, 2), (1, 2, 2, 4), {"depthMultiplier": 2}),
                                             ("strided", (2, 5, 6, 2), (1, 3, 2, 2), {"strideW": 2, "strideH": 2})):
                case("DEPTHWISE_CONV_2D", f"zero_point_of_weights_{form}_{name}", "DepthwiseConv2DOptions", kind, image, shape, "i8", 3, constant, shape[3],
                     **{**depthwise, "depthMultiplier": 1, **more})
            for form, image, shape, wanted in (("plain", (1, 3, 3, 2), (3, 2, 2, 2), (1, 6, 6, 3)), ("overlapping", (1, 2, 3, 1), (2, 3, 3, 1), (1, 4, 6, 2))):
                case("TRANSPOSE_CONV", f"zero_point_of_weights_{form}_{name}", "TransposeConvOptions", kind, image, shape, "i8", -4, constant,
                     wanted=wanted, padding=SAME, strideW=2, strideH=2)
    for form, image, slope, point in (("channels", (2, 3, 4, 5), (5,), 0), ("image", (1, 3, 4), (1, 3, 4), 0), ("one", (7,), (1,), 0),
                                      ("axis", (2, 3, 4), (3, 1), 0), ("every", None, (1,), 0), ("zero_point", (2, 5), (5,), 9)):
        stored(suite, "PRELU", f"words_{form}", [("i16", image, 0.002, 0), ("i8", slope, 0.008, point)], ("i16", 0.0019, 0))


FAMILIES = (weights, functions, pairs, integers, places, truths_and_bytes)
