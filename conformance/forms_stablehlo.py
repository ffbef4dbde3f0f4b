"""Operators of StableHLO: elementwise functions, windows, padding, gathers, scatters and branches."""

import numpy as np

from forms import fed_values, int32
from forms_flow import add, halves, multiply, real, row_sums, twice
from forms_movement import PLAIN
from forms_tables import numbers
from model_writer import Model, options

TYPES = {"f32": np.float32, "float16": np.float16, "float64": np.float64, "i32": np.int32, "i64": np.int64, "i8": np.int8,
         "u8": np.uint8, "i16": np.int16, "uint16": np.uint16, "uint32": np.uint32, "bool": np.bool_}


def kind_of(name):
    return {"float16": "f32", "float64": "f32", "uint16": "i32", "uint32": "i32"}.get(name, name)


def drawn(draw, *shape, dtype=np.float32):
    if np.dtype(dtype).kind == "u":
        return draw(*shape, low=0, high=9).astype(dtype)
    return numbers(draw, *shape, dtype=dtype)


def functions(suite):
    def case(operator, form, shape, name="f32", table=None, kernels=("reference", "plain", "default")):
        dtype = TYPES[name]
        inputs = lambda m, draw: [m.input(drawn(draw, *shape, dtype=dtype)) for _ in range(2)]
        suite.single(operator, form, inputs, table, kind_of(name), kernels=kernels, result=dtype)

    for operator in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
        for name in TYPES:
            case(f"STABLEHLO_{operator}", f"type_{name}", (2, 3), name)
        for shape in ((), (5,), (2, 1, 3), (1, 2, 1, 2, 2)):
            case(f"STABLEHLO_{operator}", f"rank_{len(shape)}", shape)
        large = fed_values(int32(2**31 - 1, -2**31, 7), int32(2, -1, 3))
        suite.single(f"STABLEHLO_{operator}", "extremes", large, kind="i32")
    for name in ("i32", "i64", "i8", "u8", "i16", "uint16", "uint32", "bool"):
        case("STABLEHLO_AND", f"type_{name}", (2, 3), name, kernels=PLAIN[1:])
    for shape in ((), (5,), (2, 1, 3), (1, 2, 1, 2, 2)):
        case("STABLEHLO_AND", f"rank_{len(shape)}", shape, "i32", kernels=PLAIN[1:])
    shifts = "StablehloShiftLeftOptions"
    for name in ("i8", "i16", "i32"):
        for shape in ((), (5,), (2, 3), (2, 1, 3)):
            inputs = lambda m, draw: [m.input(drawn(draw, *shape, dtype=TYPES[name])),
                                      m.input(draw(*shape, low=0, high=8).astype(TYPES[name]))]
            suite.single("STABLEHLO_SHIFT_LEFT", f"rank_{len(shape)}_{name}", inputs, shifts, "i32", kernels=PLAIN[1:], result=TYPES[name])
    far = fed_values(int32(5, 5, 5, 5), int32(31, 32, 40, -1))
    suite.single("STABLEHLO_SHIFT_LEFT", "far", far, shifts, "i32", kernels=PLAIN[1:])


def reductions(suite):
    functions = {"sum": 1, "product": 2, "minimum": 3, "maximum": 4, "all": 5, "any": 6}

    def case(form, function="sum", shape=(4, 5), sizes=(2, 2), strides=None, dilations=None, start=0, name="f32"):
        dtype, ones = TYPES[name], [1] * len(shape)

        def inputs(model, draw):
            lists = [np.array(given or ones, np.int64) for given in (sizes, strides, dilations)]
            return [model.input(drawn(draw, *shape, dtype=dtype)), model.input(np.array(start, dtype)),
                    *(model.constant(given) for given in lists)]
        suite.single("REDUCE_WINDOW", form, inputs, "ReduceWindowOptions", kind_of(name), result=dtype,
                     reduceFunction=functions[function])

    case("sum")
    case("product", "product", start=1)
    case("minimum", "minimum", start=9)
    case("maximum", "maximum", start=-9)
    case("start_counts", start=100)
    case("strides", strides=(1, 2))
    case("dilations", dilations=(2, 1))
    case("both", "maximum", (7, 8), (2, 3), (2, 1), (3, 2), -9)
    case("rank_1", shape=(9,), sizes=(4,), strides=(2,))
    case("rank_3", shape=(3, 4, 5), sizes=(2, 1, 3))
    case("rank_4", "maximum", (1, 5, 5, 3), (1, 3, 3, 1), (1, 2, 2, 1), start=-9)
    case("whole", sizes=(4, 5))
    case("larger_than_the_input", sizes=(5, 1))
    case("all", "all", name="bool", start=1)
    case("any", "any", name="bool")
    for name in ("i32", "i64", "i8", "u8", "i16"):
        case(f"type_{name}", name=name)
        case(f"maximum_{name}", "maximum", name=name)


def body_of(operator, dtype):
    def build(inner):
        a, b = (inner.input(np.zeros((), dtype)) for _ in range(2))
        return [inner.operator(operator, [a, b], dtype=dtype)]
    return build


def windows(suite):
    def case(form, body="STABLEHLO_ADD", shape=(4, 5), start=0, name="f32", kernels=("reference", "plain", "default"), **fields):
        dtype, rank = TYPES[name], len(shape)

        def build(model, draw):
            ones = [1] * rank
            lists = {"windowDimensions": [2] * rank, "windowStrides": ones, "baseDilations": ones, "windowDilations": ones,
                     "padding": [0] * (2 * rank), **fields}
            table = options("StablehloReduceWindowOptions", bodySubgraphIndex=model.subgraph(body_of(body, dtype)), **lists)
            inputs = [model.input(drawn(draw, *shape, dtype=dtype)), model.input(np.array(start, dtype))]
            return [model.operator("STABLEHLO_REDUCE_WINDOW", inputs, table, dtype=dtype)]
        suite.case("STABLEHLO_REDUCE_WINDOW", form, build, kind_of(name), kernels)

    case("sum")
    case("product", "STABLEHLO_MULTIPLY", start=1)
    case("minimum", "STABLEHLO_MINIMUM", start=9)
    case("maximum", "STABLEHLO_MAXIMUM", start=-9)
    case("padding", padding=[1, 1, 0, 2])
    case("padding_counts", start=3, padding=[1, 1, 0, 2])
    case("shifted", padding=[1, -1, 0, 0])
    case("negative_padding", padding=[-1, 0, 0, -2])
    case("strides", windowStrides=[2, 1])
    case("window_dilations", windowDilations=[1, 2])
    case("base_dilations", baseDilations=[2, 1])
    case("everything", "STABLEHLO_MAXIMUM", (5, 6), -9, windowDimensions=[2, 3], windowStrides=[2, 1], baseDilations=[2, 3],
         windowDilations=[3, 2], padding=[2, 1, 0, 3])
    case("pooling", "STABLEHLO_MAXIMUM", (1, 5, 5, 3), -99, windowDimensions=[1, 3, 3, 1], windowStrides=[1, 2, 2, 1],
         padding=[0, 0, 1, 1, 1, 1, 0, 0])
    case("prefix_sums", shape=(2, 6), windowDimensions=[1, 6], padding=[0, 0, 5, 0])
    case("rank_1", shape=(9,))
    case("plain_add", "ADD")
    for name in ("i32", "i64", "i8", "u8", "i16"):
        case(f"type_{name}", name=name, start=1)


def padding(suite):
    def case(form, shape=(2, 3), low=(1, 0), high=(0, 2), between=(0, 0), name="f32", constant=True):
        dtype = TYPES[name]

        def inputs(model, draw):
            value = drawn(draw, dtype=dtype)
            return [model.input(drawn(draw, *shape, dtype=dtype)), (model.constant if constant else model.input)(value)]
        suite.single("STABLEHLO_PAD", form, inputs, "StablehloPadOptions", kind_of(name), result=dtype, edgePaddingLow=list(low),
                     edgePaddingHigh=list(high), interiorPadding=list(between))

    case("edges")
    case("runtime_value", constant=False)
    case("between", between=(1, 2), low=(0, 0), high=(0, 0))
    case("edges_and_between", between=(2, 1))
    case("cut", low=(-1, 0), high=(0, -1))
    case("cut_and_extended", (4, 5), (-1, 2), (1, -2))
    case("cut_between", (4, 5), (-1, -2), (0, -1), (2, 1))
    case("nothing_left", low=(-1, 0), high=(-1, 0))
    case("nothing_to_do", low=(0, 0), high=(0, 0))
    case("rank_1", (5,), (2,), (1,), (0,))
    case("rank_4", (1, 2, 2, 3), (0, 1, 1, 0), (0, 1, 1, 2), (0, 0, 1, 0))
    case("empty_input", (0, 3), (1, 0), (1, 0), (0, 0))
    for name in ("i8", "i32", "i64", "bool", "u8", "i16", "float16"):
        case(f"type_{name}", name=name)

    def dilated(form, shape=(2, 3), apart=(2, 3), name="f32"):
        dtype = TYPES[name]
        inputs = lambda m, draw: [m.input(drawn(draw, *shape, dtype=dtype)), m.constant(int32(*apart)), m.input(drawn(draw, dtype=dtype))]
        suite.single("DILATE", form, inputs, "DilateOptions", kind_of(name), result=dtype)

    dilated("plain")
    dilated("nothing_to_do", apart=(1, 1))
    dilated("rows", apart=(3, 1))
    dilated("columns", apart=(1, 2))
    dilated("rank_1", (5,), (4,))
    dilated("rank_3", (2, 3, 2), (2, 1, 3))
    dilated("rank_4", (1, 2, 2, 3), (2, 2, 2, 1))
    dilated("one_element", (1, 1), (5, 5))
    for name in ("i8", "i32", "i64", "bool", "u8", "i16", "float16"):
        dilated(f"type_{name}", name=name)


def gathers(suite):
    def case(form, shape, indices, offset, collapsed, starts, vector, sizes, name="f32"):
        dtype = TYPES[name]
        table = options("StablehloGatherOptions", offsetDims=offset, collapsedSliceDims=collapsed, startIndexMap=starts,
                        indexVectorDim=vector, sliceSizes=sizes)

        def build(model, draw):
            inputs = [model.input(drawn(draw, *shape, dtype=dtype)), model.input(indices)]
            # LiteRT takes the rank of the result from the file.
            rank = indices.ndim - (vector < indices.ndim) + len(offset)
            return [model.operator("STABLEHLO_GATHER", inputs, table, dtype=dtype, shape=(1,) * rank)]
        suite.case("STABLEHLO_GATHER", form, build, kind_of(name))

    rows = int32([0], [2], [1], [2])
    case("rows", (3, 4), rows, [1], [0], [0], 1, [1, 4])
    case("columns", (3, 4), rows, [0], [1], [1], 1, [3, 1])
    case("slices", (3, 4, 2), int32([0, 1], [2, 2]), [1, 2, 3], [], [0, 1], 1, [1, 2, 2])
    case("elements", (3, 4), int32([0, 1], [2, 3]), [], [0, 1], [0, 1], 1, [1, 1])
    case("clamped", (3, 4), int32([5, 1], [-3, 9]), [1], [0], [0, 1], 1, [1, 2])
    case("other_order", (3, 4), int32([1, 0], [3, 2]), [1], [0], [1, 0], 1, [1, 2])
    case("vectors_first", (3, 4, 2), int32([0, 1, 2], [2, 2, 0]), [1, 2], [0], [0, 1], 0, [1, 2, 2])
    case("batch_of_rank_2", (3, 4, 2), int32([[0, 1], [1, 0]], [[2, 1], [0, 9]]), [2, 3], [0], [0, 1], 2, [1, 2, 2])
    case("slices_first", (3, 4), rows, [0], [0], [0], 1, [1, 3])
    case("slices_between", (3, 4, 2), int32([[0, 1], [1, 0]], [[2, 1], [0, 9]]), [0, 2], [0], [0, 1], 2, [1, 2, 2])
    case("one", (3, 4), int32(1, 2), [0], [0], [0, 1], 0, [1, 2])
    case("int64_indices", (3, 4), rows.astype(np.int64), [1], [0], [0], 1, [1, 4])
    for name in ("i32", "i64", "i8", "u8", "i16", "bool", "float16"):
        case(f"type_{name}", (3, 4), rows, [1], [0], [0], 1, [1, 4], name)


def scatters(suite):
    def case(form, shape, indices, updates, window, inserted, named, vector, body="STABLEHLO_ADD", name="f32"):
        dtype = TYPES[name]

        def second(inner):
            inner.input(np.zeros((), dtype))
            return [inner.input(np.zeros((), dtype))]

        def build(model, draw):
            function = model.subgraph(body_of(body, dtype) if body else second)
            table = options("StablehloScatterOptions", updateWindowDims=window, insertedWindowDims=inserted,
                            scatterDimsToOperandDims=named, indexVectorDim=vector, updateComputationSubgraphIndex=function)
            inputs = [model.input(drawn(draw, *shape, dtype=dtype)), model.input(indices), model.input(drawn(draw, *updates, dtype=dtype))]
            return [model.operator("STABLEHLO_SCATTER", inputs, table, dtype=dtype)]
        suite.case("STABLEHLO_SCATTER", form, build, kind_of(name))

    rows = int32([0], [2], [0])
    case("rows", (3, 4), rows, (3, 4), [1], [0], [0], 1)
    case("rows_replaced", (3, 4), int32([0], [2]), (2, 4), [1], [0], [0], 1, None)
    case("product", (3, 4), rows, (3, 4), [1], [0], [0], 1, "STABLEHLO_MULTIPLY")
    case("maximum", (3, 4), rows, (3, 4), [1], [0], [0], 1, "STABLEHLO_MAXIMUM")
    case("minimum", (3, 4), rows, (3, 4), [1], [0], [0], 1, "STABLEHLO_MINIMUM")
    case("columns", (3, 4), int32([3], [1]), (3, 2), [0], [1], [1], 1)
    case("elements", (3, 4), int32([0, 1], [2, 3], [0, 1]), (3,), [], [0, 1], [0, 1], 1)
    case("slices", (4, 5, 2), int32([0, 1], [2, 2]), (2, 2, 3, 2), [1, 2, 3], [], [0, 1], 1)
    case("outside", (3, 4), int32([3, 0], [-1, 1], [1, 9], [1, 2]), (4,), [], [0, 1], [0, 1], 1)
    case("other_order", (3, 4), int32([1, 0], [3, 2]), (2,), [], [0, 1], [1, 0], 1)
    case("batch_of_rank_2", (3, 4), int32([[0], [1]], [[2], [0]]), (2, 2, 4), [2], [0], [0], 2)
    case("vectors_first", (3, 4), int32([0, 1, 2], [3, 2, 0]), (3,), [], [0, 1], [0, 1], 0)
    case("int64_indices", (3, 4), rows.astype(np.int64), (3, 4), [1], [0], [0], 1)
    for name in ("i32", "i64", "i8", "u8", "i16"):
        case(f"type_{name}", (3, 4), rows, (3, 4), [1], [0], [0], 1, name=name)


def cases(suite):
    def negated(inner):
        return [inner.operator("NEG", [inner.input(real(2, 3))], options("NegOptions"))]

    def case(form, index, branches, then=lambda model, y: y, given=Model.input):
        def build(model, draw):
            number, x = given(model, np.array(index, np.int32)), model.input(draw(2, 3))
            table = options("StablehloCaseOptions", branchSubgraphIndices=[model.subgraph(branch) for branch in branches])
            return [then(model, model.operator("STABLEHLO_CASE", [number, x], table))]
        suite.case("STABLEHLO_CASE", form, build, kernels=PLAIN[1:])

    three = (twice, halves, negated)
    for index in (0, 1, 2):
        case(f"branch_{index}", index, three)
    case("too_large", 7, three)
    case("negative", -1, three)
    case("one_branch", 0, (halves,))
    case("two_branches", 1, (halves, twice))
    case("many_branches", 3, three * 2)
    case("result_is_used", 1, three, lambda model, y: model.operator("RELU", [y]))
    case("shapes_differ", 1, (twice, row_sums, halves))
    case("shapes_differ_then_more", 1, (twice, row_sums), lambda model, y: model.operator("RELU", [y]))
    case("index_of_list", [2], three)
    for form, index in (("constant", 1), ("constant_too_large", 9)):
        case(form, index, three, lambda model, y: model.operator("RELU", [y]), Model.constant)


FAMILIES = (functions, reductions, windows, padding, gathers, scatters, cases)
