"""Recurrent units and bidirectional memories: in floats, and with 8-bit weights."""

import numpy as np

from forms_memories import bytes_of
from forms_quantized import REFERENCE, scaled
from model_writer import Activation, options


def matrix(model, draw, kind, *shape):
    """Constant weights: floats, or bytes of the type `kind`."""
    if kind == np.float32:
        return model.constant(draw(*shape, low=-0.8, high=0.8))
    return scaled(model, model.constant(bytes_of(draw, *shape).view(kind)), draw(low=0.004, high=0.01))


def bias(model, draw, count):
    return model.constant(draw(count, low=-1, high=1))


def sequences(suite):
    def case(operator, form, shapes=(2, 3, 4), times=4, kind=np.float32, activation=Activation.TANH, major=False,
             asymmetric=False, runs=2):
        """`shapes` are the numbers of sequences, features and units."""
        batches, depth, units = shapes
        step = operator == "RNN"

        def build(model, draw):
            extents = (batches,) if step else (times, batches) if major else (batches, times)
            x = model.input(draw(*extents, depth))
            listed = [matrix(model, draw, kind, units, depth), matrix(model, draw, kind, units, units), bias(model, draw, units),
                      model.variable(batches, units)]
            order = {} if step else {"timeMajor": major}
            table = options("RNNOptions" if step else "SequenceRNNOptions", fusedActivationFunction=activation,
                            asymmetricQuantizeInputs=asymmetric, **order)
            version = 1 if kind == np.float32 else 3 if asymmetric else 2
            # All share the variable, so that each continues from the one before.
            return [model.operator(operator, [x, *listed], table, version) for _ in range(runs)]
        suite.case(operator, form, build, kernels=REFERENCE)

    for operator in ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"):
        case(operator, "plain")
        case(operator, "relu", activation=Activation.RELU)
        case(operator, "relu6", activation=Activation.RELU6)
        case(operator, "relu_n1_to_1", activation=Activation.RELU_N1_TO_1)
        case(operator, "without_activation", activation=Activation.NONE)
        case(operator, "one", (1, 1, 1))
        case(operator, "one_unit", (3, 5, 1))
        case(operator, "wide", (1, 40, 33), runs=3)
        for form, asymmetric in (("dynamic", False), ("dynamic_asymmetric", True)):
            case(operator, form, kind=np.int8, asymmetric=asymmetric)
            case(operator, f"{form}_wide", (3, 20, 17), kind=np.int8, asymmetric=asymmetric, activation=Activation.RELU)
        case(operator, "dynamic_uint8", kind=np.uint8)
    case("UNIDIRECTIONAL_SEQUENCE_RNN", "time_major", major=True)
    case("UNIDIRECTIONAL_SEQUENCE_RNN", "dynamic_time_major", kind=np.int8, major=True)
    case("UNIDIRECTIONAL_SEQUENCE_RNN", "one_time", times=1)


def both_ways(suite):
    def case(form, shapes=(2, 3, 4, 5), times=4, kind=np.float32, activation=Activation.TANH, major=False, merged=False,
             asymmetric=False, second=None):
        """`shapes` are the numbers of sequences, features, and units forward and backward. `second` tells what there is of a
        second input: nothing, "alone" or "weighted".
        """
        batches, depth, *units = shapes

        def build(model, draw):
            extents = (times, batches) if major else (batches, times)
            listed = [model.input(draw(*extents, depth))]
            for count in units:
                listed += [matrix(model, draw, kind, count, depth), matrix(model, draw, kind, count, count), bias(model, draw, count),
                           model.variable(batches, count)]
            # LiteRT's kernels step through the second input by the features of the first one.
            listed += [model.input(draw(*extents, depth)) if second else -1]
            listed += [matrix(model, draw, kind, count, depth) if second == "weighted" else -1 for count in units]
            table = options("BidirectionalSequenceRNNOptions", fusedActivationFunction=activation, timeMajor=major,
                            mergeOutputs=merged, asymmetricQuantizeInputs=asymmetric)
            version = 1 if kind == np.float32 else 3 if asymmetric else 2
            made = model.operator("BIDIRECTIONAL_SEQUENCE_RNN", listed, table, version, 1 if merged else 2)
            return [made] if merged else made
        suite.case("BIDIRECTIONAL_SEQUENCE_RNN", form, build, kernels=REFERENCE)

    for name, major in (("batch_major", False), ("time_major", True)):
        case(name, major=major)
        case(f"{name}_merged", major=major, merged=True)
        case(f"{name}_second_weighted", major=major, second="weighted")
        case(f"{name}_second_alone", major=major, second="alone")
    case("dynamic", kind=np.int8)
    case("relu", activation=Activation.RELU)
    case("one_time", times=1)
    case("dynamic_merged_asymmetric", kind=np.int8, merged=True, asymmetric=True)
    case("dynamic_second_weighted", kind=np.int8, second="weighted")
    case("dynamic_uint8", kind=np.uint8)


def memories_both_ways(suite):
    def case(form, *parts, shapes=(2, 3, 4, 4), times=4, kind=np.float32, major=False, merged=False, asymmetric=False, second=None,
             clips=(0, 0), activation=Activation.TANH):
        """`shapes` are the numbers of sequences, features, cells and outputs."""
        batches, depth, cells, outputs = shapes
        gates = [gate > 0 or "coupled" not in parts for gate in range(4)]

        def build(model, draw):
            extents = (times, batches) if major else (batches, times)
            weight = lambda *shape: matrix(model, draw, kind, *shape)
            of_gates = lambda make, *shape: [make(*shape) if there else -1 for there in gates]
            listed = [model.input(draw(*extents, depth))]
            for _ in range(2):
                listed += of_gates(weight, cells, depth) + of_gates(weight, cells, outputs)
                listed += [weight(cells) if "peephole" in parts and (gate or gates[0]) else -1 for gate in range(3)]
                listed += of_gates(lambda count: bias(model, draw, count), cells)
                listed += [weight(outputs, cells) if "projection" in parts else -1]
                listed += [bias(model, draw, outputs) if "bias" in parts else -1]
            for _ in range(2):
                listed += [model.variable(batches, outputs), model.variable(batches, cells)]
            features = depth if second == "alone" else 6
            listed += [model.input(draw(*extents, features)) if second else -1]
            for _ in range(2):
                listed += of_gates(weight, cells, features) if second == "weighted" else [-1] * 4
            table = options("BidirectionalSequenceLSTMOptions", fusedActivationFunction=activation, timeMajor=major,
                            mergeOutputs=merged, cellClip=float(clips[0]), projClip=float(clips[1]),
                            asymmetricQuantizeInputs=asymmetric)
            version = 1 if kind == np.float32 else 3
            made = model.operator("BIDIRECTIONAL_SEQUENCE_LSTM", listed, table, version, 1 if merged else 2)
            return [made] if merged else made
        suite.case("BIDIRECTIONAL_SEQUENCE_LSTM", form, build, kernels=REFERENCE)

    for name, major in (("batch_major", False), ("time_major", True)):
        case(name, major=major)
        case(f"{name}_merged", major=major, merged=True)
        case(f"{name}_second_weighted", major=major, second="weighted")
        case(f"{name}_second_alone", major=major, second="alone")
        case(f"{name}_dynamic", major=major, kind=np.int8)
    case("peepholes", "peephole")
    case("coupled", "coupled", "peephole")
    case("projection", "projection", "bias", shapes=(2, 3, 5, 2), clips=(0.7, 0.5))
    case("everything_merged", "projection", "peephole", shapes=(1, 4, 6, 3), merged=True)
    case("relu", activation=Activation.RELU, times=2)
    case("dynamic_everything", "projection", "peephole", shapes=(2, 3, 5, 2), kind=np.int8, asymmetric=True)
    case("dynamic_second_weighted", second="weighted", kind=np.int8)
    case("dynamic_uint8_merged", kind=np.uint8, merged=True)


FAMILIES = (sequences, both_ways, memories_both_ways)
