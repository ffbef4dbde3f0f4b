"""Operators that move or resample values: all ranks, masks and ways to specify a shape."""

import numpy as np

from forms import fed, fed_integers, int32, then_constants, then_fed

SLICES = {  # shape, begin, end, strides, masks
    "rank_1": ((7,), [1], [6], [2], {}),
    "clamped": ((7,), [-10], [100], [3], {}),
    "empty": ((4, 5), [3, 0], [1, 5], [1, 1], {}),
    "negative_strides": ((4, 5), [3, 4], [0, 0], [-1, -2], {}),
    "reversed": ((4, 5), [0, 0], [0, 0], [-1, -1], {"beginMask": 3, "endMask": 3}),
    "reversed_by_bounds": ((4, 5), [-1, -1], [-5, -6], [-1, -1], {}),
    "shrunk": ((4, 5), [1, 2], [2, 4], [1, 1], {"shrinkAxisMask": 1}),
    "shrunk_to_scalar": ((4, 5), [-1, -2], [0, 0], [1, 1], {"shrinkAxisMask": 3}),
    "fewer_than_rank": ((2, 3, 4), [0, 1], [2, 3], [1, 1], {}),
    "ellipsis_first": ((2, 3, 4, 5), [0, 1], [0, 3], [1, 1], {"ellipsisMask": 1}),
    "ellipsis_inside": ((2, 3, 4, 5), [1, 0, 1], [2, 0, 3], [1, 1, 1], {"ellipsisMask": 2}),
    "ellipsis_of_nothing": ((2, 3), [0, 0, 1], [2, 0, 3], [1, 1, 1], {"ellipsisMask": 2}),
    "new_axis_first": ((2, 3), [0, 0, 1], [0, 2, 3], [1, 1, 1], {"newAxisMask": 1}),
    "new_axis_inside": ((2, 3), [0, 0, 1], [2, 0, 3], [1, 1, 1], {"newAxisMask": 2}),
    "new_axis_and_shrink": ((2, 3, 4), [1, 0, 0], [2, 0, 0], [1, 1, 1],
                            {"ellipsisMask": 4, "newAxisMask": 2, "shrinkAxisMask": 1}),
    "new_axis_beats_shrink": ((2, 3), [0, 0, 0], [0, 2, 3], [1, 1, 1], {"newAxisMask": 1, "shrinkAxisMask": 1}),
    "offset": ((10,), [2], [3], [1], {"offset": True}),
    "offset_strided": ((10, 4), [2, 1], [5, 2], [2, 1], {"offset": True}),
    "offset_from_end": ((10,), [-4], [3], [1], {"offset": True}),
    "rank_5": ((2, 3, 2, 2, 2), [0, 1, 0, 1, 0], [2, 3, 2, 2, 1], [1, 1, 1, 1, 1], {}),
    "rank_5_mixed": ((3, 2, 3, 2, 4), [2, 0, 0, 0, 3], [0, 2, 3, 1, 0], [-1, 1, 2, 1, -2], {"shrinkAxisMask": 8}),
}

PLAIN = ("reference", "plain")  # without XNNPACK

RESHAPES = {  # shape, new shape as a constant tensor
    "infer_one": ((2, 3, 4), [-1, 4]),
    "flatten": ((2, 3, 4), [-1]),
    "to_scalar": ((1, 1), []),
    "from_scalar": ((), [1, 1]),
    "rank_5": ((2, 3, 4), [2, 1, 3, 1, 4]),
    "rank_6": ((2, 3, 4), [1, 2, 1, 3, 1, 4]),
    "from_rank_5": ((2, 1, 3, 2, 2), [4, 6]),
    "zero_size": ((0, 3), [3, 0]),
}
RESHAPES_BY_OPTIONS = {  # [0] is how old converters write a scalar
    "options_only": ((2, 3, 4), [6, 4]), "options_infer": ((2, 3, 4), [-1, 4]), "options_scalar": ((1,), [0]),
}

SQUEEZES = {  # shape, axes; no axes stand for every one
    "every_one": ((1, 2, 1, 3), []),
    "first": ((1, 2, 1, 3), [0]),
    "negative": ((1, 2, 1, 3), [-2]),
    "unordered": ((1, 2, 1, 3), [2, 0]),
    "repeated": ((1, 2, 1, 3), [0, -4]),
    "to_scalar": ((1, 1), []),
    "rank_5": ((1, 1, 3, 1, 2), [0, 3]),
    "nothing_to_do": ((2, 3), []),
    "rank_0": ((), []),
}

RESIZES = {  # shape, new height and width
    "up": ((2, 3, 4, 2), (7, 9)),
    "down": ((2, 7, 8, 3), (3, 2)),
    "to_one": ((1, 4, 5, 2), (1, 1)),
    "from_one": ((1, 1, 1, 3), (3, 2)),
}
SAMPLINGS = {
    "plain": {"alignCorners": False, "halfPixelCenters": False},
    "corners": {"alignCorners": True, "halfPixelCenters": False},
    "centers": {"alignCorners": False, "halfPixelCenters": True},
    "corners_and_centers": {"alignCorners": True, "halfPixelCenters": True},  # refused for RESIZE_BILINEAR
}


def concatenation(suite):
    def case(form, make_inputs, axis, **more):
        suite.single("CONCATENATION", form, make_inputs, "ConcatenationOptions", axis=axis, **more)

    wide = {"low": -9, "high": 9}
    case("rank_1", fed((2,), (5,), **wide), 0)
    case("rank_2", fed((2, 3), (2, 1), (2, 4), **wide), -1)
    case("rank_3", fed((2, 3, 4), (2, 1, 4), **wide), 1)
    case("rank_5", fed((2, 1, 2, 3, 2), (2, 1, 1, 3, 2), **wide), -3)
    case("batch", fed((1, 2, 2, 3), (2, 2, 2, 3), **wide), 0)
    case("single", fed((2, 3), **wide), 0)
    case("many", fed(*[(1, 2)] * 9, **wide), 1)
    case("empty_piece", fed((2, 3), (0, 3), **wide), 0)
    case("int32", fed_integers((2, 3), (2, 2)), 1, kind="i32")
    case("twice_the_same", lambda m, draw: [m.input(draw(2, 3, 2))] * 2, 2)
    between = lambda m, draw: [m.input(draw(2, 2, 3)), m.constant(draw(2, 1, 3)), m.input(draw(2, 2, 3))]
    case("constant_between", between, 1)


def padding(suite):
    for shape in ((), (3,), (2, 3), (2, 3, 2), (2, 1, 2, 3), (2, 1, 2, 1, 2)):
        amounts = int32(*[[1, 2]] * len(shape)).reshape(-1, 2)
        suite.single("PAD", f"rank_{len(shape)}", then_constants(fed(shape), amounts), "PadOptions")
    image, pairs = fed((2, 3)), int32([1, 0], [0, 2])
    for operator, table in (("PAD", "PadOptions"), ("MIRROR_PAD", "MirrorPadOptions")):
        suite.single(operator, "int64_amounts", then_constants(image, pairs.astype(np.int64)), table)
        suite.single(operator, "runtime_amounts", then_fed(image, pairs), table)
        suite.single(operator, "int32", then_constants(fed_integers((2, 3)), pairs), table, kind="i32")
    for mode, name in enumerate(("reflect", "symmetric")):
        for shape in ((4,), (3, 4), (2, 3, 2), (2, 3, 3, 2), (2, 2, 3, 2, 2)):
            most = int32(*[[extent - 1 + mode, 1] for extent in shape])
            inputs = then_constants(fed(shape), most)
            suite.single("MIRROR_PAD", f"{name}_rank_{len(shape)}", inputs, "MirrorPadOptions", mode=mode)


def strided_slice(suite):
    def case(form, make_inputs, **more):
        suite.single("STRIDED_SLICE", form, make_inputs, "StridedSliceOptions", **more)

    for form, (shape, begin, end, strides, masks) in SLICES.items():
        case(form, then_constants(fed(shape), int32(*begin), int32(*end), int32(*strides)), **masks)
    bounds = int32(1, 0), int32(3, 5), int32(1, 2)
    case("int32", then_constants(fed_integers((4, 5)), *bounds), kind="i32")
    case("runtime_bounds", then_fed(fed((4, 5)), *bounds))


def reshape(suite):
    image = fed((2, 3, 4))
    for form, (shape, new) in RESHAPES.items():
        suite.single("RESHAPE", form, then_constants(fed(shape), int32(*new)))
    for form, (shape, new) in RESHAPES_BY_OPTIONS.items():
        suite.single("RESHAPE", form, fed(shape), "ReshapeOptions", newShape=new)
    both = then_constants(image, int32(6, 4))
    suite.single("RESHAPE", "tensor_beats_options", both, "ReshapeOptions", newShape=[4, 6])
    ignored = then_constants(image, np.array([24, 1], np.int64))
    suite.single("RESHAPE", "int64_tensor_ignored", ignored, "ReshapeOptions", newShape=[4, 6])
    # XNNPACK takes such shapes; TensorFlow Lite's own kernels ignore them.
    for form, ignored in (("scalar", np.array(24, np.int32)), ("matrix", np.array([[4, 6]], np.int32))):
        suite.single("RESHAPE", f"{form}_tensor_ignored", then_constants(image, ignored), "ReshapeOptions", kernels=PLAIN,
                     newShape=[3, 8])
    suite.single("RESHAPE", "scalar_tensor_without_options", then_constants(fed((1, 1)), np.array(1, np.int32)),
                 kernels=PLAIN)
    suite.single("RESHAPE", "runtime_matrix_ignored", then_fed(image, np.array([[4, 6]], np.int32)), "ReshapeOptions",
                 kernels=PLAIN, newShape=[3, 8])
    suite.single("RESHAPE", "without_shape", fed((1, 1, 1)), kernels=PLAIN)
    suite.single("RESHAPE", "runtime_shape", then_fed(image, int32(6, -1)))
    suite.single("RESHAPE", "int32", then_constants(fed_integers((2, 3)), int32(6)), kind="i32")


def squeeze(suite):
    for form, (shape, axes) in SQUEEZES.items():
        suite.single("SQUEEZE", form, fed(shape), "SqueezeOptions", squeezeDims=axes)
    suite.single("SQUEEZE", "int32", fed_integers((1, 4)), "SqueezeOptions", kind="i32", squeezeDims=[0])


def depth_to_space(suite):
    blocks = {"block_3_batch": ((2, 2, 3, 18), 3), "block_1": ((1, 2, 2, 4), 1), "one_pixel": ((1, 1, 1, 16), 4)}
    for form, (shape, block) in blocks.items():
        suite.single("DEPTH_TO_SPACE", form, fed(shape), "DepthToSpaceOptions", blockSize=block)
    suite.single("DEPTH_TO_SPACE", "int32", fed_integers((1, 2, 2, 8)), "DepthToSpaceOptions", kind="i32", blockSize=2)


def resize(suite):
    tables = {"RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions"}
    for operator, table in tables.items():
        for sampling, flags in SAMPLINGS.items():
            if operator == "RESIZE_BILINEAR" and sampling == "corners_and_centers":
                continue
            for form, (shape, size) in RESIZES.items():
                inputs = then_constants(fed(shape), int32(*size))
                suite.single(operator, f"{sampling}_{form}", inputs, table, version=3, **flags)
        for form, shape in (("no_images", (0, 0, 2, 3)), ("no_channels", (1, 2, 0, 0))):
            suite.single(operator, form, then_constants(fed(shape), int32(3, 5)), table, version=3)
        suite.single(operator, "runtime_size", then_fed(fed((1, 3, 3, 2)), int32(5, 4)), table, version=3)
    integers = then_constants(fed_integers((1, 3, 4, 2)), int32(5, 6))
    suite.single("RESIZE_NEAREST_NEIGHBOR", "int32", integers, tables["RESIZE_NEAREST_NEIGHBOR"], kind="i32", version=3)


FAMILIES = (concatenation, padding, strided_slice, reshape, squeeze, depth_to_space, resize)
