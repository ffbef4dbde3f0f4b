"""Elementwise operators of further types, and operators that look at shapes or bytes alone."""

import numpy as np

from forms import fed, fed_values, int32, then_fed
from model_writer import Activation, Padding, options

PLAIN = ("plain", "default")
INTEGERS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32}


def whole(draw, *shape, dtype):
    """Integers over the whole range of a type."""
    bounds = np.iinfo(dtype)
    return draw(*shape, dtype=np.float64, low=bounds.min, high=float(bounds.max) + 1).astype(np.int64).astype(dtype)


def shapes_alone(suite):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 1), (1, 2, 1, 2, 1)):
        suite.single("RANK", f"rank_{len(shape)}", fed(shape), "RankOptions", result=np.int32)
    suite.single("RANK", "empty", fed((0, 3)), "RankOptions", result=np.int32)
    for name, dtype in {**INTEGERS, "int64": np.int64, "bool": np.bool_}.items():
        suite.single("RANK", name, fed_values(np.ones((2, 2), dtype)), "RankOptions", "i32")
    suite.single("RANK", "constant", lambda m, draw: [m.constant(draw(2, 3))], "RankOptions", result=np.int32)

    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 2), (1, 2, 1, 2, 2)):
        suite.single("ZEROS_LIKE", f"rank_{len(shape)}", fed(shape), "ZerosLikeOptions")
    suite.single("ZEROS_LIKE", "empty", fed((0, 3)), "ZerosLikeOptions")
    for kind, dtype in (("i32", np.int32), ("i64", np.int64)):
        for shape in ((), (2, 3), (2, 1, 3, 2)):
            inputs = fed_values(np.ones(shape, dtype))
            suite.single("ZEROS_LIKE", f"rank_{len(shape)}", inputs, "ZerosLikeOptions", kind)

    def both(form, left, right, dtype=np.int32):
        inputs = [np.array(extents, dtype) for extents in (left, right)]
        suite.single("BROADCAST_ARGS", form, fed_values(*inputs), None, "i32" if dtype == np.int32 else "i64", result=dtype)

    forms = {"ones": ([1, 3], [5, 2, 1]), "same": ([2, 3], [2, 3]), "longer": ([4, 2, 3], [3]), "nothing": ([], [5, 2]),
             "scalars": ([], []), "zero": ([0], [5, 1])}
    for form, (left, right) in forms.items():
        both(form, left, right)
        both(form, left, right, np.int64)
    listed = lambda m, draw: [m.constant(int32(1, 3)), m.constant(int32(2, 1))]
    suite.single("BROADCAST_ARGS", "constant", listed, kind="i32")

    def then_broadcast(model, draw):
        shape = model.operator("BROADCAST_ARGS", [model.input(int32(1, 3)), model.input(int32(2, 1))], dtype=np.int32)
        return [model.operator("BROADCAST_TO", [model.input(draw(1, 3)), shape], options("BroadcastToOptions"), version=2)]

    suite.case("BROADCAST_ARGS", "then_broadcast", then_broadcast)


def sums(suite):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 2), (1, 2, 1, 2, 2)):
        suite.single("ADD_N", f"rank_{len(shape)}", fed(shape, shape, shape), "AddNOptions")
    suite.single("ADD_N", "two", fed((2, 3), (2, 3)), "AddNOptions")
    suite.single("ADD_N", "many", fed(*[(2, 3)] * 12), "AddNOptions")
    suite.single("ADD_N", "twice_the_same", lambda m, draw: [m.input(draw(2, 3))] * 2, "AddNOptions")
    constant = lambda m, draw: [m.input(draw(4)), m.constant(draw(4)), m.input(draw(4))]
    suite.single("ADD_N", "constant_between", constant, "AddNOptions")
    suite.single("ADD_N", "int32", lambda m, draw: [m.input(whole(draw, 2, 3, dtype=np.int32)) for _ in range(3)], "AddNOptions", "i32")
    suite.single("ADD_N", "two_int32", lambda m, draw: [m.input(whole(draw, 5, dtype=np.int32)) for _ in range(2)], "AddNOptions", "i32")
    suite.single("ADD_N", "empty", fed((0, 3), (0, 3)), "AddNOptions")


def bits(suite):
    for operator, table in (("BITWISE_XOR", "BitwiseXorOptions"), ("RIGHT_SHIFT", "RightShiftOptions")):
        def case(form, left, right, dtype=np.int32):
            def inputs(model, draw):
                count = whole(draw, *right, dtype=dtype) if operator == "BITWISE_XOR" else draw(*right, low=0, high=2 * 8 * np.dtype(dtype).itemsize).astype(dtype)
                return [model.input(whole(draw, *left, dtype=dtype)), model.input(count)]
            suite.single(operator, form, inputs, table, "i32", result=dtype)

        for name, dtype in INTEGERS.items():
            case(name, (2, 3), (2, 3), dtype)
            case(f"{name}_broadcast", (2, 1, 3), (4, 1), dtype)
        case("scalars", (), ())
        case("of_a_scalar", (3, 2), ())
        case("rank_4", (2, 1, 3, 2), (1, 2, 1, 2))
    negative = fed_values(int32(-9, 9, -9), int32(-1, -40, 2))
    suite.single("RIGHT_SHIFT", "negative_counts", negative, "RightShiftOptions", "i32")


def casts(suite):
    def case(form, shape, dtype, result, kind="f32"):
        def build(model, draw):
            x = draw(*shape).astype(dtype) if np.dtype(dtype).kind == "f" else whole(draw, *shape, dtype=dtype)
            return [model.operator("BITCAST", [model.input(x)], options("BitcastOptions"), dtype=result)]
        suite.case("BITCAST", form, build, kind)

    case("reals_to_int32", (2, 3), np.float32, np.int32)
    case("reals_to_uint32", (2, 3), np.float32, np.uint32)
    case("reals_to_bytes", (2, 3), np.float32, np.uint8)
    case("reals_to_int16", (3,), np.float32, np.int16)
    case("int32_to_uint32", (2, 3), np.int32, np.uint32, "i32")
    case("int64_to_int32", (2, 3), np.int64, np.int32, "i64")
    case("int32_to_int64", (3, 2), np.int32, np.int64, "i32")
    case("bytes_to_int32", (2, 4), np.int8, np.int32, "i32")
    case("bytes_to_one_int64", (8,), np.uint8, np.int64, "i64")
    case("int16_to_int32", (2, 3, 2), np.int16, np.int32, "i32")
    case("int16_to_uint8", (2,), np.int16, np.uint8, "i32")
    case("scalar", (), np.int32, np.uint32, "i32")
    case("scalar_to_bytes", (), np.int32, np.int8, "i32")
    case("float16_to_int16", (2, 2), np.float16, np.int16)
    case("float64_to_int64", (2, 2), np.float64, np.int64)
    case("same_type", (2, 3), np.float32, np.float32)


def angles(suite):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 2), (1, 2, 1, 2, 2)):
        suite.single("ATAN2", f"rank_{len(shape)}", fed(shape, shape))
    for name, dtype in (("reals", np.float32), ("float64", np.float64)):
        corners = np.array([0, 0, 1, -1, 1, -1, 0.0, -0.0, 0.0, -0.0, 3, 1e-30], dtype)
        others = np.array([1, -1, 0, 0, 1, -1, 0.0, 0.0, -0.0, -0.0, 1e-30, -3], dtype)
        suite.single("ATAN2", f"corners_{name}", fed_values(corners, others), result=dtype)
    suite.single("ATAN2", "float64_rank_3", lambda m, draw: [m.input(draw(2, 3, 2, dtype=np.float64)) for _ in range(2)], result=np.float64)
    suite.single("ATAN2", "constant", lambda m, draw: [m.input(draw(4)), m.constant(draw(4))])
    suite.single("ATAN2", "large", fed((3, 5), (3, 5), low=-1e5, high=1e5))
    suite.single("ATAN2", "small", fed((3, 5), (3, 5), low=-1e-5, high=1e-5))


def buckets(suite):
    def case(form, inputs, *boundaries):
        suite.single("BUCKETIZE", form, inputs, "BucketizeOptions", result=np.int32, boundaries=list(boundaries))

    for shape in ((), (7,), (3, 4), (2, 3, 4), (2, 1, 3, 2)):
        case(f"rank_{len(shape)}", fed(shape), -1.0, 0.0, 0.5)
    case("one", fed((7,)), 0.0)
    case("at_boundaries", fed_values(np.array([-1, 0, 0.5, 2, -0.0], np.float32)), -1.0, 0.0, 0.5, 0.5, 2.0)
    case("many", fed((5, 5), low=-50, high=50), *[float(value) for value in range(-40, 40, 3)])
    for dtype in (np.int32, np.int64, np.float64):
        case(np.dtype(dtype).name, fed_values(np.array([-7, 0, 1, 2, 3, 9], dtype)), -2.5, 1.0, 3.0)
    case("large_int32", fed_values(int32(2**24 + 1, 2**24 + 3)), 2.0**24, 2.0**24 + 2)
    case("empty", fed((0, 2)), 0.0)


def fakes(suite):
    def case(form, low, high, bits=8, shape=(3, 4), version=1):
        suite.single("FAKE_QUANT", form, fed(shape, low=-4, high=4), "FakeQuantOptions", version=version, min=low, max=high,
                     numBits=bits, narrowRange=False)

    case("plain", -1.5, 2.5)
    case("version_2", -1.5, 2.5, version=2)
    case("from_zero", 0.0, 3.0)
    case("to_zero", -3.0, 0.0)
    case("above_zero", 0.7, 2.0)
    case("below_zero", -2.0, -0.7)
    case("moved", -0.55, 1.3, 4)
    case("bits_2", -1.0, 2.0, 2)
    case("bits_7", -1.0, 2.0, 7)
    case("bits_16", -3.0, 3.0, 16)
    case("rank_1", -1.0, 1.0, shape=(9,))
    case("rank_5", -1.0, 1.0, shape=(1, 2, 3, 2, 2))


def neighbours(suite):
    # The reference kernel leaves out the last neighbour of each sum; the other kernels follow TensorFlow.
    def case(form, shape=(1, 3, 4, 6), **fields):
        fields = {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75, **fields}
        suite.single("LOCAL_RESPONSE_NORMALIZATION", form, fed(shape), "LocalResponseNormalizationOptions", kernels=PLAIN, **fields)

    case("plain")
    case("batch", (2, 2, 3, 5))
    case("radius_0", radius=0)
    case("radius_1", radius=1)
    case("all", radius=50)
    case("alexnet", (1, 2, 2, 16), radius=5, bias=2.0, alpha=1e-4)
    case("beta_1", beta=1.0)
    case("root", beta=0.5)
    case("bias", bias=3.0)
    case("beta_0", beta=0.0)
    case("alpha_0", alpha=0.0)
    case("one_channel", (1, 3, 3, 1))
    case("many_channels", (1, 2, 2, 70), radius=3)

    def pool(form, shape=(1, 5, 6, 3), size=(2, 3), strides=(1, 1), padding=Padding.SAME, activation=Activation.NONE):
        suite.single("L2_POOL_2D", form, fed(shape), "Pool2DOptions", padding=padding, filterHeight=size[0], filterWidth=size[1],
                     strideH=strides[0], strideW=strides[1], fusedActivationFunction=activation)

    for name, padding in (("same", Padding.SAME), ("valid", Padding.VALID)):
        pool(name, padding=padding)
        pool(f"{name}_strides", strides=(2, 3), padding=padding)
        pool(f"{name}_batch", (2, 7, 5, 4), (3, 3), (2, 2), padding)
        pool(f"{name}_one", size=(1, 1), padding=padding)
    pool("whole", size=(5, 6), padding=Padding.VALID)
    pool("wider_than_the_image", size=(9, 8))
    pool("relu", activation=Activation.RELU)
    pool("relu6", activation=Activation.RELU6)
    pool("relu_n1_to_1", activation=Activation.RELU_N1_TO_1)


FAMILIES = (shapes_alone, sums, bits, casts, angles, buckets, fakes, neighbours)
