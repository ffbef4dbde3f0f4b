"""Contractions of quantized tensors: 16-bit activations, 4-bit weights, a scale for each output, groups, absent biases.

As for other quantized tensors, only the reference kernels are used. The kind is the type of the activations; it is
f32 if float activations are combined with quantized weights.
"""

import numpy as np

from forms import SAME, VALID, int32
from forms_quantized import REFERENCE, TYPES, packed, scaled, some
from model_writer import Activation, options, schema

SCALES = {"i8": (0.02, -7), "u8": (0.02, 120), "i16": (2.0**-11, 0), "f32": None}
RESULTS = {"i8": (0.11, 5), "u8": (0.11, 131), "i16": (0.0013, 0), "f32": None}
BIASES = {"i8": np.int32, "u8": np.int32, "i16": np.int64, "f32": np.float32}


def weights_of(model, draw, shape, axis, scales, bits, zero_point, old=False):
    """Constant weights with this many scales along an axis, or with 1. Those of 4 and 2 bits are packed, lowest bits first.

    Old files declare signed weights as UINT8.
    """
    scale = np.linspace(0.004, 0.02, scales)
    points = np.full(scales, zero_point)
    if bits == 8:
        kind = "i8" if zero_point < 100 else "u8"
        index = scaled(model, model.constant(some(draw, kind, *shape)), scale, points, axis)
        if old:
            model.tensors[index].type = schema.TensorType.UINT8
        return index, scale
    most = 1 << (bits - 1)
    numbers = draw(*shape, dtype=np.float64, low=-most, high=most)
    numbers = (np.floor(numbers) if bits == 2 else numbers).astype(np.int8)
    index = model.constant(packed(numbers, bits))
    tensor = model.tensors[index]
    tensor.type, tensor.shape = getattr(schema.TensorType, f"INT{bits}"), list(shape)
    scale = scale * (128 // most)
    return scaled(model, index, scale, points, axis), scale


def contraction(suite, operator, form, kind, image, shape, axis, table, scales=1, bits=8, weight_point=0, bias=True,
                wanted=None, version=1, old=False, bias_type=None, **fields):
    """A case of one operator with constant weights of this shape, whose output channels are along `axis`."""
    def build(model, draw):
        weights, scale = weights_of(model, draw, shape, axis, scales, bits, weight_point, old)
        if kind == "f32":
            data, unit = model.input(draw(*image)), 1
        else:
            data, unit = scaled(model, model.input(some(draw, kind, *image)), *SCALES[kind]), SCALES[kind][0]
        inputs = [data, weights] if wanted is None else [model.constant(int32(*wanted)), weights, data]
        if bias:
            units = 1 if kind == "f32" else unit * scale
            values = (draw(shape[axis]) / units).astype(bias_type or BIASES[kind])
            inputs.append(model.constant(values))
            if kind != "f32":
                scaled(model, inputs[-1], units, np.zeros(scales))
        chosen = options(table, **fields)
        index = model.operator(operator, inputs, chosen, version, dtype=TYPES[kind])
        return [index if kind == "f32" else scaled(model, index, *RESULTS[kind])]

    suite.case(operator, form, build, kind, REFERENCE)


def window(padding=SAME, stride=(1, 1), dilation=None, activation=Activation.NONE, **more):
    """The fields of a window's options; transposed convolutions have no dilation."""
    dilated = {} if dilation is None else {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
    return dict(padding=padding, strideH=stride[0], strideW=stride[1], fusedActivationFunction=activation, **dilated, **more)


def convolution(suite):
    def case(form, kind, image, filters, **fields):
        contraction(suite, "CONV_2D", form, kind, image, filters, 0, "Conv2DOptions", **fields)

    image, filters, one = (2, 5, 6, 5), (6, 3, 3, 5), (1, 1)
    case("wide", "i16", image, filters, version=4, **window(dilation=one))
    for form, count in (("wide_narrow_bias", 1), ("wide_narrow_bias_by_channel", 6)):
        case(form, "i16", (2, 9, 8, 5), filters, scales=count, bias_type=np.int32, version=4,
             **window(dilation=one, quantizedBiasType=schema.TensorType.INT32))
    case("wide_by_channel_relu6", "i16", image, filters, scales=6, version=4,
         **window(VALID, (2, 1), one, Activation.RELU6))
    case("wide_groups_dilated", "i16", (1, 7, 7, 4), (6, 3, 2, 2), scales=6, version=6, **window(dilation=(2, 1)))
    case("half_bytes", "i8", image, filters, bits=4, version=7, **window(dilation=one))
    case("half_bytes_by_channel", "i8", (1, 4, 5, 3), (7, 3, 3, 3), scales=7, bits=4, version=7, **window(dilation=one))
    case("groups", "i8", (2, 5, 5, 8), (6, 3, 3, 4), scales=6, version=6, **window(dilation=one))
    case("groups_dilated_relu", "i8", (1, 7, 9, 9), (6, 2, 3, 3), version=6,
         **window(VALID, dilation=(1, 2), activation=Activation.RELU))
    case("pointwise_strided", "i8", (2, 7, 7, 5), (33, 1, 1, 5), scales=33, version=3, **window(stride=(2, 2), dilation=one))
    case("filter_exceeds_image", "u8", (1, 2, 3, 3), (5, 5, 5, 3), weight_point=121, **window(dilation=one))
    case("dilated", "u8", (1, 9, 8, 3), (5, 3, 3, 3), weight_point=134, **window(dilation=(3, 2)))
    case("dynamic", "f32", (3, 5, 6, 5), filters, version=5, **window(dilation=one))
    case("dynamic_old", "f32", (3, 5, 6, 5), filters, old=True, version=2, **window(dilation=one))
    case("dynamic_by_channel", "f32", (3, 5, 6, 5), filters, scales=6, version=5,
         **window(VALID, dilation=one, activation=Activation.RELU))


def depthwise(suite):
    def case(form, kind, image, filters, **fields):
        contraction(suite, "DEPTHWISE_CONV_2D", form, kind, image, filters, 3, "DepthwiseConv2DOptions", **fields)

    image, filters, one = (2, 6, 7, 5), (1, 3, 3, 5), (1, 1)
    case("wide", "i16", image, filters, scales=5, version=5, **window(dilation=one, depthMultiplier=1))
    case("wide_multiplier_no_bias", "i16", image, (1, 3, 2, 10), scales=10, bias=False, version=5,
         **window(VALID, (2, 2), one, Activation.RELU, depthMultiplier=2))
    case("multiplier_3_dilated", "i8", image, (1, 3, 3, 15), scales=15, version=3,
         **window(dilation=(2, 2), depthMultiplier=3))
    case("strides_differ", "i8", (1, 7, 9, 18), (1, 5, 2, 18), scales=18, version=3,
         **window(stride=(1, 2), dilation=one, depthMultiplier=1))
    case("no_bias", "i8", image, filters, scales=5, bias=False, version=3, **window(dilation=one, depthMultiplier=1))
    case("filter_exceeds_image", "u8", (1, 2, 2, 3), (1, 5, 5, 3), weight_point=121,
         **window(dilation=one, depthMultiplier=1))
    case("quads", "i8", (2, 6, 5, 12), (1, 3, 3, 12), scales=12, version=3,
         **window(stride=(2, 1), dilation=one, depthMultiplier=1))
    case("quads_dilated", "u8", (1, 7, 8, 8), (1, 3, 2, 8), weight_point=131,
         **window(VALID, dilation=(1, 2), depthMultiplier=1))
    case("dynamic_multiplier_2", "f32", (3, 6, 7, 5), (1, 3, 3, 10), scales=10, version=6,
         **window(dilation=one, activation=Activation.RELU6, depthMultiplier=2))


def transposed(suite):
    def case(form, kind, image, wanted, filters, **fields):
        contraction(suite, "TRANSPOSE_CONV", form, kind, image, filters, 0, "TransposeConvOptions",
                    wanted=(image[0], *wanted, filters[0]), **fields)

    image, filters = (2, 3, 4, 5), (6, 3, 3, 5)
    case("wide", "i16", image, (6, 8), filters, scales=6, version=3, **window(stride=(2, 2)))
    case("wide_no_bias", "i16", image, (7, 9), filters, bias=False, version=3, **window(VALID, (2, 2)))
    case("wide_narrow_bias", "i16", (2, 6, 5, 5), (12, 10), filters, scales=6, bias_type=np.int32, version=4,
         **window(stride=(2, 2), quantizedBiasType=schema.TensorType.INT32))
    case("bias_by_channel", "i8", image, (5, 7), filters, scales=6, version=3, **window(stride=(2, 2)))
    case("stride_exceeds_filter", "i8", image, (9, 12), (3, 2, 2, 5), scales=3, version=3, **window(stride=(3, 3)))
    case("bias", "u8", image, (7, 9), filters, weight_point=121, version=3, **window(VALID, (2, 2)))
    case("dynamic", "f32", image, (6, 8), filters, version=3, **window(stride=(2, 2)))
    case("dynamic_no_bias", "f32", image, (9, 12), (3, 2, 2, 5), bias=False, version=3, **window(stride=(3, 3)))
    case("dynamic_by_channel", "f32", image, (7, 9), filters, scales=6, version=4,
         **window(VALID, (2, 2), activation=Activation.RELU))


def fully_connected(suite):
    def case(form, kind, rows, weights, activation=Activation.NONE, keep=True, asymmetric=False, **more):
        contraction(suite, "FULLY_CONNECTED", form, kind, rows, weights, 0, "FullyConnectedOptions", keepNumDims=keep,
                    fusedActivationFunction=activation, asymmetricQuantizeInputs=asymmetric, **more)

    rows, weights = (2, 3, 17), (9, 17)
    case("wide", "i16", rows, weights, version=7)
    case("wide_by_channel_no_bias", "i16", rows, weights, scales=9, bias=False, activation=Activation.RELU, version=12)
    case("by_channel", "i8", rows, weights, scales=9, version=12)
    case("by_channel_no_bias_relu6", "i8", rows, weights, scales=9, bias=False, activation=Activation.RELU6, version=12)
    case("weights_with_zero_point", "i8", rows, weights, weight_point=11, version=5)
    case("half_bytes", "i8", rows, weights, bits=4, version=10)
    case("many_rows", "u8", (30, 35), (33, 35), weight_point=117, keep=False)
    case("dynamic", "f32", rows, weights, version=5)
    case("dynamic_asymmetric", "f32", rows, weights, asymmetric=True, version=9)
    case("dynamic_by_channel", "f32", rows, weights, scales=9, activation=Activation.RELU, version=12)
    case("dynamic_half_bytes", "f32", rows, weights, bits=4, bias=False, version=10)
    case("dynamic_old", "f32", rows, weights, old=True, version=3)
    case("dynamic_old_by_channel", "f32", rows, weights, scales=9, activation=Activation.RELU6, old=True, version=12)
    for kind, form in (("i8", "quarter_bytes"), ("i16", "wide_quarter_bytes"), ("f32", "dynamic_quarter_bytes")):
        case(form, kind, rows, weights, bits=2, version=14)
        case(f"{form}_by_channel", kind, (2, 3, 16), (9, 16), scales=9, bits=2, bias=False, activation=Activation.RELU, version=14)


def batch_matmul(suite):
    def case(form, left, right, shapes, points=(0, 0), result=None, adjoint=(False, False), asymmetric=False, version=3):
        def build(model, draw):
            def operand(kind, shape, point):
                if kind == "f32":
                    return model.input(draw(*shape))
                return scaled(model, model.input(some(draw, kind, *shape)), SCALES[kind][0], point)

            inputs = [operand(left, shapes[0], points[0]), operand(right, shapes[1], points[1])]
            chosen = options("BatchMatMulOptions", adjX=adjoint[0], adjY=adjoint[1], asymmetricQuantizeInputs=asymmetric)
            index = model.operator("BATCH_MATMUL", inputs, chosen, version, dtype=TYPES[left])
            return [index if left == "f32" else scaled(model, index, *(result or RESULTS[left]))]

        suite.case("BATCH_MATMUL", form, build, left, REFERENCE)

    shapes = ((2, 1, 5, 7), (3, 7, 6))
    case("zero_points", "i8", "i8", shapes, (3, -5))
    case("zero_points_adjoint", "i8", "i8", ((2, 7, 5), (2, 6, 7)), (-128, 127), adjoint=(True, True))
    case("wide", "i16", "i16", shapes, result=(0.6, 0))
    case("dynamic", "f32", "i8", shapes, version=4)
    case("dynamic_asymmetric", "f32", "i8", ((3, 5, 7), (7, 6)), asymmetric=True, version=4)


FAMILIES = (convolution, depthwise, transposed, fully_connected, batch_matmul)
