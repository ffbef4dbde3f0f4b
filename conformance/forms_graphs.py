"""Whole graphs with unusual combinations of inputs, outputs and constants."""

import numpy as np

from model_writer import Activation, options


def chain(model, draw):
    """Input, RELU of it, LOGISTIC of that."""
    x = model.input(draw(2, 3))
    middle = model.operator("RELU", [x])
    return [x, middle, model.operator("LOGISTIC", [middle])]


def ends(suite):
    suite.case("GRAPH", "intermediate_is_output", lambda m, draw: chain(m, draw)[1:])
    suite.case("GRAPH", "outputs_out_of_order", lambda m, draw: chain(m, draw)[:0:-1])
    suite.case("GRAPH", "input_is_output", chain)
    suite.case("GRAPH", "output_named_twice", lambda m, draw: chain(m, draw)[2:] * 2)
    suite.case("GRAPH", "identity", lambda m, draw: [m.input(draw(2, 3))])
    suite.case("GRAPH", "constant_output", lambda m, draw: [chain(m, draw)[2], m.constant(draw(4))])
    suite.case("GRAPH", "constant_only", lambda m, draw: [m.constant(draw(4))])
    suite.case("GRAPH", "unused_input", lambda m, draw: [chain(m, draw)[2], m.input(draw(5))][:1])
    suite.case("GRAPH", "dead_operator", lambda m, draw: chain(m, draw)[1:2])


def contractions(model, draw):
    """A chain of convolutions: windows of several shapes over 8 or more channels."""
    value, channels = model.input(draw(2, 9, 20, 8)), 8
    for produced, (rows, columns), stride, dilation, activation in (
            (16, (1, 1), 1, (1, 1), Activation.RELU), (24, (3, 3), 1, (1, 1), Activation.NONE),
            (32, (3, 3), 2, (1, 1), Activation.RELU6), (16, (1, 5), 1, (1, 2), Activation.NONE),
            (8, (1, 1), 2, (1, 1), Activation.NONE), (10, (3, 2), 1, (1, 1), Activation.NONE)):
        weights = draw(produced, rows, columns, channels) / np.float32(rows * columns * channels) ** 0.5
        fields = options("Conv2DOptions", padding=0, strideH=stride, strideW=stride, dilationHFactor=dilation[0],
                         dilationWFactor=dilation[1], fusedActivationFunction=activation)
        inputs = [value, model.constant(weights), model.constant(draw(produced))]
        value, channels = model.operator("CONV_2D", inputs, fields), produced
    return [value]


def convolution(model, draw, value, weights, bias, operator="CONV_2D", **fields):
    """A convolution with weights so small that its results are about as large as its input."""
    products = np.float32(np.prod(weights[1:] if operator == "CONV_2D" else weights[1:3]))
    inputs = [value, model.constant(draw(*weights) / products**0.5), model.constant(draw(bias))]
    table = "Conv2DOptions" if operator == "CONV_2D" else "DepthwiseConv2DOptions"
    return model.operator(operator, inputs, options(table, padding=0, dilationHFactor=1, dilationWFactor=1, **fields))


def separable(model, draw):
    """Depthwise convolutions of several forms, each read by a pointwise one, and a residual."""
    value, channels, before = model.input(draw(2, 9, 11, 24)), 24, None
    for produced, size, stride, activation in ((48, 3, 1, Activation.RELU6), (40, 5, 2, Activation.NONE),
                                               (99, 3, 1, Activation.RELU), (40, 3, 1, Activation.NONE)):
        value = convolution(model, draw, value, (1, size, size, channels), channels, "DEPTHWISE_CONV_2D", depthMultiplier=1,
                            strideH=stride, strideW=stride, fusedActivationFunction=activation)
        value = convolution(model, draw, value, (produced, 1, 1, channels), produced, strideH=1, strideW=1)
        before, channels = value if produced == 40 and before is None else before, produced
    return [model.operator("ADD", [value, before], options("AddOptions"))]


def pointwise_strided(model, draw):
    """1×1 convolutions that skip positions."""
    value, channels = model.input(draw(1, 15, 13, 48)), 48
    for produced, strides in ((40, (2, 1)), (66, (1, 2)), (33, (2, 2))):
        value = convolution(model, draw, value, (produced, 1, 1, channels), produced, strideH=strides[0], strideW=strides[1])
        channels = produced
    return [value]


def structures(suite):
    suite.case("GRAPH", "contractions", contractions)
    suite.case("GRAPH", "separable", separable)
    suite.case("GRAPH", "pointwise_strided", pointwise_strided)

    def folded(model, draw):
        total = model.operator("ADD", [model.constant(draw(2, 3)), model.constant(draw(3))], options("AddOptions"))
        return [model.operator("MUL", [model.input(draw(2, 3)), total], options("MulOptions"))]

    def diamond(model, draw):
        x = model.input(draw(1, 4, 4, 3))
        left = model.operator("RELU", [x])
        right = model.operator("MUL", [x, x], options("MulOptions"))
        return [model.operator("SUB", [left, right], options("SubOptions"))]

    def shared_weights(model, draw):
        weights = model.constant(draw(3, 3))
        fused = options("FullyConnectedOptions", fusedActivationFunction=Activation.RELU)
        hidden = model.operator("FULLY_CONNECTED", [model.input(draw(2, 3)), weights, -1], fused, version=6)
        bare = options("FullyConnectedOptions")
        return [model.operator("FULLY_CONNECTED", [hidden, weights, -1], bare, version=6), weights]

    suite.case("GRAPH", "constants_combined", folded)
    suite.case("GRAPH", "diamond", diamond)
    suite.case("GRAPH", "shared_weights_also_output", shared_weights)


FAMILIES = (ends, structures)
