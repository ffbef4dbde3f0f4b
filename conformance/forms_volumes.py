"""Convolutions over depth, height and width."""

import numpy as np

from forms import FUSED, SAME, VALID, int32
from forms_movement import PLAIN
from model_writer import Activation, options

NAMES = ("D", "H", "W")


def table(padding, strides, dilations, activation):
    steps = {f"stride{name}": step for name, step in zip(NAMES, strides)}
    factors = {f"dilation{name}Factor": factor for name, factor in zip(NAMES, dilations)}
    return options("Conv3DOptions", padding=padding, fusedActivationFunction=activation, **steps, **factors)


def window(positions, size, stride, dilation, padding):
    """The extent that so many positions of a window come from."""
    return positions * stride if padding == SAME else (positions - 1) * stride + (size - 1) * dilation + 1


def convolution(suite):
    def case(form, shape=(1, 4, 5, 6, 3), filters=(2, 3, 2, 3, 4), strides=(1, 1, 1), dilations=(1, 1, 1), padding=SAME,
             activation=Activation.NONE, bias=True, fixed=True):
        def build(model, draw):
            add = model.constant if fixed else model.input
            inputs = [model.input(draw(*shape)), add(draw(*filters))] + ([add(draw(filters[-1]))] if bias else [])
            return [model.operator("CONV_3D", inputs, table(padding, strides, dilations, activation))]
        suite.case("CONV_3D", form, build)

    for name, padding in (("same", SAME), ("valid", VALID)):
        case(name, padding=padding)
        case(f"{name}_strides", strides=(2, 1, 3), padding=padding)
        case(f"{name}_dilations", dilations=(2, 1, 2), padding=padding)
        case(f"{name}_batch", (2, 3, 4, 4, 5), (1, 2, 3, 5, 7), (1, 2, 1), padding=padding)
    case("pointwise", filters=(1, 1, 1, 3, 5))
    case("deep", (1, 7, 2, 2, 2), (5, 1, 1, 2, 3))
    case("without_bias", bias=False)
    case("runtime_weights", fixed=False)
    case("one_channel", (1, 3, 3, 3, 1), (3, 3, 3, 1, 1))
    case("many_channels", (1, 2, 3, 3, 20), (2, 2, 2, 20, 33))
    for name, activation in FUSED.items():
        case(name, activation=activation)


def transposed(suite):
    def case(form, positions=(2, 3, 2), channels=(3, 4), size=(2, 3, 2), strides=(1, 1, 1), dilations=(1, 1, 1), padding=SAME,
             activation=Activation.NONE, bias=True, batch=1, fixed=True, more=(0, 0, 0)):
        taken, made = channels
        axes = zip(positions, size, strides, dilations, more)
        volume = [window(*axis[:4], padding) + axis[4] for axis in axes]

        def build(model, draw):
            add = model.constant if fixed else model.input
            inputs = [add(int32(batch, *volume, made)), add(draw(*size, made, taken)), model.input(draw(batch, *positions, taken))]
            inputs += [add(draw(made))] if bias else []
            return [model.operator("CONV_3D_TRANSPOSE", inputs, table(padding, strides, dilations, activation))]
        suite.case("CONV_3D_TRANSPOSE", form, build)

    for name, padding in (("same", SAME), ("valid", VALID)):
        case(name, padding=padding)
        case(f"{name}_strides", strides=(2, 1, 3), padding=padding)
        case(f"{name}_batch", batch=2, channels=(5, 3), strides=(2, 2, 2), padding=padding)
        case(f"{name}_dilations", dilations=(2, 1, 2), padding=padding)
    case("same_odd", strides=(2, 2, 2), more=(-1, 0, -1))
    case("valid_odd", strides=(2, 2, 2), padding=VALID, more=(1, 0, 1))
    case("pointwise", size=(1, 1, 1))
    case("without_bias", bias=False)
    case("runtime_weights", fixed=False)
    case("many_channels", channels=(33, 20), strides=(2, 2, 2))
    for name, activation in FUSED.items():
        case(name, activation=activation)


FAMILIES = (convolution, transposed)
