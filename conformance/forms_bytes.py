"""8-bit tensors in operators with special arithmetic: sums, products, quotients, roots, norms, resizes, channel scales.

As in `forms_quantized`, only the reference kernels are used, except for sums of INT8 and INT16. The reference kernels
read the bytes of both as unsigned (LiteRT 2.3.0: -1 and 35 result in -1, or in 34 with the optimized kernels), so these
sums are computed by LiteRT's optimized kernels without delegates. Sums of UINT8 are the same in both.
"""

import numpy as np

from forms_quantized import REFERENCE, TYPES, scaled, some, stored
from model_writer import Activation, options

KINDS = (("i8", 7), ("u8", 135))
PLAIN = ("plain",)


def sums(suite):
    axes = [np.array([1, 2], np.int32)]
    for form, scale, keep in (("bytes", 0.9, False), ("bytes_kept", 0.05, True)):
        stored(suite, "SUM", form, [("i8", (2, 3, 4, 5), 0.05, 3)], ("i8", scale, -20), "ReducerOptions", version=2,
               constants=axes, kernels=PLAIN, keepDims=keep)
    stored(suite, "SUM", "bytes", [("u8", (2, 3, 4, 5), 0.05, 120)], ("u8", 0.4, 90), "ReducerOptions", version=2,
           constants=axes, keepDims=False)
    stored(suite, "SUM", "words", [("i16", (2, 3, 4, 5), 0.05, 0)], ("i16", 0.4, 0), "ReducerOptions", version=2,
           constants=axes, kernels=PLAIN, keepDims=False)
    stored(suite, "REDUCE_PROD", "bytes", [("i8", (5, 3, 2), 0.02, 3)], ("i8", 0.05, -4), "ReducerOptions", version=2,
           constants=[np.array([1], np.int32)], keepDims=False)


def without(value, point):
    """The same elements with those equal to `point` replaced by `point + 1`."""
    return np.where(value == point, point + 1, value).astype(value.dtype)


def quotients(suite):
    for kind, point in KINDS:
        def build(model, draw):
            left = model.input(some(draw, kind, 4, 1, 30))
            right = model.input(without(some(draw, kind, 5, 30), point))
            inputs = [scaled(model, left, 0.03, point - 5), scaled(model, right, 0.02, point)]
            chosen = options("DivOptions", fusedActivationFunction=Activation.RELU6)
            return [scaled(model, model.operator("DIV", inputs, chosen, 2, dtype=TYPES[kind]), 0.04, point - 90)]

        suite.case("DIV", "broadcast_relu6", build, kind, REFERENCE)


def roots(suite):
    stored(suite, "RSQRT", "every", [("i8", None, 0.05, -128)], ("i8", 0.02, -100), version=2)

    def build(model, draw):
        positive = model.input(np.arange(-20, 127, dtype=np.int8))
        return [scaled(model, model.operator("RSQRT", [scaled(model, positive, 0.4, -21)], version=2, dtype=np.int8), 0.01, 3)]

    suite.case("RSQRT", "positive", build, "i8", REFERENCE)
    stored(suite, "SQRT", "every", [("i8", None, 0.05, -128)], ("i8", 0.015, -120), version=2)
    stored(suite, "SQRT", "coarse", [("i8", None, 1.7, -128)], ("i8", 0.2, -128), version=2)

    def words(model, draw):
        positive = scaled(model, model.input(np.arange(0, 1 << 15, 7, dtype=np.int16)), 0.001, 0)
        return [scaled(model, model.operator("SQRT", [positive], version=2, dtype=np.int16), 0.0003, 0)]

    suite.case("SQRT", "positive", words, "i16", REFERENCE)
    for kind, middle in (("i8", 0), ("u8", 128)):
        stored(suite, "L2_NORMALIZATION", "rows", [(kind, (7, 19), 0.03, middle + 9)], (kind, 1 / 128, middle),
               "L2NormOptions", version=2)


def resizes(suite):
    forms = (("half_pixels_up", (13, 11), {"halfPixelCenters": True}),
             ("half_pixels_down", (4, 3), {"halfPixelCenters": True}),
             ("corners_up", (17, 8), {"alignCorners": True}), ("plain_up", (9, 14), {}))
    for kind, point, forms in ((*KINDS[0], forms), (*KINDS[1], forms), ("i16", 0, forms[1:3])):
        image, scale = (kind, (2, 6, 5, 3), 0.05, point), (kind, 0.05, point)
        for form, size, flags in forms:
            stored(suite, "RESIZE_BILINEAR", form, [image], scale, "ResizeBilinearOptions", version=4,
                   constants=[np.array(size, np.int32)], **flags)


def channels(suite):
    scales, points = (0.5, 0.013, 0.07), (3, -4, 100)
    for axis, shape in ((0, (3, 40)), (1, (4, 3, 10)), (2, (5, 8, 3))):
        def build(model, draw):
            reals = draw(*shape, low=-9, high=9)
            return [scaled(model, model.operator("QUANTIZE", [model.input(reals)], version=2, dtype=np.int8), scales, points,
                           axis)]

        suite.case("QUANTIZE", f"by_channel_axis_{axis}", build, "f32", REFERENCE)


FAMILIES = (sums, quotients, roots, resizes, channels)
