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


FAMILIES = (branches, loops, variables, more_branches, more_loops, more_variables)
