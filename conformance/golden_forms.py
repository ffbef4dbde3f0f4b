"""The forms of each operator that the golden cases cover: ranks, broadcasts, absent inputs, run-time weights, odd geometry.

Each function of FAMILIES writes the cases of some operators into a suite (see goldens.py).
They are the corners that random draws of a single operator seldom reach, one form each.
"""

import struct

import numpy as np

from model_writer import Activation, Padding, options

NONE, RELU, RELU6, RELU_N1, TANH = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1,
                                    Activation.TANH,
                                    )
SAME, VALID = Padding.SAME, Padding.VALID
FUSED = {"relu": RELU, "relu6": RELU6, "relu_n1_to_1": RELU_N1, "tanh": TANH}

BINARY_OPTIONS = {
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "MINIMUM": "MaximumMinimumOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
}

BROADCASTS = {
    "scalars": ((), ()), "scalar_right": ((2, 3), ()), "scalar_left": ((), (2, 3)), "one_element": ((3, 4), (1, )),
    "rank_1": ((7, ), (7, )), "both_3d": ((2, 1, 3), (1, 4, 1)), "both_4d": ((2, 1, 3, 1), (1, 4, 1, 5)),
    "image_by_vector": ((2, 3, 5, 6), (6, )), "same_5d": ((2, 3, 2, 2, 5), (2, 3, 2, 2, 5)),
    "both_5d": ((2, 1, 4, 1, 2), (1, 3, 1, 5, 1)), "vector_by_5d": ((2, ), (2, 3, 1, 2, 2)),
    "mask_by_image": ((2, 4, 4, 1), (2, 4, 4, 5)),
}


def one(operator, make_inputs, table=None, version=1, dtype=np.float32, **fields):
    """A build function of a single operator; `make_inputs(model, draw)` adds and lists its inputs."""
    def build(model, draw):
        chosen = options(table, **fields) if table else None
        return [model.operator(operator, make_inputs(model, draw), chosen, version, dtype=dtype)]

    return build


def inputs(*shapes, dtype=np.float32, low=-2, high=2):
    """Inputs that are all fed at run time."""
    return lambda model, draw: [model.input(draw(*shape, dtype=dtype, low=low, high=high)) for shape in shapes]


def with_constants(shape, *constants, dtype=np.float32):
    """One fed input and constants of given values."""
    return lambda model, draw: [
        model.input(
            draw(*shape, dtype=dtype, low=-9 if dtype != np.float32 else -2, high=9 if dtype != np.float32 else 2))
    ] + [model.constant(value) for value in constants]


def int32(*values):
    return np.array(values, np.int32)


def f16_constant(model, value):
    """A constant kept as float16 behind DEQUANTIZE."""
    return model.operator("DEQUANTIZE", [model.constant(value.astype(np.float16))],
                          options("DequantizeOptions"),
                          version=3,
                          shape=value.shape,
                          )


def binary(suite):
    for operator, table in BINARY_OPTIONS.items():

        def case(form, make_inputs, kind="f32", dtype=np.float32, **fields):
            suite.case(operator, form, one(operator, make_inputs, table, dtype=dtype, **fields), kind)

        for form, shapes in BROADCASTS.items():
            if operator in ("ADD", "SQUARED_DIFFERENCE") or form in ("scalars", "scalar_left", "both_4d", "both_5d",
                                                                     "mask_by_image",
                                                                     ):
                case(form, inputs(*shapes))
        case("constant_left", lambda m, r: [m.constant(r(4)), m.input(r(2, 3, 4))])
        case("constant_scalar", lambda m, r: [m.input(r(2, 3, 4)), m.constant(r())])
        case("int32", inputs((2, 3, 4), (3, 1), dtype=np.int32, low=-9, high=9), kind="i32", dtype=np.int32)

        def twice(model, draw):
            x = model.input(draw(2, 3, 5))
            return [model.operator(operator, [x, x], options(table))]

        suite.case(operator, "twice_the_same", twice)
        if operator in ("ADD", "SUB", "MUL"):
            for form, activation in FUSED.items():
                case(form, inputs((1, 3, 3, 5), (1, 1, 1, 5), low=-4, high=4), fusedActivationFunction=activation)
            case("tanh_5d", inputs((2, 1, 2, 1, 3), (1, 2, 1, 3, 1)), fusedActivationFunction=TANH)
            case("relu_int32",
                 inputs((2, 3), (3, ), dtype=np.int32, low=-9, high=9),
                 kind="i32",
                 dtype=np.int32,
                 fusedActivationFunction=RELU,
                 )
    suite.case("ADD", "zero_size", one("ADD", inputs((0, 3), (3, )), "AddOptions"))


def unary(suite):
    for operator in ("RELU", "RELU6", "LOGISTIC", "RSQRT"):
        low, high = (0.01, 9) if operator == "RSQRT" else (-9, 9)
        for shape in ((), (5, ), (3, 5), (2, 2, 2, 2, 3)):
            suite.case(operator, f"rank_{len(shape)}", one(operator, inputs(shape, low=low, high=high)))
    suite.case("LOGISTIC", "saturated", one("LOGISTIC", inputs((2, 9), low=-120, high=120)))
    for shape in ((6, ), (3, 6), (2, 3, 6), (2, 3, 2, 6), (2, 2, 2, 2, 6)):
        suite.case("SOFTMAX", f"rank_{len(shape)}", one("SOFTMAX", inputs(shape), "SoftmaxOptions", beta=1.0))
    suite.case("SOFTMAX", "one_class", one("SOFTMAX", inputs((4, 1)), "SoftmaxOptions", beta=1.0))
    suite.case("SOFTMAX", "large_values", one("SOFTMAX", inputs((3, 9), low=-500, high=500), "SoftmaxOptions",
                                              beta=2.0))
    suite.case("SOFTMAX", "beta_zero", one("SOFTMAX", inputs((2, 5)), "SoftmaxOptions", beta=0.0))
    alphas = {
        "scalar": (), "one": (1, ), "vector": (5, ), "rank_4": (1, 1, 1, 5), "row": (4, 1), "column": (3, 1, 1),
        "image": (3, 4, 5), "batch": (2, 3, 4, 5),
    }
    for form, alpha in alphas.items():
        suite.case("PRELU", f"alpha_{form}", one("PRELU", lambda m, r: [m.input(r(2, 3, 4, 5)), m.constant(r(*alpha))]))
    for shape, alpha in (((), ()), ((5, ), (5, )), ((3, 5), (5, )), ((2, 3, 5), (3, 5)), ((2, 2, 2, 2, 3), (3, ))):
        suite.case("PRELU", f"rank_{len(shape)}",
                   one("PRELU", lambda m, r: [m.input(r(*shape)), m.constant(r(*alpha))]))
    suite.case("PRELU", "runtime_alpha", one("PRELU", inputs((2, 3, 4, 5), (1, 1, 5))))
    suite.case("PRELU",
               "image_alpha",
               one("PRELU", lambda m, r: [m.input(r(1, 3, 4, 5)), f16_constant(m, r(3, 4, 5))]),
               kind="f16w",
               )
    for shape in ((), (5, ), (2, 3), (2, 1, 2, 2, 2)):
        suite.case("DEQUANTIZE", f"constant_rank_{len(shape)}",
                   one("DEQUANTIZE", lambda m, r: [m.constant(r(*shape).astype(np.float16))], "DequantizeOptions", 3),
                   "f16w", ("reference", "plain"),
                   )
        suite.case("DEQUANTIZE", f"runtime_rank_{len(shape)}",
                   one("DEQUANTIZE", lambda m, r: [m.input(r(*shape).astype(np.float16))], "DequantizeOptions", 3),
                   "f16w",
                   )
    corners = np.array([0, -0.0, 6e-8, -6e-5, 65504, 1 / 3], np.float16)
    suite.case("DEQUANTIZE", "corners", one("DEQUANTIZE", lambda m, r: [m.input(corners)], "DequantizeOptions", 3),
               "f16w")


def convolution_inputs(image, filter_shape, bias_axis, storage="constant", bias=True):
    """Image, filter and bias. Storage is constant, f16 (both), runtime_filter, runtime_all or constant_image."""
    def build(model, draw):
        add = {"f16": lambda value: f16_constant(model, value), "runtime_all": model.input}.get(storage, model.constant)
        x = (model.constant if storage == "constant_image" else model.input)(draw(*image))
        weights = draw(*filter_shape)
        listed = [x, model.input(weights) if storage in ("runtime_filter", "constant_image") else add(weights)]
        return listed + ([add(draw(filter_shape[bias_axis]))] if bias else [])

    return build


def convolution(suite):
    def case(form,
             image,
             filter_shape,
             stride=(1, 1),
             dilation=(1, 1),
             padding=SAME,
             activation=NONE,
             storage="constant",
             kind="f32",
             version=1,
             ):
        suite.case(
            "CONV_2D", form,
            one("CONV_2D",
                convolution_inputs(image, filter_shape, 0, storage),
                "Conv2DOptions",
                version,
                padding=padding,
                strideH=stride[0],
                strideW=stride[1],
                dilationHFactor=dilation[0],
                dilationWFactor=dilation[1],
                fusedActivationFunction=activation,
                ), kind,
        )

    image, filter_shape = (2, 5, 6, 3), (4, 3, 3, 3)
    for storage in ("runtime_filter", "runtime_all", "constant_image"):
        case(storage, image, filter_shape, storage=storage)
    for groups, channels, produced in ((2, 4, 6), (4, 4, 4), (4, 4, 8), (3, 6, 3), (2, 16, 8)):
        case(f"groups_{groups}_of_{channels}_to_{produced}", (2, 5, 5, channels), (produced, 3, 3, channels // groups),
             version=6,
             )
    case("groups_pointwise_valid", (1, 4, 5, 8), (12, 1, 1, 4), padding=VALID, activation=RELU, version=6)
    case("groups_dilated", (1, 7, 7, 4), (4, 3, 3, 2), dilation=(2, 2), padding=VALID, version=6)
    case("groups_runtime_filter", (1, 5, 5, 4), (4, 3, 3, 2), storage="runtime_filter", version=6)
    for form, activation in FUSED.items():
        case(form, image, filter_shape, activation=activation)
    case("dilated_and_strided", (2, 11, 12, 3), (2, 3, 3, 3), stride=(2, 3), dilation=(2, 1))
    case("dilated_unevenly", (1, 8, 12, 2), (3, 2, 3, 2), dilation=(1, 4), padding=VALID)
    case("filter_exceeds_image", (1, 2, 3, 2), (3, 5, 5, 2))
    case("filter_covers_image", (2, 4, 5, 3), (6, 4, 5, 3), padding=VALID)
    case("stride_exceeds_filter", (1, 9, 9, 2), (3, 2, 2, 2), stride=(4, 5))
    case("pointwise_strided", (2, 7, 7, 5), (6, 1, 1, 5), stride=(2, 2))
    case("batch_4", (4, 3, 3, 2), (3, 3, 3, 2), padding=SAME)
    case("zero_batch", (0, 4, 4, 2), (3, 3, 3, 2))
    case("filter_and_bias", image, filter_shape, storage="f16", kind="f16w")
    case("groups", (1, 5, 5, 4), (6, 3, 3, 2), storage="f16", kind="f16w", version=6)


def depthwise(suite):
    def case(form,
             image,
             filter_shape,
             multiplier=1,
             stride=(1, 1),
             dilation=(1, 1),
             padding=SAME,
             activation=NONE,
             storage="constant",
             bias=True,
             kind="f32",
             version=2,
             **more,
             ):
        suite.case(
            "DEPTHWISE_CONV_2D", form,
            one("DEPTHWISE_CONV_2D",
                convolution_inputs(image, filter_shape, 3, storage, bias),
                "DepthwiseConv2DOptions",
                version,
                padding=padding,
                strideH=stride[0],
                strideW=stride[1],
                dilationHFactor=dilation[0],
                dilationWFactor=dilation[1],
                depthMultiplier=multiplier,
                fusedActivationFunction=activation,
                ), kind, **more,
        )

    # LiteRT's optimized kernels and XNNPACK crash without a bias; its reference kernel takes it.
    case("no_bias", (2, 5, 5, 3), (1, 3, 3, 3), bias=False, kernels=("reference", ))
    for storage in ("runtime_filter", "runtime_all"):
        case(storage, (2, 5, 5, 3), (1, 3, 3, 3), storage=storage)
    for form, activation in FUSED.items():
        case(form, (1, 5, 5, 4), (1, 3, 3, 4), activation=activation)
    case("multiplier_3", (2, 5, 6, 2), (1, 3, 3, 6), 3)
    case("multiplier_of_one_channel", (1, 6, 6, 1), (1, 3, 3, 8), 8)
    case("multiplier_unstated", (1, 5, 5, 2), (1, 3, 3, 4), 0)  # LiteRT derives it from the shapes
    case("dilated_multiplier", (2, 9, 9, 2), (1, 3, 3, 4), 2, dilation=(2, 3))
    case("dilated_and_strided", (1, 11, 11, 3), (1, 3, 3, 3), stride=(2, 2), dilation=(2, 2))
    case("dilated_version_1", (1, 7, 7, 2), (1, 3, 3, 2), dilation=(2, 2), version=1)
    case("strides_differ", (1, 7, 8, 3), (1, 3, 5, 3), stride=(1, 2), padding=VALID)
    case("filter_exceeds_image", (1, 2, 2, 3), (1, 5, 5, 3))
    case("filter_and_bias", (1, 5, 5, 3), (1, 3, 3, 6), 2, storage="f16", kind="f16w")


def transposed(suite):
    def case(form,
             image,
             produced,
             filter_shape,
             stride=(2, 2),
             padding=SAME,
             activation=NONE,
             bias=None,
             filter_kind="constant",
             shape_kind="constant",
             kind="f32",
             version=1,
             ):
        def make_inputs(model, draw):
            add = {"constant": model.constant, "runtime": model.input}
            shape = add[shape_kind](int32(image[0], *produced, filter_shape[0]))
            weights, x = draw(*filter_shape), model.input(draw(*image))
            listed = [shape, f16_constant(model, weights) if kind == "f16w" else add[filter_kind](weights), x]
            return listed + ([] if bias is None else [-1] if bias == "absent" else [add[bias](draw(filter_shape[0]))])

        suite.case(
            "TRANSPOSE_CONV", form,
            one("TRANSPOSE_CONV",
                make_inputs,
                "TransposeConvOptions",
                version,
                padding=padding,
                strideH=stride[0],
                strideW=stride[1],
                fusedActivationFunction=activation,
                ), kind,
        )

    image, canonical, filter_shape = (1, 3, 4, 2), (6, 8), (3, 3, 3, 2)
    for bias in ("constant", "runtime", "absent"):
        case(f"bias_{bias}", image, canonical, filter_shape, bias=bias, version=3)
    for form, activation in FUSED.items():
        case(form, image, canonical, filter_shape, bias="constant", activation=activation, version=4)
    case("relu_without_bias", image, canonical, filter_shape, activation=RELU, version=4)
    for size in (3, 4, 5):
        case(f"same_smaller_{size}x{size}", image, (5, 7), (3, size, size, 2))
        case(f"valid_larger_{size}x{size}", image, (5 + size, 7 + size), (3, size, size, 2), padding=VALID)
    case("stride_exceeds_filter_same", image, (9, 12), (3, 2, 2, 2), stride=(3, 3), bias="constant", version=3)
    case("stride_exceeds_filter_valid",
         image, (9, 12), (3, 2, 2, 2),
         stride=(3, 3),
         padding=VALID,
         bias="constant",
         version=3,
         )
    case("pointwise_strided", image, (6, 8), (3, 1, 1, 2))
    case("uneven", image, (3, 8), (5, 3, 4, 2), stride=(1, 2))
    case("uneven_tall", image, (6, 4), (5, 1, 5, 2), stride=(2, 1))
    case("batch_3", (3, 3, 4, 2), canonical, filter_shape, bias="constant", version=3)
    case("runtime_filter", image, canonical, filter_shape, filter_kind="runtime")
    case("runtime_shape", image, canonical, filter_shape, shape_kind="runtime")
    case("smaller_output", image, (5, 7), (3, 4, 4, 2), bias="constant", kind="f16w", version=3)


def fully_connected(suite):
    def case(form, shape, units, depth, keep=False, storage="constant", bias=True, activation=NONE, kind="f32"):
        suite.case(
            "FULLY_CONNECTED", form,
            one("FULLY_CONNECTED",
                convolution_inputs(shape, (units, depth), 0, storage, bias),
                "FullyConnectedOptions",
                5 if keep else 1,
                keepNumDims=keep,
                fusedActivationFunction=activation,
                ), kind,
        )

    for shape in ((6, ), (2, 6), (2, 3, 6), (2, 1, 3, 6), (1, 2, 1, 3, 6)):
        for keep in (False, True):
            case(f"rank_{len(shape)}{'_kept' if keep else ''}", shape, 4, 6, keep)
    case("image_flattened", (2, 2, 3, 4), 5, 24)
    case("rows_joined", (4, 3), 2, 6)
    case("row_split", (2, 6), 3, 3)
    for storage in ("runtime_filter", "runtime_all", "constant_image"):
        case(storage, (3, 6), 4, 6, storage=storage)
    case("runtime_filter_no_bias", (3, 6), 4, 6, storage="runtime_filter", bias=False)
    case("one_unit", (3, 7), 1, 7, bias=False)
    case("zero_batch", (0, 3), 4, 3)
    for form in ("relu", "relu6", "relu_n1_to_1"):
        case(form, (3, 7), 5, 7, activation=FUSED[form])
    case("filter_and_bias", (2, 9), 5, 9, storage="f16", kind="f16w")
    suite.case(
        "FULLY_CONNECTED", "absent_bias",
        one("FULLY_CONNECTED", lambda m, r: [m.input(r(2, 6)), m.constant(r(4, 6)), -1], "FullyConnectedOptions", 6),
    )


def pooling(suite):
    for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):

        def case(form, image, window, stride, padding, activation=NONE):
            suite.case(
                operator, form,
                one(operator,
                    inputs(image),
                    "Pool2DOptions",
                    padding=padding,
                    filterHeight=window[0],
                    filterWidth=window[1],
                    strideH=stride[0],
                    strideW=stride[1],
                    fusedActivationFunction=activation,
                    ),
            )

        case("window_exceeds_image", (1, 3, 4, 2), (7, 6), (1, 1), SAME)
        case("stride_exceeds_window", (2, 7, 8, 3), (1, 2), (3, 5), SAME)
        case("stride_exceeds_image", (1, 4, 4, 2), (2, 2), (5, 5), SAME)
        case("uneven", (3, 5, 7, 3), (3, 1), (2, 3), SAME)
        case("whole_image", (2, 5, 6, 3), (5, 6), (5, 6), VALID)
        for form, activation in FUSED.items():
            case(form, (1, 4, 5, 3), (2, 2), (1, 1), VALID, activation)


def mean(suite):
    def case(form, shape, axes, keep, kind="f32", dtype=np.float32):
        suite.case(
            "MEAN", form,
            one("MEAN",
                with_constants(shape, np.array(axes, np.int32), dtype=dtype),
                "ReducerOptions",
                dtype=dtype,
                keepDims=keep,
                ), kind,
        )

    for form, shape, axes in (("rank_0", (), []), ("rank_1", (5, ), [0]), ("rank_2_rows", (3, 4), [0]),
                              ("rank_3_outer", (2, 3, 4), [0, 2]), ("batch", (3, 2, 2, 3), [0]),
                              ("everything", (2, 3, 4, 5), [0, 1, 2, 3]), ("axes_reversed", (2, 3, 4, 5), [2, 1]),
                              ("axes_repeated", (2, 3, 4, 5), [1, -3, 1]), ("negative", (2, 3, 4, 5), [-2, -1]),
                              ("no_axes", (2, 3, 4), []), ("rank_5_mixed", (2, 3, 2, 2, 3), [1, 3]),
                              ("rank_5_all", (2, 3, 2, 2, 3), [0, 1, 2, 3, 4]), ("scalar_axis", (2, 3, 4), 1),
                              ):
        case(form, shape, axes, False)
        case(form + "_kept", shape, axes, True)
    case("truncates", (3, 4, 5), [1], False, "i32", np.int32)
    suite.case("MEAN", "runtime_axes",
               one("MEAN", lambda m, r: [m.input(r(2, 3, 4)), m.input(int32(1))], "ReducerOptions", keepDims=False),
               )


def movement(suite):
    concatenation(suite)
    padding(suite)
    strided_slice(suite)
    reshaping(suite)
    resizing(suite)


def concatenation(suite):
    def case(form, shapes, axis, kind="f32", dtype=np.float32):
        suite.case(
            "CONCATENATION", form,
            one("CONCATENATION",
                inputs(*shapes, dtype=dtype, low=-9, high=9),
                "ConcatenationOptions",
                dtype=dtype,
                axis=axis,
                ), kind,
        )

    case("rank_1", [(2, ), (5, )], 0)
    case("rank_2", [(2, 3), (2, 1), (2, 4)], -1)
    case("rank_3", [(2, 3, 4), (2, 1, 4)], 1)
    case("rank_5", [(2, 1, 2, 3, 2), (2, 1, 1, 3, 2)], -3)
    case("batch", [(1, 2, 2, 3), (2, 2, 2, 3)], 0)
    case("single", [(2, 3)], 0)
    case("many", [(1, 2)] * 9, 1)
    case("empty_piece", [(2, 3), (0, 3)], 0)
    case("int32", [(2, 3), (2, 2)], 1, "i32", np.int32)
    suite.case(
        "CONCATENATION", "constant_between",
        one("CONCATENATION",
            lambda m, r: [m.input(r(2, 2, 3)), m.constant(r(2, 1, 3)),
                          m.input(r(2, 2, 3))],
            "ConcatenationOptions",
            axis=1,
            ),
    )

    def twice(model, draw):
        x = model.input(draw(2, 3, 2))
        return [model.operator("CONCATENATION", [x, x], options("ConcatenationOptions", axis=2))]

    suite.case("CONCATENATION", "twice_the_same", twice)


def padding(suite):
    for shape in ((), (3, ), (2, 3), (2, 3, 2), (2, 1, 2, 3), (2, 1, 2, 1, 2)):
        amounts = np.array([[1, 2]] * len(shape), np.int32).reshape(-1, 2)
        suite.case("PAD", f"rank_{len(shape)}", one("PAD", with_constants(shape, amounts), "PadOptions"))
    pairs = np.array([[1, 0], [0, 2]])
    for operator, table in (("PAD", "PadOptions"), ("MIRROR_PAD", "MirrorPadOptions")):
        suite.case(operator, "int64_amounts", one(operator, with_constants((2, 3), pairs.astype(np.int64)), table))
        suite.case(operator, "runtime_amounts",
                   one(operator, lambda m, r: [m.input(r(2, 3)), m.input(pairs.astype(np.int32))], table),
                   )
        suite.case(operator, "int32",
                   one(operator, with_constants((2, 3), pairs.astype(np.int32), dtype=np.int32), table, dtype=np.int32),
                   "i32",
                   )
    for mode, name in ((0, "reflect"), (1, "symmetric")):
        for shape in ((4, ), (3, 4), (2, 3, 2), (2, 3, 3, 2), (2, 2, 3, 2, 2)):
            most = np.array([[extent - 1 + mode, 1] for extent in shape], np.int32)
            suite.case("MIRROR_PAD", f"{name}_rank_{len(shape)}",
                       one("MIRROR_PAD", with_constants(shape, most), "MirrorPadOptions", mode=mode),
                       )


SLICES = {  # form: (shape, begin, end, strides, masks)
    "rank_1": ((7,), [1], [6], [2], {}),
    "clamped": ((7,), [-10], [100], [3], {}),
    "empty": ((4, 5), [3, 0], [1, 5], [1, 1], {}),
    "negative_strides": ((4, 5), [3, 4], [0, 0], [-1, -2], {}),
    "reversed": ((4, 5), [0, 0], [0, 0], [-1, -1], dict(beginMask=3, endMask=3)),
    "reversed_by_bounds": ((4, 5), [-1, -1], [-5, -6], [-1, -1], {}),
    "shrunk": ((4, 5), [1, 2], [2, 4], [1, 1], dict(shrinkAxisMask=1)),
    "shrunk_to_scalar": ((4, 5), [-1, -2], [0, 0], [1, 1], dict(shrinkAxisMask=3)),
    "fewer_than_rank": ((2, 3, 4), [0, 1], [2, 3], [1, 1], {}),
    "ellipsis_first": ((2, 3, 4, 5), [0, 1], [0, 3], [1, 1], dict(ellipsisMask=1)),
    "ellipsis_inside": ((2, 3, 4, 5), [1, 0, 1], [2, 0, 3], [1, 1, 1], dict(ellipsisMask=2)),
    "ellipsis_of_nothing": ((2, 3), [0, 0, 1], [2, 0, 3], [1, 1, 1], dict(ellipsisMask=2)),
    "new_axis_first": ((2, 3), [0, 0, 1], [0, 2, 3], [1, 1, 1], dict(newAxisMask=1)),
    "new_axis_inside": ((2, 3), [0, 0, 1], [2, 0, 3], [1, 1, 1], dict(newAxisMask=2)),
    "new_axis_and_shrink": (
        (2, 3, 4),
        [1, 0, 0],
        [2, 0, 0],
        [1, 1, 1],
        dict(ellipsisMask=4, newAxisMask=2, shrinkAxisMask=1),
    ),
    "new_axis_beats_shrink": ((2, 3), [0, 0, 0], [0, 2, 3], [1, 1, 1], dict(newAxisMask=1, shrinkAxisMask=1)),
    "offset": ((10,), [2], [3], [1], dict(offset=True)),
    "offset_strided": ((10, 4), [2, 1], [5, 2], [2, 1], dict(offset=True)),
    "offset_from_end": ((10,), [-4], [3], [1], dict(offset=True)),
    "rank_5": ((2, 3, 2, 2, 2), [0, 1, 0, 1, 0], [2, 3, 2, 2, 1], [1, 1, 1, 1, 1], {}),
    "rank_5_mixed": ((3, 2, 3, 2, 4), [2, 0, 0, 0, 3], [0, 2, 3, 1, 0], [-1, 1, 2, 1, -2], dict(shrinkAxisMask=8)),
}


def strided_slice(suite):
    for form, (shape, begin, end, strides, masks) in SLICES.items():
        suite.case(
            "STRIDED_SLICE", form,
            one("STRIDED_SLICE", with_constants(shape, int32(*begin), int32(*end), int32(*strides)),
                "StridedSliceOptions", **masks,
                ),
        )
    suite.case(
        "STRIDED_SLICE", "int32",
        one("STRIDED_SLICE",
            with_constants((4, 5), int32(1, 0), int32(3, 5), int32(1, 2), dtype=np.int32),
            "StridedSliceOptions",
            dtype=np.int32,
            ), "i32",
    )
    suite.case(
        "STRIDED_SLICE", "runtime_bounds",
        one("STRIDED_SLICE", lambda m, r: [m.input(r(4, 5))] + [m.input(int32(*v)) for v in ((1, 0), (3, 5), (1, 2))],
            "StridedSliceOptions",
            ),
    )


def reshaping(suite):
    for form, shape, new in (("infer_one", (2, 3, 4), [-1, 4]), ("flatten", (2, 3, 4), [-1]), ("to_scalar", (1, 1), []),
                             ("from_scalar", (), [1, 1]), ("rank_5", (2, 3, 4), [2, 1, 3, 1, 4]),
                             ("rank_6", (2, 3, 4), [1, 2, 1, 3, 1, 4]), ("from_rank_5", (2, 1, 3, 2, 2),
                                                                         [4, 6]), ("zero_size", (0, 3), [3, 0]),
                             ):
        suite.case("RESHAPE", form, one("RESHAPE", with_constants(shape, int32(*new))))
    for form, shape, new in (("options_only", (2, 3, 4), [6, 4]), ("options_infer", (2, 3, 4), [-1, 4]),
                             ("options_scalar", (1, ), [0]),
                             ):
        suite.case("RESHAPE", form, one("RESHAPE", inputs(shape), "ReshapeOptions", newShape=new))
    suite.case("RESHAPE", "tensor_beats_options",
               one("RESHAPE", with_constants((2, 3, 4), int32(6, 4)), "ReshapeOptions", newShape=[4, 6]),
               )
    suite.case("RESHAPE", "int64_tensor_ignored",
               one("RESHAPE", with_constants((2, 3, 4), np.array([24, 1])), "ReshapeOptions", newShape=[4, 6]),
               )
    suite.case("RESHAPE", "runtime_shape", one("RESHAPE", lambda m, r: [m.input(r(2, 3, 4)), m.input(int32(6, -1))]))
    suite.case("RESHAPE", "int32", one("RESHAPE", with_constants((2, 3), int32(6), dtype=np.int32), dtype=np.int32),
               "i32")
    for form, shape, axes in (("every_one", (1, 2, 1, 3), []), ("first", (1, 2, 1, 3), [0]),
                              ("negative", (1, 2, 1, 3), [-2]), ("unordered", (1, 2, 1, 3), [2, 0]),
                              ("repeated", (1, 2, 1, 3), [0, -4]), ("to_scalar", (1, 1), []),
                              ("rank_5", (1, 1, 3, 1, 2), [0, 3]), ("nothing_to_do", (2, 3), []), ("rank_0", (), []),
                              ):
        suite.case("SQUEEZE", form, one("SQUEEZE", inputs(shape), "SqueezeOptions", squeezeDims=axes))
    suite.case(
        "SQUEEZE", "int32",
        one("SQUEEZE",
            inputs((1, 4), dtype=np.int32, low=-9, high=9),
            "SqueezeOptions",
            dtype=np.int32,
            squeezeDims=[0]), "i32",
    )
    for form, shape, block in (("block_3_batch", (2, 2, 3, 18), 3), ("block_1", (1, 2, 2, 4), 1), ("one_pixel",
                                                                                                   (1, 1, 1, 16), 4),
                               ):
        suite.case("DEPTH_TO_SPACE", form, one("DEPTH_TO_SPACE", inputs(shape), "DepthToSpaceOptions", blockSize=block))
    suite.case(
        "DEPTH_TO_SPACE", "int32",
        one("DEPTH_TO_SPACE",
            inputs((1, 2, 2, 8), dtype=np.int32, low=-9, high=9),
            "DepthToSpaceOptions",
            dtype=np.int32,
            blockSize=2,
            ), "i32",
    )


def resizing(suite):
    modes = {
        "plain": (False, False), "corners": (True, False), "centers": (False, True),
        "corners_and_centers": (True, True),
    }
    for operator, table in (("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR",
                                                                           "ResizeNearestNeighborOptions"),
                            ):
        for mode, (corners, centers) in modes.items():
            if operator == "RESIZE_BILINEAR" and corners and centers:
                continue  # refused
            for form, shape, size in (("up", (2, 3, 4, 2), (7, 9)), ("down", (2, 7, 8, 3), (3, 2)),
                                      ("to_one", (1, 4, 5, 2), (1, 1)), ("from_one", (1, 1, 1, 3), (3, 2)),
                                      ):
                suite.case(
                    operator, f"{mode}_{form}",
                    one(operator,
                        with_constants(shape, int32(*size)),
                        table,
                        3,
                        alignCorners=corners,
                        halfPixelCenters=centers,
                        ),
                )
        suite.case(operator, "runtime_size",
                   one(operator, lambda m, r: [m.input(r(1, 3, 3, 2)), m.input(int32(5, 4))], table, 3),
                   )
    suite.case(
        "RESIZE_NEAREST_NEIGHBOR", "int32",
        one("RESIZE_NEAREST_NEIGHBOR",
            with_constants((1, 3, 4, 2), int32(5, 6), dtype=np.int32),
            "ResizeNearestNeighborOptions",
            3,
            dtype=np.int32,
            ), "i32",
    )


def pool_options(padding, window):
    """TfLitePoolParams as converters store it: padding, strides, window, no activation, unused tail."""
    height, width = window
    return struct.pack("<8i", padding, width, height, width, height, 0, -1, -1)


def custom(suite):
    """The operators that LiteRT knows through XNNPACK alone. Shapes are declared: it reads them. In C padding 1 is SAME, 2 VALID.

    The indices stay between the pooling and the unpooling: their encoding is each runtime's own affair. They must be read by
    something, or LiteRT crashes.
    """
    only = dict(kernels=("default", ))

    def upsampling(form, image, produced, filter_shape, padding=1, stride=(2, 2)):
        def build(model, draw):
            listed = [
                model.input(draw(*image)),
                model.constant(draw(*filter_shape)),
                model.constant(draw(filter_shape[0])),
            ]
            return [
                model.operator("Convolution2DTransposeBias",
                               listed,
                               shape=(image[0], *produced, filter_shape[0]),
                               custom=struct.pack("<3i", padding, stride[1], stride[0]),
                               )
            ]

        suite.case("Convolution2DTransposeBias", form, build, **only)

    image = (1, 3, 4, 2)
    for size in (2, 3, 4, 5):
        upsampling(f"same_{size}x{size}", image, (6, 8), (3, size, size, 2))
        upsampling(f"valid_{size}x{size}", image, (4 + size, 6 + size), (3, size, size, 2), 2)
    upsampling("same_smaller", image, (5, 7), (3, 3, 3, 2))
    upsampling("stride_1", image, (3, 4), (3, 3, 3, 2), 1, (1, 1))
    upsampling("stride_exceeds_filter", image, (8, 11), (3, 2, 2, 2), 2, (3, 3))
    upsampling("uneven", image, (6, 12), (3, 3, 4, 2), 1, (2, 3))
    upsampling("batch_2", (2, 3, 4, 3), (6, 8), (2, 3, 3, 3))

    def pooling(form, image, window, padding, scaled=False):
        """Pools and unpools; LiteRT takes the unpooling only with VALID padding, whatever the pooling's was."""
        def build(model, draw):
            height, width = (-(-extent // step) if padding == 1 else extent // step
                             for extent, step in zip(image[1:3], window))
            shape = (image[0], height, width, image[3])
            x = model.input(draw(*image))
            values, indices = model.operator("MaxPoolingWithArgmax2D", [x],
                                             results=2,
                                             shape=shape,
                                             custom=pool_options(padding, window))
            filled = (model.operator("MUL", [values, model.constant(draw(shape[3]))],
                                     options("MulOptions"),
                                     shape=shape) if scaled else values)
            grown = (shape[0], height * window[0], width * window[1], shape[3])
            return [
                values,
                model.operator("MaxUnpooling2D", [filled, indices], shape=grown, custom=pool_options(2, window)),
            ]

        suite.case("MaxUnpooling2D" if scaled else "MaxPoolingWithArgmax2D", form, build, **only)

    for form, image, window in (("2x2", (2, 4, 6, 3), (2, 2)), ("2x3", (1, 4, 9, 2), (2, 3)),
                                ("3x1", (2, 6, 4, 5), (3, 1)), ("whole_image", (1, 4, 5, 2),
                                                                (4, 5)), ("1x1", (1, 3, 3, 2), (1, 1)),
                                ):
        pooling(f"same_{form}", image, window, 1)
        pooling(form, image, window, 2, scaled=True)
    pooling("same_odd_size", (2, 5, 7, 3), (2, 2), 1)
    pooling("same_padded_before", (1, 4, 7, 2), (3, 3), 1)
    pooling("valid_odd_size", (2, 5, 7, 3), (2, 2), 2)


def graphs(suite):
    """Graphs whose inputs, outputs and constants meet in unusual ways."""
    def chain(model, draw):
        x = model.input(draw(2, 3))
        middle = model.operator("RELU", [x])
        return x, middle, model.operator("LOGISTIC", [middle])

    suite.case("GRAPH", "intermediate_is_output", lambda m, r: list(chain(m, r)[1:]))
    suite.case("GRAPH", "outputs_out_of_order", lambda m, r: list(chain(m, r)[:0:-1]))
    suite.case("GRAPH", "input_is_output", lambda m, r: list(chain(m, r)))
    suite.case("GRAPH", "output_named_twice", lambda m, r: [chain(m, r)[2]] * 2)
    suite.case("GRAPH", "identity", lambda m, r: [m.input(r(2, 3))])
    suite.case("GRAPH", "constant_output", lambda m, r: [chain(m, r)[2], m.constant(r(4))])
    suite.case("GRAPH", "constant_only", lambda m, r: [m.constant(r(4))])
    suite.case("GRAPH", "unused_input", lambda m, r: [chain(m, r)[2], m.input(r(5))][:1])
    suite.case("GRAPH", "dead_operator", lambda m, r: [chain(m, r)[1]])

    def folded(model, draw):
        total = model.operator("ADD", [model.constant(draw(2, 3)), model.constant(draw(3))], options("AddOptions"))
        return [model.operator("MUL", [model.input(draw(2, 3)), total], options("MulOptions"))]

    suite.case("GRAPH", "constants_combined", folded)

    def diamond(model, draw):
        x = model.input(draw(1, 4, 4, 3))
        left = model.operator("RELU", [x])
        right = model.operator("MUL", [x, x], options("MulOptions"))
        return [model.operator("SUB", [left, right], options("SubOptions"))]

    suite.case("GRAPH", "diamond", diamond)

    def shared_weights(model, draw):
        weights = model.constant(draw(3, 3))
        hidden = model.operator("FULLY_CONNECTED", [model.input(draw(2, 3)), weights, -1],
                                options("FullyConnectedOptions", fusedActivationFunction=RELU), 6,
                                )
        return [model.operator("FULLY_CONNECTED", [hidden, weights, -1], options("FullyConnectedOptions"), 6), weights]

    suite.case("GRAPH", "shared_weights_also_output", shared_weights)


FAMILIES = (binary, unary, convolution, depthwise, transposed, fully_connected, pooling, mean, movement, custom, graphs)
