"""Models of several subgraphs: branches, loops, and variables that the subgraphs share."""

import numpy as np

from model_writer import options

PLAIN = ("reference", "plain")  # XNNPACK's variables of several writers crash LiteRT
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
    results = results if isinstance(results, list) else [results]
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


def more_branches(suite):
    """Branches of several inputs and results, of other types, and of branches that ignore what they are given."""
    def case(form, truth, pair, add_inputs, results=1, dtype=np.float32):
        def build(model, draw):
            inputs = add_inputs(model, draw)
            then_branch, else_branch = [model.subgraph(branch) for branch in pair]
            table = options("IfOptions", thenSubgraphIndex=then_branch, elseSubgraphIndex=else_branch)
            made = model.operator("IF", [model.input(np.array(truth)), *inputs], table, results=results, dtype=dtype)
            return made if results > 1 else [made]
        suite.case("IF", form, build)

    def swapped(inner):
        x, y = inner.input(real(2, 3)), inner.input(real(2, 3))
        return [y, x]

    def combined(inner):
        x, y = inner.input(real(2, 3)), inner.input(real(2, 3))
        return [add(inner, x, y), multiply(inner, x, y)]

    def first(inner):
        x, _ = inner.input(real(2, 3)), inner.input(real(2, 3))
        return [twice_of(inner, x)]

    def of_constants(inner):
        inner.input(real(2, 3)), inner.input(real(2, 3))
        return [inner.operator("RELU", [inner.constant(np.array([[1, -2, 3]], np.float32))])]

    def integers(sign):
        def branch(inner):
            x = inner.input(np.zeros((2, 3), np.int32))
            return [add(inner, x, inner.constant(np.array(sign, np.int32)), np.int32)]
        return branch

    pair = lambda model, draw: [model.input(draw(2, 3)), model.input(draw(2, 3))]
    for truth, name in ((True, "true"), (False, "false")):
        case(f"two_results_{name}", truth, (swapped, combined), pair, 2)
        case(f"ignores_inputs_{name}", truth, (of_constants, first), pair)
        case(f"int32_{name}", truth, (integers(5), integers(-7)), lambda m, draw: [m.input(draw(2, 3, dtype=np.int32, low=-9, high=9))], 1, np.int32)
    case("same_input_twice", True, (combined, swapped), lambda m, draw: [m.input(draw(2, 3))] * 2, 2)


def more_loops(suite):
    """Loops over other types, with conditions on values, with loops inside, and with values that no step changes."""
    def case(form, make_inputs, condition, body):
        suite.case("WHILE", form, lambda model, draw: repeat(model, make_inputs(model, draw), condition, body))

    def below(limit, *placeholders):
        def condition(inner):
            first, *_ = [inner.input(placeholder) for placeholder in placeholders]
            return [inner.operator("LESS", [first, inner.constant(np.array([limit], placeholders[0].dtype))], options("LessOptions"), dtype=np.bool_)]
        return condition

    def doubled(inner):
        x = inner.input(real(1))
        return [twice_of(inner, x)]

    case("until_large", lambda m, draw: [m.input(np.array([0.3], np.float32))], below(7, real(1)), doubled)

    long = np.zeros(1, np.int64)

    def next_long(inner):
        return [add(inner, inner.input(long), inner.constant(np.array([3], np.int64)), np.int64)]

    case("int64", lambda m, draw: [m.input(long)], below(10, long), next_long)

    two = (COUNT, real(2, 3), real(2, 3))

    def accumulates(inner):
        count, total, step = inner.input(COUNT), inner.input(real(2, 3)), inner.input(real(2, 3))
        return [add(inner, count, inner.constant(np.ones(1, np.int32)), np.int32), add(inner, total, step), step]

    case("unchanged_value", lambda m, draw: [m.input(COUNT), m.input(draw(2, 3)), m.input(draw(2, 3))], below(4, *two), accumulates)
    case("constant_input", lambda m, draw: [m.constant(COUNT), m.input(draw(2, 3)), m.constant(draw(2, 3))], below(2, *two), accumulates)

    def rows(inner):
        count, table, total = inner.input(COUNT), inner.input(real(4, 3)), inner.input(real(1, 3))
        row = inner.operator("GATHER", [table, count], options("GatherOptions"))
        return [add(inner, count, inner.constant(np.ones(1, np.int32)), np.int32), table, add(inner, total, row)]

    case("rows_of_a_table", lambda m, draw: [m.input(COUNT), m.input(draw(4, 3)), m.input(draw(1, 3))], below(4, COUNT, real(4, 3), real(1, 3)), rows)

    def outer(inner):
        count, x = inner.input(COUNT), inner.input(real(1))
        made = repeat(inner, [x], below(1, real(1)), doubled)
        return [add(inner, count, inner.constant(np.ones(1, np.int32)), np.int32), multiply(inner, made[0], inner.constant(np.float32(0.2)))]

    case("loop_in_a_loop", lambda m, draw: [m.input(COUNT), m.input(np.array([0.3], np.float32))], below(3, COUNT, real(1)), outer)


def counted_loops(suite):
    """Loops whose number of turns is constant: the counter starts at a constant, and what decides is computed from it. LiteRT
    copies values that a body returns one after the other, so that a body that only exchanges two loses one of them.
    """
    start, column = np.zeros((), np.int32), real(1, 3)

    def whole(inner, number):
        return inner.constant(np.array(number, np.int32))

    def advance(inner, count, step=1):
        return add(inner, count, whole(inner, step), np.int32)

    def compare(inner, operator, a, b):
        table = options("".join(part.capitalize() for part in operator.split("_")) + "Options")
        return inner.operator(operator, [a, b], table, dtype=np.bool_)

    def below(limit, *others):
        def condition(inner):
            count, *_ = [inner.input(value) for value in (start, *others)]
            return [compare(inner, "LESS", count, whole(inner, limit))]
        return condition

    def case(form, first, make_inputs, condition, body, kernels=("reference", "plain", "default"), kind="f32"):
        def build(model, draw):
            return repeat(model, [model.constant(np.array(first, np.int32)), *make_inputs(model, draw)], condition, body)
        suite.case("WHILE", f"counted_{form}", build, kind, kernels)

    def one(model, draw):
        return [model.input(draw(1, 3))]

    def two(model, draw):
        return [model.input(draw(1, 3)), model.input(draw(1, 3))]

    def scaled(inner):
        count, x = inner.input(start), inner.input(column)
        return [advance(inner, count), multiply(inner, x, inner.constant(np.full(3, -1.25, np.float32)))]

    case("powers", 0, one, below(5, column), scaled)
    case("no_turn", 7, one, below(5, column), scaled)
    case("one_turn", 4, one, below(5, column), scaled)

    def by_value(inner):
        count, end, _ = inner.input(start), inner.input(start), inner.input(column)
        return [compare(inner, "LESS_EQUAL", count, end)]

    def to_value(inner):
        count, end, x = inner.input(start), inner.input(start), inner.input(column)
        return [advance(inner, count, 2), end, multiply(inner, x, inner.constant(np.float32(0.75)))]

    case("end_is_a_value", 1, lambda m, draw: [m.constant(np.array(6, np.int32)), *one(m, draw)], by_value, to_value)

    def geometric(inner):
        count, x = inner.input(start), inner.input(column)
        count = inner.operator("MUL", [count, whole(inner, 3)], options("MulOptions"), dtype=np.int32)
        return [count, add(inner, x, inner.operator("CAST", [count], options("CastOptions")))]

    case("geometric_steps", 1, one, below(80, column), geometric)

    def down(inner):
        count, _ = inner.input(start), inner.input(column)
        return [inner.operator("LOGICAL_AND", [compare(inner, "GREATER", count, whole(inner, 0)),
                                               compare(inner, "NOT_EQUAL", count, whole(inner, 2))], dtype=np.bool_)]

    def downwards(inner):
        count, x = inner.input(start), inner.input(column)
        return [advance(inner, count, -1), add(inner, x, inner.operator("CAST", [count], options("CastOptions")))]

    case("downwards", 6, one, down, downwards)

    def exchanged(inner):
        count, x, y = inner.input(start), inner.input(column), inner.input(column)
        return [advance(inner, count), y, add(inner, x, y)]

    case("exchanged_values", 0, two, below(6, column, column), exchanged)

    def replaced(inner):
        count, _, y = inner.input(start), inner.input(column), inner.input(column)
        return [advance(inner, count), inner.constant(np.array([[1, -2, 3]], np.float32)), y]

    def then_used(form, first, body):
        def build(model, draw):
            _, x, y = repeat(model, [whole(model, first), *two(model, draw)], below(3, column, column), body)
            return [model.operator("RELU", [x]), multiply(model, x, y)]
        suite.case("WHILE", f"counted_{form}", build)

    then_used("constant_result", 0, replaced)
    then_used("exchanged_then_used", 0, exchanged)
    then_used("no_turn_then_used", 3, exchanged)

    def growing(inner):
        count, x = inner.input(start), inner.input(column)
        return [advance(inner, count), inner.operator("CONCATENATION", [x, x], options("ConcatenationOptions", axis=0))]

    case("grows", 0, one, below(3, column), growing)

    def outer(inner):
        count, x = inner.input(start), inner.input(column)
        _, made = repeat(inner, [whole(inner, 0), x], below(2, column), scaled)
        return [advance(inner, count), add(inner, made, x)]

    case("loop_in_a_loop", 0, one, below(3, column), outer)

    def triangular(inner):
        count, x = inner.input(start), inner.input(column)
        _, made = repeat(inner, [count, x], below(4, column), scaled)
        return [advance(inner, count), add(inner, made, x)]

    case("inner_loop_from_the_counter", 0, one, below(4, column), triangular)

    def doubled(inner):
        return [twice_of(inner, inner.input(column))]

    def negated(inner):
        return [inner.operator("NEG", [inner.input(column)], options("NegOptions"))]

    def alternating(inner):
        count, x = inner.input(start), inner.input(column)
        is_third = compare(inner, "EQUAL", count, whole(inner, 2))
        return [advance(inner, count), choose(inner, is_third, [x], (negated, doubled))]

    case("branch_on_the_counter", 0, one, below(4, column), alternating)

    def recurrent(model, draw):
        weights, own = draw(4, 3), draw(4, 4)

        def step(inner):
            count, sequence = inner.input(start), inner.input(real(6, 1, 3))
            state, results = inner.input(real(1, 4)), inner.input(real(6, 1, 4))
            x = inner.operator("GATHER", [sequence, count], options("GatherOptions"))
            dense = [inner.operator("FULLY_CONNECTED", [value, inner.constant(matrix), -1], options("FullyConnectedOptions"))
                     for value, matrix in ((x, weights), (state, own))]
            state = inner.operator("TANH", [add(inner, *dense)])
            row = inner.operator("EXPAND_DIMS", [state, whole(inner, 0)], options("ExpandDimsOptions"))
            at = inner.operator("PACK", [count, whole(inner, 0), whole(inner, 0)], options("PackOptions", valuesCount=3), dtype=np.int32)
            results = inner.operator("DYNAMIC_UPDATE_SLICE", [results, row, at], options("DynamicUpdateSliceOptions"))
            return [advance(inner, count), sequence, state, results]

        inputs = [whole(model, 0), model.input(draw(6, 1, 3)), model.input(draw(1, 4)), model.constant(real(6, 1, 4))]
        _, _, state, results = repeat(model, inputs, below(6, real(6, 1, 3), real(1, 4), real(6, 1, 4)), step)
        return [model.operator("ABS", [state], options("AbsOptions")), results]

    suite.case("WHILE", "counted_recurrent_network", recurrent)

    def accumulated(model, draw):
        def step(inner):
            count, x = inner.input(start), inner.input(column)
            kept = inner.operator("READ_VARIABLE", [inner.handle("sum")], options("ReadVariableOptions"), shape=(1, 3))
            after = add(inner, multiply(inner, kept, inner.constant(np.float32(0.5))), x)
            inner.operator("ASSIGN_VARIABLE", [inner.handle("sum"), after], options("AssignVariableOptions"), results=0)
            return [advance(inner, count), multiply(inner, x, inner.constant(np.float32(-0.5)))]

        x = model.input(draw(1, 3))
        model.operator("ASSIGN_VARIABLE", [model.handle("sum"), x], options("AssignVariableOptions"), results=0)
        repeat(model, [whole(model, 0), x], below(4, column), step)
        kept = model.operator("READ_VARIABLE", [model.handle("sum")], options("ReadVariableOptions"), shape=(1, 3))
        return [twice_of(model, kept)]

    suite.case("WHILE", "counted_variable", accumulated, kernels=PLAIN)

    def integers(inner):
        count, x = inner.input(start), inner.input(np.zeros((2, 3), np.int32))
        return [advance(inner, count), add(inner, x, count, np.int32)]

    case("int32", 0, lambda m, draw: [m.input(draw(2, 3, dtype=np.int32, low=-9, high=9))],
         below(5, np.zeros((2, 3), np.int32)), integers, kind="i32")


def more_variables(suite):
    """Variables of other types and ranks, several of them, and variables that branches and loops share."""
    def assign(model, name, value):
        model.operator("ASSIGN_VARIABLE", [model.handle(name), value], options("AssignVariableOptions"), results=0)

    def read(model, name, shape, dtype=np.float32):
        return model.operator("READ_VARIABLE", [model.handle(name)], options("ReadVariableOptions"), shape=shape, dtype=dtype)

    def set_up(model, values):
        def setup(inner):
            for name, value in values.items():
                assign(inner, name, inner.constant(value))
            return []
        model.operator("CALL_ONCE", [], options("CallOnceOptions", initSubgraphIndex=model.subgraph(setup)), results=0)

    for dtype in (np.int32, np.int64, np.bool_, np.int8, np.uint8, np.int16):
        def typed(model, draw):
            value = draw(2, 3) < 0 if dtype == np.bool_ else draw(2, 3, low=0, high=99).astype(dtype)
            assign(model, "kept", model.input(value))
            kept = read(model, "kept", (2, 3), dtype)
            return [model.operator("RESHAPE", [kept, model.constant(np.array([3, 2], np.int32))], dtype=dtype)]
        suite.case("ASSIGN_VARIABLE", f"type_{np.dtype(dtype).name}", typed, "bool" if dtype == np.bool_ else "f32", PLAIN)

    for shape in ((), (5,), (2, 1, 3, 2)):
        def ranked(model, draw):
            assign(model, "kept", model.input(draw(*shape)))
            return [twice_of(model, read(model, "kept", shape))]
        suite.case("ASSIGN_VARIABLE", f"rank_{len(shape)}", ranked, kernels=PLAIN)

    def other_shape(model, draw):
        set_up(model, {"kept": draw(2, 3)})
        assign(model, "kept", model.input(draw(4)))
        return [twice_of(model, read(model, "kept", (4,)))]

    def last_of_two(model, draw):
        x, y = model.input(draw(2, 3)), model.input(draw(2, 3))
        assign(model, "kept", x)
        before = read(model, "kept", (2, 3))
        assign(model, "kept", y)
        return [add(model, before, x), twice_of(model, read(model, "kept", (2, 3)))]

    suite.case("ASSIGN_VARIABLE", "other_shape", other_shape, kernels=PLAIN)
    suite.case("ASSIGN_VARIABLE", "last_of_two", last_of_two, kernels=PLAIN)

    def two_variables(model, draw):
        set_up(model, {"first": draw(2, 3), "second": draw(3)})
        return [add(model, add(model, model.input(draw(2, 3)), read(model, "first", (2, 3))), read(model, "second", (3,)))]

    def twice_read(model, draw):
        set_up(model, {"weights": draw(3)})
        return [add(model, multiply(model, model.input(draw(2, 3)), read(model, "weights", (3,))), read(model, "weights", (3,)))]

    def two_calls(model, draw):
        set_up(model, {"first": draw(2, 3)})
        set_up(model, {"second": draw(2, 3)})
        return [add(model, add(model, model.input(draw(2, 3)), read(model, "first", (2, 3))), read(model, "second", (2, 3)))]

    def overwritten(model, draw):
        set_up(model, {"kept": draw(2, 3)})
        assign(model, "kept", model.input(draw(2, 3)))
        return [twice_of(model, read(model, "kept", (2, 3)))]

    def computed(model, draw):
        start = draw(2, 3)

        def setup(inner):
            assign(inner, "kept", twice_of(inner, inner.constant(start)))
            return []
        model.operator("CALL_ONCE", [], options("CallOnceOptions", initSubgraphIndex=model.subgraph(setup)), results=0)
        return [add(model, model.input(draw(2, 3)), read(model, "kept", (2, 3)))]

    def of_integers(model, draw):
        set_up(model, {"kept": np.array([3, -5, 7], np.int32)})
        return [add(model, model.input(draw(2, 3, dtype=np.int32, low=-9, high=9)), read(model, "kept", (3,), np.int32), np.int32)]

    def in_a_branch(truth):
        def build(model, draw):
            set_up(model, {"kept": draw(2, 3)})

            def writes(inner):
                x = inner.input(real(2, 3))
                assign(inner, "kept", twice_of(inner, x))
                return [read(inner, "kept", (2, 3))]

            def reads(inner):
                return [add(inner, inner.input(real(2, 3)), read(inner, "kept", (2, 3)))]

            chosen = choose(model, model.input(np.array(truth)), [model.input(draw(2, 3))], (writes, reads))
            return [model.operator("RELU", [chosen])]
        return build

    def in_a_loop(model, draw):
        set_up(model, {"total": draw(2, 3)})

        def condition(inner):
            count, _ = inner.input(COUNT), inner.input(real(2, 3))
            return [inner.operator("LESS", [count, inner.constant(np.array([3], np.int32))], options("LessOptions"), dtype=np.bool_)]

        def body(inner):
            count, x = inner.input(COUNT), inner.input(real(2, 3))
            assign(inner, "total", add(inner, read(inner, "total", (2, 3)), x))
            return [add(inner, count, inner.constant(np.ones(1, np.int32)), np.int32), x]

        x = model.input(draw(2, 3))
        count, same = repeat(model, [model.input(COUNT), x], condition, body)
        return [count, same]

    for form, build in (("two_variables", two_variables), ("twice_read", twice_read), ("two_calls", two_calls), ("overwritten", overwritten),
                        ("computed", computed), ("int32", of_integers), ("written_in_a_branch", in_a_branch(True)),
                        ("read_in_a_branch", in_a_branch(False)), ("written_in_a_loop", in_a_loop)):
        suite.case("CALL_ONCE", form, build, "i32" if form == "int32" else "f32", PLAIN)


FAMILIES = (branches, loops, variables, more_branches, more_loops, more_variables, counted_loops)
