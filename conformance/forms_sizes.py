"""Operators whose result shapes depend on values, and recurrent operators, which keep a state between runs."""

import numpy as np

from forms import fed, fed_truths, fed_values, int32
from forms_selection import many, whole
from model_writer import TENSOR_TYPES as TYPES
from model_writer import Activation, options


def real(value):
    return np.array(value, np.float32)


def shapes(suite):
    def case(form, inputs, dtype=np.int32):
        suite.single("SHAPE", form, inputs, "ShapeOptions", "i32", result=dtype, outType=TYPES[np.dtype(dtype)])

    case("rank_5_of_truths", fed_truths((2, 1, 4, 3, 2)))
    case("int64", fed((4, 3)), np.int64)


def ranges(suite):
    def case(form, start, limit, delta, dtype, fixed=True, kind="f32"):
        numbers = [np.array(value, dtype) for value in (start, limit, delta)]

        def inputs(model, draw):
            add = model.constant if fixed else model.input
            return [model.input(numbers[0]), *map(add, numbers[1:])]

        suite.single("RANGE", form, inputs, "RangeOptions", kind, result=dtype)

    case("up", 2, 9, 3, np.int32, kind="i32")
    case("down", 5, -5, -4, np.int64, kind="i64")
    case("reals", -1, 1, 0.3, np.float32)
    case("reals_down", 2, -0.5, -0.25, np.float32, fixed=False)


def fills(suite):
    def case(form, value, inputs, kind="f32"):
        suite.single("FILL", form, inputs, "FillOptions", kind, result=value.dtype)

    for form, value, kind in (("real", real(1.5), "f32"), ("int32", whole(-7), "i32"), ("int64", np.array(1 << 40), "i64"),
                              ("bool", np.array(True), "bool"), ("int8", np.array(-3, np.int8), "i32"),
                              ("int16", np.array(-300, np.int16), "i32"), ("uint8", np.array(200, np.uint8), "i32")):
        extents = np.array([2, 1, 3], np.int64 if kind == "i64" else np.int32)
        case(form, value, lambda model, draw: [model.constant(extents), model.input(value)], kind)
    case("runtime_shape", real(2), fed_values(int32(2, 3), real(2)))
    case("scalar", real(2), lambda model, draw: [model.constant(np.zeros(0, np.int32)), model.input(real(2))])


def memories(suite):
    """Each form names its parts besides weights and biases."""
    def inputs(model, draw, x, shapes, parts, fixed=True):
        batches, depth, cells, outputs = shapes
        add = model.constant if fixed else model.input
        weights = lambda *shape: add(draw(*shape, low=-1, high=1))
        gates = [gate > 0 or "coupled" not in parts for gate in range(4)]
        of_gates = lambda *shape: [weights(*shape) if there else -1 for there in gates]
        listed = [x, *of_gates(cells, depth), *of_gates(cells, outputs)]
        listed += [weights(cells) if "peephole" in parts and (gate or gates[0]) else -1 for gate in range(3)]
        listed += of_gates(cells)
        listed += [weights(outputs, cells) if "projection" in parts else -1]
        listed += [weights(outputs) if "projection_bias" in parts else -1]
        listed += [model.variable(batches, outputs), model.variable(batches, cells)]
        return listed + (of_gates(cells) if "norm" in parts else [-1] * 4)

    def case(form, *parts, shapes=(2, 3, 4, 4), times=3, activation=Activation.TANH, major=False, clips=(0, 0), **more):
        batches, depth = shapes[:2]
        table = options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=activation, timeMajor=major,
                        cellClip=float(clips[0]), projClip=float(clips[1]))

        def build(model, draw):
            x = model.input(draw(*((times, batches) if major else (batches, times)), depth))
            listed = inputs(model, draw, x, shapes, parts, **more)
            first = model.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", listed, table)
            if "again" not in parts:
                return [first]
            return [first, model.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", listed, table)]

        suite.case("UNIDIRECTIONAL_SEQUENCE_LSTM", form, build)

    case("plain")
    case("time_major", major=True)
    case("goes_on", "again")
    case("runtime_weights", fixed=False)
    case("coupled", "coupled")
    case("peepholes", "peephole")
    case("coupled_peepholes", "coupled", "peephole")
    case("projection", "projection", shapes=(2, 3, 5, 2))
    case("projection_bias_clip", "projection", "projection_bias", shapes=(1, 3, 5, 2), clips=(0.5, 0.3))
    case("norms", "norm")
    case("everything", "norm", "peephole", "projection", "projection_bias", shapes=(3, 2, 4, 5), clips=(0.8, 0.9), major=True)
    case("relu", activation=Activation.RELU)
    case("relu6_cell_clip", activation=Activation.RELU6, clips=(0.3, 0))
    case("coupled_norms", "coupled", "norm", times=1)
    case("peephole_projection_goes_on", "peephole", "projection", "again", shapes=(2, 1, 3, 4))
    case("coupled_everything", "coupled", "norm", "peephole", "projection", "projection_bias", shapes=(1, 2, 4, 3))


def places(suite):
    def case(form, value):
        suite.single("WHERE", form, fed_values(value), None, "i64", result=np.int64)

    case("truths", np.array([True, False, True]))
    case("rank_3", np.array([[[0, 1, 0]], [[1, 1, 0]]], bool))
    case("reals", np.array([[0, -0.0, 2], [-1, 0, 1e-40]], np.float32))
    case("int32", int32([0, 256], [-1, 0]))
    case("int64", np.array([0, 1 << 40], np.int64))
    case("uint8", np.array([0, 0, 128], np.uint8))

    def chosen(model, draw):
        condition, table = model.input(np.array([True, False, True])), model.input(draw(3, 2))
        found = model.operator("WHERE", [condition], dtype=np.int64)
        rows = model.operator("GATHER_ND", [table, found], options("GatherNdOptions"))
        return [model.operator("ADD", [rows, rows], options("AddOptions"))]

    suite.case("WHERE", "of_a_gather", chosen)


def suppressions(suite):
    def inputs(model, draw, numbers, runtime, corners):
        middle, half = draw(12, 2, low=0, high=4), draw(12, 2, low=0.3, high=1)
        boxes = np.concatenate([middle - half, middle + half], 1)
        boxes = np.ascontiguousarray(boxes[:, [2, 1, 0, 3]]) if corners else boxes
        scores = draw(12, low=0, high=1)
        add = model.input if runtime else model.constant
        return [model.input(boxes), model.input(scores), add(whole(numbers[0])), *map(model.constant, map(real, numbers[1:]))]

    def case(form, *numbers, runtime=False, corners=False):
        version = "V5" if len(numbers) == 4 else "V4"
        dtypes = (np.int32, np.float32, np.int32) if version == "V5" else (np.int32, np.int32)
        many(suite, f"NON_MAX_SUPPRESSION_{version}", form, lambda model, draw: inputs(model, draw, numbers, runtime, corners),
             len(dtypes), f"NonMaxSuppression{version}Options", dtypes=dtypes)

    case("few", 3, 0.5, 0.2)
    case("filled_up", 20, 0.3, 0.4)
    case("runtime_count", 6, 0.2, 0, runtime=True)
    case("any_corners", 6, 0.4, 0.1, corners=True)
    case("hard", 8, 0.3, 0.1, 0)
    case("soft", 8, 0.3, 0.1, 0.5)
    case("soft_filled_up", 20, 0.3, 0.35, 0.2, runtime=True)
    case("nothing", 3, 0.5, 2)
    case("one", 1, 0.5, 0)
    case("touching", 12, 0.01, 0)
    case("all_apart", 12, 0.99, 0)
    case("no_threshold", 5, 0.5, -1)
    case("runtime_corners", 4, 0.3, 0.2, runtime=True, corners=True)
    case("more_than_boxes", 40, 0.6, 0.1)
    case("hard_corners", 6, 0.4, 0.1, 0, corners=True)
    case("hard_one", 1, 0.5, 0, 0)
    case("hard_runtime", 5, 0.5, 0.2, 0, runtime=True)
    case("hard_nothing", 3, 0.5, 2, 0)
    case("soft_one", 1, 0.5, 0, 0.5)
    case("soft_narrow", 8, 1, 0.05, 0.1)
    case("soft_wide", 8, 1, 0.01, 3)
    case("soft_corners", 6, 0.5, 0.1, 0.4, corners=True)
    case("soft_runtime", 6, 0.5, 0.1, 0.4, runtime=True)
    case("soft_nothing", 3, 0.5, 2, 0.5)


FAMILIES = (shapes, ranges, fills, memories, places, suppressions)
