"""Element-wise operators, SOFTMAX, PRELU, DEQUANTIZE and MEAN: ranks, broadcasts, constants on either side."""

import numpy as np

from forms import FUSED, fed, fed_integers, int32, then_constants, then_fed
from model_writer import Activation, options

BINARY = {
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "MINIMUM": "MaximumMinimumOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
}

BROADCASTS = {  # for every binary operator
    "scalars": ((), ()),
    "scalar_left": ((), (2, 3)),
    "both_4d": ((2, 1, 3, 1), (1, 4, 1, 5)),
    "both_5d": ((2, 1, 4, 1, 2), (1, 3, 1, 5, 1)),
    "mask_by_image": ((2, 4, 4, 1), (2, 4, 4, 5)),
}
MORE_BROADCASTS = {  # for a commutative one with options and one without
    "scalar_right": ((2, 3), ()),
    "one_element": ((3, 4), (1,)),
    "rank_1": ((7,), (7,)),
    "both_3d": ((2, 1, 3), (1, 4, 1)),
    "image_by_vector": ((2, 3, 5, 6), (6,)),
    "same_5d": ((2, 3, 2, 2, 5), (2, 3, 2, 2, 5)),
    "vector_by_5d": ((2,), (2, 3, 1, 2, 2)),
}

PRELU_ALPHAS = {  # shapes of alpha beside an image [2, 3, 4, 5]
    "scalar": (), "one": (1,), "vector": (5,), "rank_4": (1, 1, 1, 5), "row": (4, 1), "column": (3, 1, 1),
    "image": (3, 4, 5), "batch": (2, 3, 4, 5),
}

MEANS = {  # shape, axes
    "rank_0": ((), []),
    "rank_1": ((5,), [0]),
    "rank_2_rows": ((3, 4), [0]),
    "rank_3_outer": ((2, 3, 4), [0, 2]),
    "batch": ((3, 2, 2, 3), [0]),
    "everything": ((2, 3, 4, 5), [0, 1, 2, 3]),
    "axes_reversed": ((2, 3, 4, 5), [2, 1]),
    "axes_twice": ((2, 3, 4, 5), [1, -3, 1]),
    "negative": ((2, 3, 4, 5), [-2, -1]),
    "no_axes": ((2, 3, 4), []),
    "rank_5_mixed": ((2, 3, 2, 2, 3), [1, 3]),
    "rank_5_all": ((2, 3, 2, 2, 3), [0, 1, 2, 3, 4]),
    "scalar_axis": ((2, 3, 4), 1),
}


def binary(suite):
    for operator, table in BINARY.items():
        common = operator in ("ADD", "SQUARED_DIFFERENCE")
        for form, shapes in (BROADCASTS | MORE_BROADCASTS if common else BROADCASTS).items():
            suite.single(operator, form, fed(*shapes), table)
        suite.single(operator, "constant_left", lambda m, draw: [m.constant(draw(4)), m.input(draw(2, 3, 4))], table)
        suite.single(operator, "constant_scalar", lambda m, draw: [m.input(draw(2, 3, 4)), m.constant(draw())], table)
        suite.single(operator, "twice_the_same", lambda m, draw: [m.input(draw(2, 3, 5))] * 2, table)
        suite.single(operator, "int32", fed_integers((2, 3, 4), (3, 1)), table, kind="i32")
        if operator in ("ADD", "SUB", "MUL"):
            fused_binary(suite, operator, table)
    suite.single("ADD", "zero_size", fed((0, 3), (3,)), "AddOptions")


def fused_binary(suite, operator, table):
    for form, activation in FUSED.items():
        image_and_vector = fed((1, 3, 3, 5), (1, 1, 1, 5), low=-4, high=4)
        suite.single(operator, form, image_and_vector, table, fusedActivationFunction=activation)
    both = fed((2, 1, 2, 1, 3), (1, 2, 1, 3, 1))
    suite.single(operator, "tanh_5d", both, table, fusedActivationFunction=Activation.TANH)
    integers = fed_integers((2, 3), (3,))
    suite.single(operator, "relu_int32", integers, table, kind="i32", fusedActivationFunction=Activation.RELU)


def unary(suite):
    for operator in ("RELU", "RELU6", "LOGISTIC", "RSQRT"):
        low, high = (0.01, 9) if operator == "RSQRT" else (-9, 9)
        for shape in ((), (5,), (3, 5), (2, 2, 2, 2, 3)):
            suite.single(operator, f"rank_{len(shape)}", fed(shape, low=low, high=high))
    suite.single("LOGISTIC", "saturated", fed((2, 9), low=-120, high=120))


def softmax(suite):
    for shape in ((6,), (3, 6), (2, 3, 6), (2, 3, 2, 6), (2, 2, 2, 2, 6)):
        suite.single("SOFTMAX", f"rank_{len(shape)}", fed(shape), "SoftmaxOptions", beta=1.0)
    suite.single("SOFTMAX", "one_class", fed((4, 1)), "SoftmaxOptions", beta=1.0)
    suite.single("SOFTMAX", "large_values", fed((3, 9), low=-500, high=500), "SoftmaxOptions", beta=2.0)
    suite.single("SOFTMAX", "beta_zero", fed((2, 5)), "SoftmaxOptions", beta=0.0)


def prelu(suite):
    def constant_alpha(form, shape, alpha):
        suite.single("PRELU", form, lambda m, draw: [m.input(draw(*shape)), m.constant(draw(*alpha))])

    for form, alpha in PRELU_ALPHAS.items():
        constant_alpha(f"alpha_{form}", (2, 3, 4, 5), alpha)
    for shape, alpha in (((), ()), ((5,), (5,)), ((3, 5), (5,)), ((2, 3, 5), (3, 5)), ((2, 2, 2, 2, 3), (3,))):
        constant_alpha(f"rank_{len(shape)}", shape, alpha)
    suite.single("PRELU", "runtime_alpha", fed((2, 3, 4, 5), (1, 1, 5)))
    image_alpha = lambda m, draw: [m.input(draw(1, 3, 4, 5)), m.constant_f16(draw(3, 4, 5))]
    suite.single("PRELU", "image_alpha", image_alpha, kind="f16w")


def dequantize(suite):
    def case(form, make_inputs, **more):
        suite.single("DEQUANTIZE", form, make_inputs, "DequantizeOptions", kind="f16w", version=3, **more)

    for shape in ((), (5,), (2, 3), (2, 1, 2, 2, 2)):
        half = lambda draw: draw(*shape, dtype=np.float16)
        # XNNPACK fails on a graph without other operators.
        case(f"constant_rank_{len(shape)}", lambda m, draw: [m.constant(half(draw))], kernels=("reference", "plain"))
        case(f"runtime_rank_{len(shape)}", lambda m, draw: [m.input(half(draw))])
    corners = np.array([0, -0.0, 6e-8, -6e-5, 65504, 1 / 3], np.float16)
    case("corners", lambda m, draw: [m.input(corners)])


def mean(suite):
    for form, (shape, axes) in MEANS.items():
        inputs = then_constants(fed(shape), np.array(axes, np.int32))
        suite.single("MEAN", form, inputs, "ReducerOptions", keepDims=False)
        suite.single("MEAN", form + "_kept", inputs, "ReducerOptions", keepDims=True)
    truncated = then_constants(fed_integers((3, 4, 5)), int32(1))
    suite.single("MEAN", "truncates", truncated, "ReducerOptions", kind="i32", keepDims=False)
    suite.single("MEAN", "runtime_axes", then_fed(fed((2, 3, 4)), int32(1)), "ReducerOptions", keepDims=False)


FAMILIES = (binary, unary, softmax, prelu, dequantize, mean)
