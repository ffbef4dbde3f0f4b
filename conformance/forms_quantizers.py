"""The custom operators of tools that quantize models: rotations of activations, and differences from a reference."""

import numpy as np
from flatbuffers import flexbuffers

from forms_audio import PLAIN, packed
from forms_quantized import scaled, some


def rotations(suite):
    def options_of(size):
        builder = flexbuffers.Builder()
        with builder.Map():
            builder.Int("hadamard_size", size)
            builder.VectorFromElements("random_binary_vector", [1, -1] * (size // 2) or [1])
        return bytes(builder.Finish())

    def case(form, size, shape, constant=False, **more):
        def build(model, draw):
            index = (model.constant if constant else model.input)(draw(*shape, **more))
            return [model.operator("aeq.hadamard_rotation", [index], custom=options_of(size), shape=shape)]
        suite.case("aeq.hadamard_rotation", form, build, kernels=PLAIN)

    case("of_1", 1, (2, 3))
    case("of_2", 2, (3, 2))
    case("of_4", 4, (2, 3, 4))
    case("of_8", 8, (1, 8))
    case("of_16", 16, (2, 16))
    case("of_32", 32, (2, 2, 32))
    case("of_64", 64, (3, 64))
    case("of_128", 128, (1, 128))
    case("of_1024", 1024, (1, 2, 1024))
    case("groups", 4, (3, 12))
    case("groups_of_16", 16, (2, 2, 48))
    case("groups_of_128", 128, (2, 256))
    case("constant", 8, (2, 8), constant=True)
    case("large_values", 16, (2, 16), low=-1e6, high=1e6)


def verifications(suite):
    def case(form, kind, shape, scale, zero_point=0, apart=0.1, stated=np.float32, **fields):
        def build(model, draw):
            if kind == "f16w":
                reals = draw(*shape).astype(np.float16)
                index, reals = model.input(reals), reals.astype(np.float32)
            else:
                stored = some(draw, kind, *shape)
                index, reals = scaled(model, model.input(stored), np.ravel(scale), np.ravel(zero_point), 1 if np.ndim(scale) else 0), scale * (stored.astype(np.float32) - zero_point)
            reference = model.input((reals + apart * draw(*shape, low=-1, high=1)).astype(np.float32))
            return [model.operator("NumericVerify", [index, reference], custom=packed(fields), shape=shape, dtype=stated)]
        suite.case("NumericVerify", form, build, kind, PLAIN)

    quiet = {"tolerance": 5.0, "log_if_failed": False}
    for kind, scale, point in (("i8", 0.1, 3), ("u8", 0.05, 131), ("i16", 0.01, 0), ("f16w", 1, 0)):
        case("rank_2", kind, (3, 5), scale, point, **quiet)
        case("rank_4", kind, (2, 1, 3, 2), scale, point, **quiet)
    case("rank_1", "i8", (7,), 0.1, **quiet)
    case("states_another_type", "i8", (2, 3), 0.1, stated=np.int8, **quiet)  # as TensorFlow's QuantizationDebugger
    case("by_channel", "i8", (2, 3, 2), np.array([[0.5], [0.01], [3]], np.float32), np.zeros((3, 1)), **quiet)
    case("within_tolerance", "i8", (3, 4), 0.5, 7, tolerance=1.0, log_if_failed=True)
    case("within_tolerance", "i16", (3, 4), 0.5, 0, tolerance=2.5, log_if_failed=True)
    case("small_tolerance", "u8", (3, 4), 0.5, 7, tolerance=0.05, log_if_failed=True)


FAMILIES = (rotations, verifications)
