"""Models of several subgraphs: branches, loops, and variables that the subgraphs share."""

import numpy as np

from model_writer import options

COUNT = np.zeros(1, np.int32)  # stands for a loop's counter in an inner subgraph


def real(*shape):
    """A placeholder for a float tensor of this shape in an inner subgraph."""
    return np.zeros(shape, np.float32)


def add(model, a, b, dtype=np.float32):
    return model.operator("ADD", [a, b], options("AddOptions"), dtype=dtype)


def multiply(model, a, b):
    return model.operator("MUL", [a, b], options("MulOptions"))


def twice(inner):
    x = inner.input(real(2, 3))
    return [add(inner, x, x)]


def twice_of(inner, x):
    return add(inner, x, x)


def halves(inner):
    return [multiply(inner, inner.input(real(2, 3)), inner.constant(np.float32(0.5)))]


def row_sums(inner):
    axes = inner.constant(np.array([1], np.int32))
    return [inner.operator("SUM", [inner.input(real(2, 3)), axes], options("ReducerOptions", keepDims=False))]


def choose(model, condition, inputs, branches):
    then_branch, else_branch = [model.subgraph(branch) for branch in branches]
    return model.operator(
        "IF", [condition, *inputs], options("IfOptions", thenSubgraphIndex=then_branch, elseSubgraphIndex=else_branch))


def repeat(model, inputs, condition, body):
    condition, body = model.subgraph(condition), model.subgraph(body)
    table = options("WhileOptions", condSubgraphIndex=condition, bodySubgraphIndex=body)
    results = model.operator("WHILE", inputs, table, results=len(inputs), dtype=np.int32)
    for result, source in zip(results, inputs, strict=True):
        model.tensors[result].type = model.tensors[source].type
    return results


def branches(suite):
    def case(form, truth, pair, then):
        def build(model, draw):
            condition, x = model.input(np.array(truth)), model.input(draw(2, 3))
            return [then(model, choose(model, condition, [x], pair))]
        suite.case("IF", form, build)

    def known(form, condition, pair):
        def build(model, draw):
            chosen = choose(model, condition(model), [model.input(draw(2, 3))], pair)
            return [model.operator("RELU", [chosen])]
        suite.case("IF", form, build)

    def less(model):
        numbers = [model.constant(np.float32(number)) for number in (1, 2)]
        return model.operator("LESS", numbers, options("LessOptions"), dtype=np.bool_)

    known("constant_true", lambda model: model.constant(np.array(True)), (twice, halves))
    known("constant_false", lambda model: model.constant(np.array(False)), (twice, row_sums))
    known("folded_condition", less, (halves, twice))
    case("true", True, (twice, halves), lambda model, y: y)
    case("false", False, (twice, halves), lambda model, y: y)
    case("shapes_differ", False, (twice, row_sums), lambda model, y: y)
    case("result_is_used", True, (row_sums, twice), lambda model, y: model.operator("RELU", [y]))

    case("same_shapes_then_more", True, (halves, twice), lambda model, y: model.operator("RELU", [y]))

    def nested(inner):
        x = inner.input(real(2, 3))
        top = inner.operator("REDUCE_MAX", [x, inner.constant(np.array([0, 1], np.int32))], options("ReducerOptions"))
        large = inner.operator("GREATER", [top, inner.constant(np.float32(0.5))], options("GreaterOptions"), dtype=np.bool_)
        return [choose(inner, large, [x], (halves, twice))]

    case("nested", True, (nested, halves), lambda model, y: y)


def loops(suite):
    def below(limit, *others):
        def condition(inner):
            count = inner.input(COUNT)
            for other in others:
                inner.input(other)
            end = inner.constant(np.array([limit], np.int32))
            return [inner.operator("LESS", [count, end], options("LessOptions"), dtype=np.bool_)]
        return condition

    def next_count(inner):
        return add(inner, inner.input(COUNT), inner.constant(np.ones(1, np.int32)), np.int32)

    def powers(inner):
        count, x = next_count(inner), inner.input(real(2, 3))
        return [count, multiply(inner, x, inner.constant(np.full((3,), -1.5, np.float32)))]

    def growing(inner):
        count, x = next_count(inner), inner.input(real(1, 2))
        return [count, inner.operator("CONCATENATION", [x, x], options("ConcatenationOptions", axis=0))]

    def case(form, limit, shape, body):
        def build(model, draw):
            return repeat(model, [model.input(COUNT), model.input(draw(*shape))], below(limit, real(*shape)), body)
        suite.case("WHILE", form, build)

    def then_more(model, draw):
        inputs = [model.input(COUNT), model.input(draw(2, 3))]
        count, power = repeat(model, inputs, below(3, real(2, 3)), powers)
        return [count, model.operator("RELU", [multiply(model, power, inputs[1])])]

    def steady_and_growing(inner):
        count, x = next_count(inner), inner.input(real(2, 3))
        rows = inner.input(real(1, 3))
        more = inner.operator("CONCATENATION", [rows, x], options("ConcatenationOptions", axis=0))
        return [count, twice_of(inner, x), more]

    def one_grows_then_more(model, draw):
        inputs = [model.input(COUNT), model.input(draw(2, 3)), model.input(draw(1, 3))]
        count, x, rows = repeat(model, inputs, below(2, real(2, 3), real(1, 3)), steady_and_growing)
        return [count, model.operator("ABS", [x], options("AbsOptions")), rows]

    suite.case("WHILE", "same_shapes_then_more", then_more)
    suite.case("WHILE", "one_grows_then_more", one_grows_then_more)
    case("powers", 5, (2, 3), powers)
    case("no_step", 0, (2, 3), powers)
    case("grows", 3, (1, 2), growing)


def variables(suite):
    def assigned(model, draw):
        handle, x = model.handle("kept"), model.input(draw(2, 3))
        model.operator("ASSIGN_VARIABLE", [handle, add(model, x, x)], options("AssignVariableOptions"), results=0)
        kept = model.operator("READ_VARIABLE", [handle], options("ReadVariableOptions"), shape=(2, 3))
        return [multiply(model, kept, x)]

    def set_up(model, draw):
        weights = draw(3)

        def setup(inner):
            inputs = [inner.handle("weights"), inner.constant(weights)]
            inner.operator("ASSIGN_VARIABLE", inputs, options("AssignVariableOptions"), results=0)
            return []

        model.operator("CALL_ONCE", [], options("CallOnceOptions", initSubgraphIndex=model.subgraph(setup)), results=0)
        handle = model.handle("weights")
        kept = model.operator("READ_VARIABLE", [handle], options("ReadVariableOptions"), shape=(3,))
        return [multiply(model, model.input(draw(2, 3)), kept)]

    def kept_state(model, draw):
        start = draw(2, 3)

        def setup(inner):
            inputs = [inner.handle("state"), inner.constant(start)]
            inner.operator("ASSIGN_VARIABLE", inputs, options("AssignVariableOptions"), results=0)
            return []

        model.operator("CALL_ONCE", [], options("CallOnceOptions", initSubgraphIndex=model.subgraph(setup)), results=0)
        handle, x = model.handle("state"), model.input(draw(2, 3))
        state = model.operator("READ_VARIABLE", [handle], options("ReadVariableOptions"), shape=(2, 3))
        after = add(model, multiply(model, state, model.constant(np.float32(0.5))), x)
        model.operator("ASSIGN_VARIABLE", [handle, after], options("AssignVariableOptions"), results=0)
        return [model.operator("TANH", [after])]

    suite.case("ASSIGN_VARIABLE", "state_of_itself", kept_state)
    suite.case("ASSIGN_VARIABLE", "then_read", assigned)
    suite.case("CALL_ONCE", "sets_weights", set_up)


FAMILIES = (branches, loops, variables)
