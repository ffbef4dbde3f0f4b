"""Operators of audio and speech: spectra, complex numbers, filters over time."""

import numpy as np

from forms import fed_values, int32, then_constants, then_fed
from forms_memories import bytes_of, state, wide
from forms_quantized import REFERENCE, scaled
from model_writer import Activation, options


def spectra(suite):
    def case(form, shape, lengths, constant=True):
        def inputs(model, draw):
            add = model.constant if constant else model.input
            return [model.input(draw(*shape)), add(int32(*lengths))]
        suite.single("RFFT2D", form, inputs, "Rfft2dOptions", result=np.complex64)

    case("square", (4, 4), (4, 4))
    case("rank_3", (2, 4, 8), (4, 8))
    case("rank_4", (2, 1, 2, 4), (2, 4))
    case("rank_5", (1, 2, 1, 2, 4), (2, 4))
    case("cut", (2, 6, 9), (4, 8))
    case("extended", (2, 3, 5), (4, 16))
    case("cut_and_extended", (2, 7, 3), (2, 8))
    case("one_row", (3, 1, 8), (1, 8))
    case("one_row_of_two", (2, 1, 2), (1, 2))
    case("two_columns", (8, 2), (8, 2))
    case("frames", (5, 1, 60), (1, 64))
    case("long", (1, 512), (1, 512))
    case("runtime_lengths", (4, 8), (4, 8), False)

    def magnitudes(model, draw):
        frames = model.input(draw(3, 1, 16))
        spectrum = model.operator("RFFT2D", [frames, model.constant(int32(1, 16))], options("Rfft2dOptions"), dtype=np.complex64)
        return [model.operator("COMPLEX_ABS", [spectrum])]

    suite.case("RFFT2D", "then_magnitudes", magnitudes)


def complex_numbers(suite):
    for operator in ("COMPLEX_ABS", "REAL", "IMAG"):
        for shape in ((), (5,), (2, 3), (2, 1, 3), (2, 1, 3, 2), (1, 2, 1, 2, 2)):
            inputs = lambda m, draw: [m.input((draw(*shape) + 1j * draw(*shape)).astype(np.complex64))]
            suite.single(operator, f"rank_{len(shape)}", inputs)
        for shape in ((), (5,), (2, 3, 2)):
            inputs = lambda m, draw: [m.input(np.asarray(draw(*shape, dtype=np.float64) + 1j * draw(*shape, dtype=np.float64)))]
            suite.single(operator, f"complex128_rank_{len(shape)}", inputs, result=np.float64)
        suite.single(operator, "constant", lambda m, draw: [m.constant((draw(4) + 1j * draw(4)).astype(np.complex64))])
        large = np.array([3e30 + 4e30j, 3e-30 - 4e-30j, -5, 2j, 0], np.complex64)
        suite.single(operator, "extremes", fed_values(large))
        suite.single(operator, "empty", fed_values(np.zeros((0, 2), np.complex64)))


def filters(suite):
    def case(form, shapes=(2, 3, 4, 5), rank=1, weights=np.float32, version=1, bias=True, activation=Activation.RELU, runs=2,
             asymmetric=False):
        """`shapes` are the numbers of rows, features, filters and times."""
        batches, depth, count, times = shapes
        integer = weights == "integers"

        def build(model, draw):
            x = model.input(bytes_of(draw, batches, depth) if integer else draw(batches, depth))
            if integer:
                scaled(model, x, 0.02, 3)
                listed = [scaled(model, model.constant(bytes_of(draw, count, depth)), 0.01),
                          scaled(model, model.constant(wide(draw, count, times)), 2e-5)]
            elif weights == np.float32:
                listed = [model.constant(draw(count, depth)), model.constant(draw(count, times))]
            else:
                listed = [scaled(model, model.constant(bytes_of(draw, *shape).view(weights)), 0.01)
                          for shape in ((count, depth), (count, times))]
            values = draw(count // rank) * (2000 if integer else 1)
            listed += [model.constant(values.astype(np.int32 if integer else np.float32)) if bias else -1]
            kept = (batches, count * times)
            listed += [scaled(model, state(model, kept, np.int16), 1e-4) if integer else model.variable(*kept)]
            table = options("SVDFOptions", rank=rank, fusedActivationFunction=activation, asymmetricQuantizeInputs=asymmetric)
            made = []
            for _ in range(runs):  # all share the variable, so that each continues from the one before
                made.append(model.operator("SVDF", [x, *listed], table, version, dtype=np.int8 if integer else np.float32))
                if integer:
                    scaled(model, made[-1], 0.05, -20)
            return made
        suite.case("SVDF", form, build, "i8" if integer else "f32", REFERENCE if integer or weights != np.float32 else ("reference", "plain", "default"))

    case("plain")
    case("rank_2", (2, 3, 6, 4), 2)
    case("rank_4", (1, 5, 8, 3), 4)
    case("without_bias", bias=False)
    case("without_activation", activation=Activation.NONE)
    case("tanh_rank_2", (2, 3, 4, 3), 2, activation=Activation.NONE, runs=4)
    case("relu6", activation=Activation.RELU6)
    case("one_time", (2, 3, 4, 1))
    case("one_feature", (3, 1, 2, 4))
    case("wide", (1, 40, 32, 9), runs=3)
    for form, asymmetric in (("dynamic", False), ("dynamic_asymmetric", True)):
        case(form, weights=np.int8, version=3 if asymmetric else 2, asymmetric=asymmetric)
        case(f"{form}_rank_2", (2, 7, 6, 4), 2, weights=np.int8, version=3 if asymmetric else 2, asymmetric=asymmetric, bias=False)
    case("dynamic_uint8", weights=np.uint8, version=2)
    case("integers", weights="integers", version=3)
    case("integers_rank_2", (2, 3, 6, 4), 2, weights="integers", version=3, runs=4)
    case("integers_without_bias", weights="integers", version=3, bias=False)
    case("integers_wide", (1, 40, 32, 9), weights="integers", version=4, runs=3)


FAMILIES = (spectra, complex_numbers, filters)
