"""Operators that select, sort, repeat or multiply: all ranks, types and ways to specify a parameter."""

import numpy as np

from forms import fed, fed_integers, int32, then_constants, then_fed
from model_writer import TENSOR_TYPES as TYPES
from model_writer import Activation, options

AXES = {  # shape, axis
    "rank_1": ((5,), 0), "first": ((2, 3), 0), "inside": ((2, 3, 4), 1), "last": ((2, 3, 2, 4), -1),
    "rank_5": ((2, 1, 3, 2, 2), 2),
}
BLOCKS = {  # shape, begin, size
    "rank_1": ((5,), [1], [3]),
    "rank_3": ((3, 4, 2), [1, 0, 1], [2, 3, 1]),
    "to_end": ((3, 4), [1, 2], [-1, -1]),
    "rank_5": ((2, 3, 2, 2, 3), [1, 0, 0, 1, 1], [1, 2, -1, 1, 2]),
    "empty": ((3, 4), [3, 0], [0, 4]),
}
TILES = {  # shape, how often it is repeated
    "rank_1": ((3,), [3]), "rank_3": ((2, 1, 3), [2, 3, 1]), "rank_5": ((2, 1, 2, 1, 3), [1, 2, 2, 1, 2]),
}
BROADCASTS = {  # shape, the shape that it is broadcast to
    "scalar": ((), [2, 3]), "new_axes": ((3, 1), [2, 3, 4]), "rank_5": ((2, 1, 3), [2, 1, 2, 2, 3]),
}


def int64(*values):
    return np.array(values, np.int64)


def whole(*values):
    """A scalar."""
    return np.array(*values, np.int32)


def values(*arrays):
    """Run-time inputs of the given values."""
    return lambda model, draw: [model.input(np.asarray(array)) for array in arrays]


def many(suite, operator, form, make_inputs, count, table=None, kind="f32", dtypes=(np.float32,), version=1, **fields):
    """A case of one operator with `count` results, of the given types in turn."""
    def build(model, draw):
        chosen = options(table, **fields) if table else None
        made = model.operator(operator, make_inputs(model, draw), chosen, version, count, dtypes[0])
        made = made if count > 1 else [made]
        for index, result in enumerate(made):
            dtype = np.dtype(dtypes[index % len(dtypes)])
            model.tensors[result].type = TYPES[dtype]
        return made

    suite.case(operator, form, build, kind)


def transpose(suite):
    def case(form, inputs, **more):
        suite.single("TRANSPOSE", form, inputs, "TransposeOptions", **more)

    orders = {"rank_1": [0], "rank_2": [1, 0], "rank_3": [2, 0, 1], "planes": [0, 3, 1, 2], "rank_5": [4, 1, 3, 0, 2],
              "rank_6": [5, 0, 4, 1, 2, 3], "identity": [0, 1, 2]}
    for form, order in orders.items():
        case(form, then_constants(fed((2, 3, 1, 2, 3, 2)[:len(order)]), int32(*order)))
    case("int32", then_constants(fed_integers((2, 3)), int32(1, 0)), kind="i32")
    case("runtime_order", then_fed(fed((2, 3, 4)), int32(1, 2, 0)))


def slices(suite):
    def case(form, inputs, **more):
        suite.single("SLICE", form, inputs, "SliceOptions", **more)

    for form, (shape, begin, size) in BLOCKS.items():
        case(form, then_constants(fed(shape), int32(*begin), int32(*size)))
    case("int64_bounds", then_constants(fed((3, 4)), int64(1, 0), int64(1, -1)))
    case("int32", then_constants(fed_integers((3, 4)), int32(1, 1), int32(2, 2)), kind="i32")
    case("runtime_bounds", then_fed(fed((3, 4)), int32(1, 1), int32(2, -1)))


def pack(suite):
    def case(form, inputs, count, axis, **more):
        suite.single("PACK", form, inputs, "PackOptions", valuesCount=count, axis=axis, **more)

    case("scalars", fed((), (), ()), 3, 0)
    case("rank_1", fed((3,), (3,)), 2, -1)
    case("rank_4", fed((2, 1, 3, 2), (2, 1, 3, 2)), 2, 2)
    case("single", fed((2, 3)), 1, 1)
    case("int32", fed_integers((2,), (2,)), 2, 0, kind="i32")
    case("constant_between", lambda m, draw: [m.input(draw(2, 3)), m.constant(draw(2, 3)), m.input(draw(2, 3))], 3, 1)

    def apart(form, shape, axis, **more):
        many(suite, "UNPACK", form, fed(shape), shape[axis], "UnpackOptions", num=shape[axis], axis=axis, **more)

    apart("to_scalars", (3,), 0)
    apart("last", (2, 3), -1)
    apart("single", (2, 1, 3), 1)
    apart("rank_5", (2, 1, 2, 3, 2), 3)


def split(suite):
    def equal(form, shape, axis, count, inputs=None, **more):
        inputs = inputs or (lambda model, draw: [model.constant(whole(axis)), model.input(draw(*shape))])
        many(suite, "SPLIT", form, inputs, count, "SplitOptions", numSplits=count, **more)

    equal("rank_1", (6,), 0, 3)
    equal("negative_axis", (2, 6), -1, 2)
    equal("one_piece", (2, 3), 1, 1)
    equal("rank_5", (2, 1, 4, 3, 2), 2, 2)
    equal("runtime_axis", (2, 4), 1, 2, lambda model, draw: [model.input(whole(1)), model.input(draw(2, 4))])

    def given(form, shape, lengths, axis, **more):
        inputs = then_constants(fed(shape), lengths, whole(axis))
        many(suite, "SPLIT_V", form, inputs, len(lengths), "SplitVOptions", numSplits=len(lengths), **more)

    given("rank_1", (6,), int32(1, 2, 3), 0)
    given("open_length", (2, 7), int32(2, -1, 1), 1)
    given("int64_lengths", (2, 5), int64(4, 1), -1)
    given("rank_5", (2, 1, 5, 2, 2), int32(3, 2), 2)


def expand(suite):
    new = {"scalar": ((), 0), "first": ((2, 3), 0), "last": ((2, 3), -1), "rank_5": ((2, 3, 1, 2), 2)}
    for form, (shape, axis) in new.items():
        suite.single("EXPAND_DIMS", form, then_constants(fed(shape), whole(axis)), "ExpandDimsOptions")
    suite.single("EXPAND_DIMS", "int64_axis", then_constants(fed((2, 3)), int64(1)), "ExpandDimsOptions")
    suite.single("EXPAND_DIMS", "runtime_axis", then_fed(fed((2, 3)), whole(1)), "ExpandDimsOptions")


def blocks(suite):
    for form, (shape, block) in {"block_3_batch": ((2, 6, 3, 2), 3), "one_pixel": ((1, 4, 4, 1), 4)}.items():
        suite.single("SPACE_TO_DEPTH", form, fed(shape), "SpaceToDepthOptions", blockSize=block)
    suite.single("SPACE_TO_DEPTH", "int32", fed_integers((1, 2, 4, 3)), "SpaceToDepthOptions", kind="i32", blockSize=2)
    nests = {"rank_3": ((2, 5, 3), [3], [[1, 0]]), "block_3": ((2, 4, 5, 2), [3, 2], [[2, 0], [0, 1]]),
             "block_1": ((1, 2, 2, 3), [1, 1], [[0, 0], [0, 0]])}
    for form, (shape, block, margins) in nests.items():
        inputs = then_constants(fed(shape), int32(*block), int32(*margins))
        suite.single("SPACE_TO_BATCH_ND", form, inputs, "SpaceToBatchNDOptions")
        batches = (shape[0] * int(np.prod(block)), *shape[1:])
        inputs = then_constants(fed(batches), int32(*block), int32(*margins))
        suite.single("BATCH_TO_SPACE_ND", form, inputs, "BatchToSpaceNDOptions")


def gather(suite):
    def case(form, inputs, axis=0, batch=0, **more):
        suite.single("GATHER", form, inputs, "GatherOptions", axis=axis, batchDims=batch, **more)

    case("scalar_index", then_constants(fed((3, 4)), whole(2)))
    case("table_of_indices", then_constants(fed((3, 4)), int32([0, 2], [1, 1])), -1)
    case("shared_axis", then_constants(fed((2, 3, 4)), int32([0, 2, 2], [1, 0, 1])), 1, 1)
    case("shared_axis_apart", then_constants(fed((2, 3, 4)), int32([0, 3], [1, 2])), 2, 1)
    case("shared_from_end", then_constants(fed((2, 3, 4)), int32([0, 2, 2], [1, 0, 1])), 1, -1)
    case("int64_indices", then_constants(fed((3, 4)), int64(3, 0)), 1)
    case("rank_5", then_constants(fed((2, 3, 1, 2, 2)), int32(2, 0)), 1)
    case("runtime_indices", then_fed(fed((3, 4)), int32(2, 2, 0)))
    case("constant_table", lambda m, draw: [m.constant(draw(5, 3)), m.input(int32([4, 0], [1, 3]))])
    case("int32", then_constants(fed_integers((3, 4)), int32(2, 0)), kind="i32")

    def rows(form, inputs, **more):
        suite.single("GATHER_ND", form, inputs, "GatherNdOptions", **more)

    rows("elements", then_constants(fed((3, 4)), int32([0, 3], [2, 1], [2, 1])))
    rows("table_of_rows", then_constants(fed((3, 2, 4)), int32([[2], [0]], [[1], [1]])))
    rows("int64_indices", then_constants(fed((3, 4, 2)), int64([2, 0])))
    rows("single_row", then_constants(fed((3, 4)), int32(1, 2)))
    rows("int32", then_fed(fed_integers((3, 4)), int32([2], [0])), kind="i32")


def products(suite):
    def case(form, left, right, inputs=None, **flags):
        suite.single("BATCH_MATMUL", form, inputs or fed(left, right), "BatchMatMulOptions", **flags)

    case("rank_2", (3, 4), (4, 5))
    case("both_transposed", (2, 4, 3), (2, 5, 4), adjX=True, adjY=True)
    case("one_right", (2, 3, 4), (4, 5))
    case("one_left", (3, 4), (2, 4, 5))
    case("outer_broadcast", (2, 1, 3, 4), (3, 4, 2))
    case("rank_5", (2, 1, 2, 3, 4), (1, 3, 1, 4, 2))
    case("row_and_column", (1, 7), (7, 1))
    constant = lambda model, draw: [model.input(draw(2, 3, 4)), model.constant(draw(2, 5, 4))]
    case("constant_right", None, None, constant, adjY=True)


def tiles(suite):
    for form, (shape, times) in TILES.items():
        suite.single("TILE", form, then_constants(fed(shape), int32(*times)), "TileOptions")
    suite.single("TILE", "int64_times", then_constants(fed((2, 3)), int64(2, 1)), "TileOptions")
    suite.single("TILE", "runtime_times", then_fed(fed((2, 3)), int32(1, 2)), "TileOptions")
    suite.single("TILE", "int32", then_constants(fed_integers((2, 3)), int32(2, 2)), "TileOptions", kind="i32")


def broadcasts(suite):
    def case(form, inputs, **more):
        suite.single("BROADCAST_TO", form, inputs, "BroadcastToOptions", version=2, **more)

    for form, (shape, wanted) in BROADCASTS.items():
        case(form, then_constants(fed(shape), int32(*wanted)))
    case("int64_shape", then_constants(fed((3, 1)), int64(3, 2)))
    case("runtime_shape", then_fed(fed((3, 1)), int32(3, 2)))
    case("int32", then_constants(fed_integers((1, 2)), int32(3, 2)), kind="i32")


def borders(suite):
    for shape in ((), (2,), (2, 1, 2, 1, 2)):
        inputs = then_constants(fed(shape), int32(*[[1, 2]] * len(shape)).reshape(-1, 2), np.array(-1.5, np.float32))
        suite.single("PADV2", f"rank_{len(shape)}", inputs, "PadV2Options")
    inputs = then_constants(fed((2, 3)), int64([1, 0], [0, 2]), np.array(0.25, np.float32))
    suite.single("PADV2", "int64_amounts", inputs, "PadV2Options")
    inputs = then_constants(fed_integers((2, 3)), int32([1, 0], [0, 2]), whole(7))
    suite.single("PADV2", "int32", inputs, "PadV2Options", kind="i32")


def reversals(suite):
    orders = {"rank_1": ((4,), [0]), "rank_5": ((2, 1, 3, 2, 2), [2]), "two_axes": ((2, 3, 2), [1, 2])}
    for form, (shape, axes) in orders.items():
        suite.single("REVERSE_V2", form, then_constants(fed(shape), int32(*axes)), "ReverseV2Options")
    suite.single("REVERSE_V2", "int32", then_constants(fed_integers((2, 3)), int32(1)), "ReverseV2Options", kind="i32")


def searches(suite):
    ties = np.float32([[1, 3, 3, 0], [2, 2, 1, 2], [-1, -1, -1, -1]])
    for operator, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        def case(form, inputs, dtype=np.int32, **more):
            many(suite, operator, form, inputs, 1, table, dtypes=(dtype,), outputType=TYPES[np.dtype(dtype)], **more)

        for form, (shape, axis) in AXES.items():
            case(form, then_constants(fed(shape), whole(axis)))
        case("ties", then_constants(values(ties), whole(1)))
        case("int64_places", then_constants(values(ties), whole(0)), np.int64)
        case("int64_axis", then_constants(fed((2, 3)), np.array(1, np.int64)))
        case("runtime_axis", then_fed(fed((2, 3)), whole(1)))
        case("int32", then_constants(fed_integers((2, 5)), whole(1)), kind="i32")

    def top(form, inputs, dtype=np.float32, **more):
        many(suite, "TOPK_V2", form, inputs, 2, "TopKV2Options", dtypes=(dtype, np.int32), **more)

    top("ties", then_constants(values(ties), whole(3)))
    top("every_one", then_constants(fed((5,)), whole(5)))
    top("rank_4", then_constants(fed((2, 1, 2, 6)), whole(2)))
    top("runtime_count", then_fed(fed((2, 4)), whole(2)))
    top("int32", then_constants(fed_integers((2, 6)), whole(3)), np.int32, kind="i32")


def sums(suite):
    for form, (shape, axis) in AXES.items():
        flags = {"exclusive": form in ("inside", "last"), "reverse": form in ("first", "last")}
        suite.single("CUMSUM", form, then_constants(fed(shape), whole(axis)), "CumsumOptions", **flags)
    suite.single("CUMSUM", "runtime_axis", then_fed(fed((2, 3)), whole(1)), "CumsumOptions")
    suite.single("CUMSUM", "int32", then_constants(fed_integers((2, 3)), whole(0)), "CumsumOptions", kind="i32")
    for rank in (1, 2, 3, 4):
        shape = (2, 3, 1, 4)[-rank:]
        suite.single("LOG_SOFTMAX", f"rank_{rank}", fed(shape, low=-5, high=5), "LogSoftmaxOptions")
        suite.single("L2_NORMALIZATION", f"rank_{rank}", fed(shape), "L2NormOptions")
    tiny = np.float32([[0, 0, 0], [3e-8, 0, -4e-8]])
    suite.single("L2_NORMALIZATION", "tiny_rows", values(tiny), "L2NormOptions")


def one_hot(suite):
    def case(form, indices, axis=-1, on=1.5, off=-0.5, dtype=np.float32, fed_depth=False, **more):
        def inputs(model, draw):
            depth = (model.input if fed_depth else model.constant)(whole(4))
            return [model.input(indices), depth, model.constant(on, dtype), model.constant(off, dtype)]

        many(suite, "ONE_HOT", form, inputs, 1, "OneHotOptions", dtypes=(dtype,), axis=axis, **more)

    case("scalar_index", whole(2))
    case("first", int32([0, 3, 1]), 0)
    case("inside", int32([0, 3, 1], [2, 4, -1]), 1)
    case("int64_indices", int64(3, 0))
    case("runtime_depth", int32(1, 2), fed_depth=True)
    case("int32", int32(1, 2), on=7, off=-2, dtype=np.int32, kind="i32")
    case("bool", int32(1, 2), on=True, off=False, dtype=np.bool_)


def lstm(suite):
    def case(form, batches, depth, units, constant):
        def inputs(model, draw):
            add = model.constant if constant else model.input
            weights, bias = add(draw(4 * units, depth + units, low=-1, high=1)), add(draw(4 * units))
            before = [model.input(draw(batches, columns)) for columns in (depth, units, units)]
            return [before[0], before[1], weights, bias, before[2]]

        basic = {"kernelType": 1, "fusedActivationFunction": Activation.TANH, "cellClip": 0.0, "projClip": 0.0}
        build = lambda model, draw: model.operator("LSTM", inputs(model, draw), options("LSTMOptions", **basic), 2, 4)
        suite.case("LSTM", form, build)

    case("constant_weights", 2, 3, 5, True)
    case("runtime_weights", 1, 4, 2, False)


FAMILIES = (transpose, slices, pack, split, expand, blocks, gather, products, tiles, broadcasts, borders,
            reversals, searches, sums, one_hot, lstm)
