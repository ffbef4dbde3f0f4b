"""Shared functions of the modules of forms: ways to add the inputs of a single operator.

Each way is a function of (model, draw) that adds the inputs and returns their list. `draw(*extents)` returns random
values.
"""

import numpy as np

from model_writer import Activation, Padding

SAME, VALID = Padding.SAME, Padding.VALID
FUSED = {
    "relu": Activation.RELU, "relu6": Activation.RELU6, "relu_n1_to_1": Activation.RELU_N1_TO_1,
    "tanh": Activation.TANH,
}


def int32(*values):
    return np.array(values, np.int32)


def fed(*shapes, low=-2, high=2):
    """Every input is fed at run time."""
    return lambda model, draw: [model.input(draw(*shape, low=low, high=high)) for shape in shapes]


def fed_integers(*shapes):
    """Every input is fed at run time, with small int32 values."""
    return lambda model, draw: [model.input(draw(*shape, dtype=np.int32, low=-9, high=9)) for shape in shapes]


def fed_truths(*shapes):
    """Every input is fed at run time, with truth values."""
    return lambda model, draw: [model.input(draw(*shape) < 0) for shape in shapes]


def fed_values(*values):
    """Inputs of these values, fed at run time."""
    return lambda model, draw: [model.input(value) for value in values]


def then_constants(first, *values):
    """The inputs of `first`, followed by constants of the given values."""
    return lambda model, draw: first(model, draw) + [model.constant(value) for value in values]


def then_fed(first, *values):
    """The inputs of `first`, followed by run-time inputs of the given values."""
    return lambda model, draw: first(model, draw) + [model.input(value) for value in values]


def weighted(image, weights, bias_axis, storage="constant", bias=True):
    """An image, its weights and a bias as long as the weights' `bias_axis`.

    `storage` selects the constants: "constant" makes the weights and the bias constant, "f16" the same as float16,
    "runtime_filter" only the bias, "runtime_all" nothing, and "constant_image" the image and the bias.
    """
    def listed(model, draw):
        add = {"f16": model.constant_f16, "runtime_all": model.input}.get(storage, model.constant)
        add_image = model.constant if storage == "constant_image" else model.input
        add_weights = model.input if storage in ("runtime_filter", "constant_image") else add
        inputs = [add_image(draw(*image)), add_weights(draw(*weights))]
        return inputs + [add(draw(weights[bias_axis]))] if bias else inputs
    return listed
