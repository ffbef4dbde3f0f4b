"""Whole graphs whose inputs, outputs and constants meet in unusual ways."""

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


def structures(suite):
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
