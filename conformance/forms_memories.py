"""Recurrent operators with 8-bit weights: with quantized activations, compared exactly, and with float activations, which
are quantized at run time.

For quantized activations, only the reference kernels are used, since the results are compared exactly.
"""

import numpy as np

from forms_quantized import REFERENCE, scaled
from model_writer import Activation, options

OPERATOR, TABLE = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"


def bytes_of(draw, *shape):
    return draw(*shape, dtype=np.float64, low=-127, high=128).astype(np.int8)


def wide(draw, *shape, low=-32768, high=32768):
    return draw(*shape, dtype=np.float64, low=low, high=high).astype(np.int16)


def state(model, shape, dtype):
    index = model.tensor(shape, dtype)
    model.tensors[index].isVariable = True
    return index


def memory(suite, form, *parts, kind="i8", shapes=(2, 3, 4, 4), times=4, major=False, clips=(0, 0), cell=-11,
           points=(3, -5, 7), scale=1, asymmetric=False, activation=Activation.TANH, fixed=True, step=False,
           weights=np.int8):
    """`shapes` are the numbers of sequences, features, cells and outputs; `cell` is the exponent of the cells' scale, a power
    of two; `points` are the zero points of the input, of the output and of the projection; `scale` scales the weights.
    `step` selects the operator of a single step; `weights` is the type of the weights of float activations.
    """
    batches, depth, cells, outputs = shapes
    gates = [gate > 0 or "coupled" not in parts for gate in range(4)]
    integer = kind == "i8"
    operator, name, order = ("LSTM", "LSTMOptions", {}) if step else (OPERATOR, TABLE, {"timeMajor": major})
    table = options(name, fusedActivationFunction=activation, cellClip=float(clips[0]), projClip=float(clips[1]),
                    asymmetricQuantizeInputs=asymmetric, **order)

    def build(model, draw):
        extents = (batches, depth) if step else (*((times, batches) if major else (batches, times)), depth)
        if integer:
            x = scaled(model, model.input(bytes_of(draw, *extents)), 0.01, points[0])
        else:
            x = model.input(draw(*extents))
        add = model.constant if fixed else model.input
        stored = lambda *shape: scaled(model, add(bytes_of(draw, *shape).view(weights)), scale * draw(low=0.004, high=0.01))
        weight = (lambda *shape: add(draw(*shape, low=-0.8, high=0.8))) if weights == np.float32 else stored
        vector = lambda low, high: draw(cells, dtype=np.float64, low=low, high=high)
        bias = lambda: model.constant(vector(-3000, 3000).astype(np.int32) if integer else vector(-1, 1).astype(np.float32))
        peephole = lambda: scaled(model, model.constant(wide(draw, cells)), 1e-5) if integer else weight(cells)
        norm = lambda: (scaled(model, model.constant(wide(draw, cells, low=8000, high=20000)), 5e-5) if integer
                        else model.constant(vector(0.3, 1).astype(np.float32)))
        of_gates = lambda make, *shape: [make(*shape) if there else -1 for there in gates]
        listed = [x, *of_gates(weight, cells, depth), *of_gates(weight, cells, outputs)]
        listed += [peephole() if "peephole" in parts and (gate or gates[0]) else -1 for gate in range(3)]
        listed += of_gates(bias)
        listed += [weight(outputs, cells) if "projection" in parts else -1]
        value = draw(outputs, low=-1, high=1) * (3000 if integer else 1)
        listed += [model.constant(value.astype(np.int32 if integer else np.float32)) if "bias" in parts else -1]
        if integer:
            listed += [scaled(model, state(model, (batches, outputs), np.int8), 0.008, points[1]),
                       scaled(model, state(model, (batches, cells), np.int16), 2.0**cell)]
        else:
            listed += [model.variable(batches, outputs), model.variable(batches, cells)]
        listed += of_gates(norm) if "norm" in parts else [-1] * 4

        def one():
            version = (4 if integer else 1 if weights == np.float32 else 3) if step else 1 if integer else 3 if asymmetric else 2
            result = model.operator(operator, listed, table, version, dtype=np.int8 if integer else np.float32)
            if integer:
                scaled(model, result, 0.008, points[1])
                between = [scaled(model, model.tensor((), np.int16), 2.0**-12 * (1 + gate / 8)) for gate in range(4)]
                hidden = (0.007, points[2]) if "projection" in parts else (0.008, points[1])
                between.append(scaled(model, model.tensor((), np.int8), *hidden))
                model.operators[-1].intermediates = between
            return result

        first = one()
        return [first, one()] if "again" in parts else [first]

    suite.case(operator, form, build, kind, REFERENCE)


def integers(suite):
    memory(suite, "integers")
    memory(suite, "integers_time_major", major=True, shapes=(3, 2, 5, 5))
    memory(suite, "integers_go_on", "again")
    memory(suite, "integers_coupled", "coupled", points=(0, 0, 0))
    memory(suite, "integers_peepholes", "peephole", cell=-12)
    memory(suite, "integers_projection", "projection", shapes=(2, 3, 5, 2))
    memory(suite, "integers_projection_bias_clips", "projection", "bias", shapes=(1, 3, 5, 3), clips=(0.5, 0.3))
    memory(suite, "integers_norms", "norm")
    memory(suite, "integers_everything", "norm", "peephole", "projection", "bias", shapes=(2, 7, 9, 4), cell=-13, major=True)
    memory(suite, "integers_coupled_everything", "coupled", "norm", "peephole", "projection", shapes=(1, 2, 4, 3), cell=-9)
    memory(suite, "integers_projection_saturated", "projection", shapes=(2, 3, 6, 4), points=(100, -90, 110), scale=3)
    memory(suite, "integers_peepholes_projection", "peephole", "projection", shapes=(2, 3, 6, 4))
    memory(suite, "integers_wide", shapes=(1, 40, 33, 33), times=6, cell=-10, scale=0.3)
    memory(suite, "integers_saturated", "peephole", scale=20, cell=-15)
    memory(suite, "integers_fine_cells", cell=-14)


def dynamic(suite):
    for form, asymmetric in (("dynamic", False), ("dynamic_asymmetric", True)):
        memory(suite, form, kind="f32", asymmetric=asymmetric)
        memory(suite, f"{form}_everything", "norm", "peephole", "projection", "bias", kind="f32", shapes=(2, 3, 5, 4),
               clips=(0.8, 0.9), major=True, asymmetric=asymmetric)
    memory(suite, "dynamic_coupled_goes_on", "coupled", "peephole", "again", kind="f32")
    memory(suite, "dynamic_projection", "projection", "bias", kind="f32", shapes=(2, 9, 6, 3), activation=Activation.RELU)


def old_bytes(suite):
    for form, asymmetric in (("dynamic_uint8", False), ("dynamic_uint8_asymmetric", True)):
        memory(suite, form, "peephole", "projection", kind="f32", shapes=(2, 3, 5, 4), asymmetric=asymmetric, weights=np.uint8)


def single_steps(suite):
    def case(form, *parts, **more):
        memory(suite, form, *parts, step=True, **more)

    floats = {"kind": "f32", "weights": np.float32}
    case("full", **floats)
    case("full_goes_on", "again", **floats)
    case("full_coupled", "coupled", **floats)
    case("full_peepholes", "peephole", shapes=(3, 5, 7, 7), **floats)
    case("full_projection", "projection", shapes=(2, 3, 5, 2), **floats)
    case("full_projection_bias_clips", "projection", "bias", shapes=(1, 3, 5, 3), clips=(0.5, 0.3), **floats)
    case("full_norms", "norm", **floats)
    case("full_everything", "norm", "peephole", "projection", "bias", "again", shapes=(2, 7, 9, 4), clips=(0.8, 0.9), **floats)
    case("full_coupled_everything", "coupled", "norm", "peephole", "projection", shapes=(1, 2, 4, 3), **floats)
    case("full_relu", "again", activation=Activation.RELU, **floats)
    case("full_runtime_weights", fixed=False, **floats)
    for form, asymmetric in (("full_dynamic", False), ("full_dynamic_asymmetric", True)):
        case(form, "again", kind="f32", asymmetric=asymmetric)
        case(f"{form}_everything", "norm", "peephole", "projection", "bias", kind="f32", shapes=(2, 3, 5, 4), clips=(0.8, 0.9),
             asymmetric=asymmetric)
    case("full_dynamic_coupled", "coupled", "peephole", kind="f32")
    case("full_dynamic_uint8", "peephole", "again", kind="f32", weights=np.uint8)
    case("full_integers")
    case("full_integers_go_on", "again")
    case("full_integers_coupled", "coupled", points=(0, 0, 0))
    case("full_integers_peepholes_projection", "peephole", "projection", shapes=(2, 3, 6, 4))
    case("full_integers_everything", "norm", "peephole", "projection", "bias", "again", shapes=(2, 7, 9, 4), cell=-13)
    case("full_integers_saturated", "peephole", "again", scale=20, cell=-15)


FAMILIES = (integers, dynamic, old_bytes, single_steps)
