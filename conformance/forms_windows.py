"""Window operators and contractions: unusual geometry, groups, absent biases, weights that are not constant."""

import struct

from forms import FUSED, SAME, VALID, fed, int32, weighted
from model_writer import Activation, options


def convolution(suite):
    def case(form, image, filters, stride=(1, 1), dilation=(1, 1), padding=SAME, activation=Activation.NONE,
             storage="constant", kind="f32", version=1):
        suite.single("CONV_2D", form, weighted(image, filters, 0, storage), "Conv2DOptions", kind=kind, version=version,
                     padding=padding, strideH=stride[0], strideW=stride[1], dilationHFactor=dilation[0],
                     dilationWFactor=dilation[1], fusedActivationFunction=activation)

    image, filters = (2, 5, 6, 3), (4, 3, 3, 3)
    for storage in ("runtime_filter", "runtime_all", "constant_image"):
        case(storage, image, filters, storage=storage)
    for form, activation in FUSED.items():
        case(form, image, filters, activation=activation)
    for groups, depth, produced in ((2, 4, 6), (4, 4, 4), (4, 4, 8), (3, 6, 3), (2, 16, 8)):
        grouped = (produced, 3, 3, depth // groups)
        case(f"groups_{groups}_of_{depth}_to_{produced}", (2, 5, 5, depth), grouped, version=6)
    case("groups_pointwise_valid", (1, 4, 5, 8), (12, 1, 1, 4), padding=VALID, activation=Activation.RELU, version=6)
    case("groups_dilated", (1, 7, 7, 4), (4, 3, 3, 2), dilation=(2, 2), padding=VALID, version=6)
    case("groups_runtime_filter", (1, 5, 5, 4), (4, 3, 3, 2), storage="runtime_filter", version=6)
    case("dilated_and_strided", (2, 11, 12, 3), (2, 3, 3, 3), stride=(2, 3), dilation=(2, 1))
    case("dilated_unevenly", (1, 8, 12, 2), (3, 2, 3, 2), dilation=(1, 4), padding=VALID)
    case("filter_exceeds_image", (1, 2, 3, 2), (3, 5, 5, 2))
    case("filter_covers_image", (2, 4, 5, 3), (6, 4, 5, 3), padding=VALID)
    case("stride_exceeds_filter", (1, 9, 9, 2), (3, 2, 2, 2), stride=(4, 5))
    case("pointwise_strided", (2, 7, 7, 5), (6, 1, 1, 5), stride=(2, 2))
    case("batch_4", (4, 3, 3, 2), (3, 3, 3, 2))
    case("zero_batch", (0, 4, 4, 2), (3, 3, 3, 2))
    case("filter_and_bias", image, filters, storage="f16", kind="f16w")
    case("groups", (1, 5, 5, 4), (6, 3, 3, 2), storage="f16", kind="f16w", version=6)


def depthwise(suite):
    def case(form, image, filters, multiplier=1, stride=(1, 1), dilation=(1, 1), padding=SAME, version=2,
             activation=Activation.NONE, storage="constant", bias=True, **more):
        suite.single("DEPTHWISE_CONV_2D", form, weighted(image, filters, 3, storage, bias), "DepthwiseConv2DOptions",
                     version=version, padding=padding, strideH=stride[0], strideW=stride[1],
                     dilationHFactor=dilation[0], dilationWFactor=dilation[1], depthMultiplier=multiplier,
                     fusedActivationFunction=activation, **more)

    image, filters = (2, 5, 5, 3), (1, 3, 3, 3)
    # LiteRT's optimized kernels and XNNPACK crash without a bias. Its reference kernel supports that.
    case("no_bias", image, filters, bias=False, kernels=("reference",))
    for storage in ("runtime_filter", "runtime_all"):
        case(storage, image, filters, storage=storage)
    for form, activation in FUSED.items():
        case(form, (1, 5, 5, 4), (1, 3, 3, 4), activation=activation)
    case("multiplier_3", (2, 5, 6, 2), (1, 3, 3, 6), 3)
    case("multiplier_of_one_channel", (1, 6, 6, 1), (1, 3, 3, 8), 8)
    case("multiplier_unstated", (1, 5, 5, 2), (1, 3, 3, 4), 0)  # it follows from the shapes
    case("dilated_multiplier", (2, 9, 9, 2), (1, 3, 3, 4), 2, dilation=(2, 3))
    case("dilated_and_strided", (1, 11, 11, 3), (1, 3, 3, 3), stride=(2, 2), dilation=(2, 2))
    case("dilated_version_1", (1, 7, 7, 2), (1, 3, 3, 2), dilation=(2, 2), version=1)
    case("strides_differ", (1, 7, 8, 3), (1, 3, 5, 3), stride=(1, 2), padding=VALID)
    case("filter_exceeds_image", (1, 2, 2, 3), (1, 5, 5, 3))
    case("filter_and_bias", (1, 5, 5, 3), (1, 3, 3, 6), 2, storage="f16", kind="f16w")


def transposed(suite):
    def case(form, image, produced, filters, stride=(2, 2), padding=SAME, activation=Activation.NONE, bias=None,
             filter_storage="constant", shape_storage="constant", kind="f32", version=1):
        def listed(model, draw):
            add = {"constant": model.constant, "f16": model.constant_f16, "runtime": model.input}
            shape = add[shape_storage](int32(image[0], *produced, filters[0]))
            inputs = [shape, add[filter_storage](draw(*filters)), model.input(draw(*image))]
            if bias is None:
                return inputs
            return inputs + [-1 if bias == "absent" else add[bias](draw(filters[0]))]
        suite.single("TRANSPOSE_CONV", form, listed, "TransposeConvOptions", kind=kind, version=version,
                     padding=padding, strideH=stride[0], strideW=stride[1], fusedActivationFunction=activation)

    image, produced, filters = (1, 3, 4, 2), (6, 8), (3, 3, 3, 2)
    for bias in ("constant", "runtime", "absent"):
        case(f"bias_{bias}", image, produced, filters, bias=bias, version=3)
    for form, activation in FUSED.items():
        case(form, image, produced, filters, bias="constant", activation=activation, version=4)
    case("relu_without_bias", image, produced, filters, activation=Activation.RELU, version=4)
    for size in (3, 4, 5):  # one cell less, one cell more than the usual output
        case(f"same_smaller_{size}x{size}", image, (5, 7), (3, size, size, 2))
        case(f"valid_larger_{size}x{size}", image, (5 + size, 7 + size), (3, size, size, 2), padding=VALID)
    gaps = {"stride": (3, 3), "bias": "constant", "version": 3}
    case("stride_exceeds_filter_same", image, (9, 12), (3, 2, 2, 2), **gaps)
    case("stride_exceeds_filter_valid", image, (9, 12), (3, 2, 2, 2), padding=VALID, **gaps)
    case("pointwise_strided", image, produced, (3, 1, 1, 2))
    case("uneven", image, (3, 8), (5, 3, 4, 2), stride=(1, 2))
    case("uneven_tall", image, (6, 4), (5, 1, 5, 2), stride=(2, 1))
    case("batch_3", (3, 3, 4, 2), produced, filters, bias="constant", version=3)
    case("runtime_filter", image, produced, filters, filter_storage="runtime")
    case("runtime_shape", image, produced, filters, shape_storage="runtime")
    case("smaller_output", image, (5, 7), (3, 4, 4, 2), bias="constant", filter_storage="f16", kind="f16w", version=3)


def fully_connected(suite):
    def case(form, shape, weights, keep=False, storage="constant", bias=True, activation=Activation.NONE, kind="f32"):
        suite.single("FULLY_CONNECTED", form, weighted(shape, weights, 0, storage, bias), "FullyConnectedOptions",
                     kind=kind, version=5 if keep else 1, keepNumDims=keep, fusedActivationFunction=activation)

    for shape in ((6,), (2, 6), (2, 3, 6), (2, 1, 3, 6), (1, 2, 1, 3, 6)):
        case(f"rank_{len(shape)}", shape, (4, 6))
        case(f"rank_{len(shape)}_kept", shape, (4, 6), keep=True)
    case("image_flattened", (2, 2, 3, 4), (5, 24))
    case("rows_joined", (4, 3), (2, 6))
    case("row_split", (2, 6), (3, 3))
    for storage in ("runtime_filter", "runtime_all", "constant_image"):
        case(storage, (3, 6), (4, 6), storage=storage)
    case("runtime_filter_no_bias", (3, 6), (4, 6), storage="runtime_filter", bias=False)
    case("one_unit", (3, 7), (1, 7), bias=False)
    case("zero_batch", (0, 3), (4, 3))
    for form in ("relu", "relu6", "relu_n1_to_1"):  # LiteRT refuses TANH here
        case(form, (3, 7), (5, 7), activation=FUSED[form])
    case("filter_and_bias", (2, 9), (5, 9), storage="f16", kind="f16w")
    no_bias = lambda m, draw: [m.input(draw(2, 6)), m.constant(draw(4, 6)), -1]
    suite.single("FULLY_CONNECTED", "absent_bias", no_bias, "FullyConnectedOptions", version=6)


def pooling(suite):
    for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        def case(form, image, window, stride, padding=SAME, activation=Activation.NONE):
            suite.single(operator, form, fed(image), "Pool2DOptions", padding=padding, filterHeight=window[0],
                         filterWidth=window[1], strideH=stride[0], strideW=stride[1],
                         fusedActivationFunction=activation)

        case("window_exceeds_image", (1, 3, 4, 2), (7, 6), (1, 1))
        case("stride_exceeds_window", (2, 7, 8, 3), (1, 2), (3, 5))
        case("stride_exceeds_image", (1, 4, 4, 2), (2, 2), (5, 5))
        case("uneven", (3, 5, 7, 3), (3, 1), (2, 3))
        case("whole_image", (2, 5, 6, 3), (5, 6), (5, 6), VALID)
        for form, activation in FUSED.items():
            case(form, (1, 4, 5, 3), (2, 2), (1, 1), VALID, activation)


# The custom operators. LiteRT supports them only through XNNPACK, which reads the declared shapes. Options are C structs.
XNNPACK = ("default",)
C_SAME, C_VALID = 1, 2


def transposed_with_bias(suite):
    def case(form, image, produced, filters, padding=C_SAME, stride=(2, 2)):
        def build(model, draw):
            inputs = [model.input(draw(*image)), model.constant(draw(*filters)), model.constant(draw(filters[0]))]
            return [model.operator("Convolution2DTransposeBias", inputs, shape=(image[0], *produced, filters[0]),
                                   custom=struct.pack("<3i", padding, stride[1], stride[0]))]
        suite.case("Convolution2DTransposeBias", form, build, kernels=XNNPACK)

    image = (1, 3, 4, 2)
    for size in (2, 3, 4, 5):
        case(f"same_{size}x{size}", image, (6, 8), (3, size, size, 2))
        case(f"valid_{size}x{size}", image, (4 + size, 6 + size), (3, size, size, 2), C_VALID)
    case("same_smaller", image, (5, 7), (3, 3, 3, 2))
    case("stride_1", image, (3, 4), (3, 3, 3, 2), C_SAME, (1, 1))
    case("stride_exceeds_filter", image, (8, 11), (3, 2, 2, 2), C_VALID, (3, 3))
    case("uneven", image, (6, 12), (3, 3, 4, 2), C_SAME, (2, 3))
    case("batch_2", (2, 3, 4, 3), (6, 8), (2, 3, 3, 3))


def pooled_with_indices(suite):
    """Pooling and unpooling. The indices are not an output, since each runtime encodes them differently.

    LiteRT requires windows that do not overlap, unpools only with VALID padding, whatever the padding of the pooling, and
    crashes if nothing reads the indices.
    """
    def case(form, image, window, padding, scaled=False):
        def build(model, draw):
            rows, columns = (-(-extent // step) if padding == C_SAME else extent // step
                             for extent, step in zip(image[1:3], window))
            shape = (image[0], rows, columns, image[3])
            grown = (image[0], rows * window[0], columns * window[1], image[3])
            values, indices = model.operator("MaxPoolingWithArgmax2D", [model.input(draw(*image))], results=2,
                                             shape=shape, custom=pool_parameters(padding, window))
            spread = values
            if scaled:
                factors = model.constant(draw(shape[3]))
                spread = model.operator("MUL", [values, factors], options("MulOptions"), shape=shape)
            return [values, model.operator("MaxUnpooling2D", [spread, indices], shape=grown,
                                           custom=pool_parameters(C_VALID, window))]
        suite.case("MaxUnpooling2D" if scaled else "MaxPoolingWithArgmax2D", form, build, kernels=XNNPACK)

    windows = {"2x2": ((2, 4, 6, 3), (2, 2)), "2x3": ((1, 4, 9, 2), (2, 3)), "3x1": ((2, 6, 4, 5), (3, 1)),
               "whole_image": ((1, 4, 5, 2), (4, 5)), "1x1": ((1, 3, 3, 2), (1, 1))}
    for form, (image, window) in windows.items():
        case(f"same_{form}", image, window, C_SAME)
        case(form, image, window, C_VALID, scaled=True)
    case("same_odd_size", (2, 5, 7, 3), (2, 2), C_SAME)
    case("same_padded_before", (1, 4, 7, 2), (3, 3), C_SAME)
    case("valid_odd_size", (2, 5, 7, 3), (2, 2), C_VALID)


def pool_parameters(padding, window):
    """TfLitePoolParams as converters store it: padding, strides, window, no activation, an unused tail."""
    height, width = window
    return struct.pack("<8i", padding, width, height, width, height, 0, -1, -1)


FAMILIES = (convolution, depthwise, transposed, fully_connected, pooling, transposed_with_bias, pooled_with_indices)
