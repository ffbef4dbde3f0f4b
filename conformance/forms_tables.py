"""Operators that read or write at places which other tensors name: tables, scattered slices, segments, sequences."""

import numpy as np

from forms import fed_values, int32, then_constants
from forms_quantized import scaled
from forms_selection import many
from model_writer import options

PLAIN = ("plain", "default")  # the reference kernels lack SEGMENT_SUM
TYPES = {"f32": np.float32, "i32": np.int32, "i64": np.int64, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "bool": np.bool_}


def numbers(draw, *shape, dtype=np.float32):
    """Small numbers of a type, truth values included."""
    return draw(*shape, dtype=np.float64, low=0 if dtype == np.uint8 else -9, high=9).astype(dtype) if dtype != np.bool_ else draw(*shape) < 0


def embedding_lookup(suite):
    def case(form, ids, shape, dtype=np.float32, kind="f32", table="constant", version=1, **more):
        def build(model, draw):
            add = model.constant if table == "constant" else model.input
            rows = add(numbers(draw, *shape, dtype=dtype))
            lookup = model.input(ids) if more.get("fed", True) else model.constant(ids)
            return [model.operator("EMBEDDING_LOOKUP", [lookup, rows], version=version, dtype=dtype)]
        suite.case("EMBEDDING_LOOKUP", form, build, kind)

    case("plain", int32(3, 0, 3), (4, 5))
    case("one_row", int32(2), (3, 1))
    case("rank_3", int32(1, 0), (2, 3, 2))
    case("rank_5", int32(1, 1, 0), (2, 1, 3, 2, 2))
    case("runtime_table", int32(1, 2), (3, 4), table="runtime")
    case("constant_ids", int32(1, 2), (3, 4), fed=False)
    case("nothing", np.zeros(0, np.int32), (3, 4))
    case("float16", int32(1, 2), (3, 4), np.float16, version=4)
    for kind in ("i32", "i64", "bool"):
        case(f"type_{kind}", int32(2, 1, 1), (3, 4), TYPES[kind], kind, version=3)

    def stored(form, ids, shape, dtype, scales, output=np.float32, kind="f32", version=2):
        def build(model, draw):
            rows = scaled(model, model.constant(numbers(draw, *shape, dtype=dtype)), scales, np.zeros_like(scales))
            made = model.operator("EMBEDDING_LOOKUP", [model.input(ids), rows], version=version, dtype=output)
            return [made if output == np.float32 else scaled(model, made, scales)]
        suite.case("EMBEDDING_LOOKUP", form, build, kind)

    stored("int8_to_reals", int32(3, 1, 3), (4, 5), np.int8, 0.05)
    stored("int8_of_rank_3_to_reals", int32(1, 0), (2, 3, 2), np.int8, 0.01)
    stored("int8_by_row_to_reals", int32(3, 1, 0), (4, 5), np.int8, [0.05, 0.1, 0.2, 0.4], version=3)
    stored("uint8_to_reals", int32(3, 1), (4, 5), np.uint8, 0.25)
    stored("int8", int32(3, 1, 3), (4, 5), np.int8, 0.05, np.int8, "i8")


def dynamic_update_slice(suite):
    def case(form, shape, block, starts, dtype=np.float32, kind="f32", version=1, constant=False):
        def build(model, draw):
            operand, update = (model.input(numbers(draw, *extents, dtype=dtype)) for extents in (shape, block))
            starts_of = model.constant(starts) if constant else model.input(starts)
            return [model.operator("DYNAMIC_UPDATE_SLICE", [operand, update, starts_of], version=version, dtype=dtype)]
        suite.case("DYNAMIC_UPDATE_SLICE", form, build, kind)

    case("rank_1", (7,), (3,), int32(2))
    case("cache", (1, 6, 2, 3), (1, 1, 2, 3), int32(0, 4, 0, 0))
    case("clamped", (5, 4), (2, 3), int32(9, -3))
    case("clamped_int64", (5, 4), (2, 3), np.array([-9, 2], np.int64), version=2)
    case("two_axes", (4, 3, 5), (2, 3, 2), int32(1, 0, 3))
    case("rank_5", (2, 3, 1, 4, 2), (1, 2, 1, 2, 2), int32(1, 1, 0, 2, 0))
    case("whole", (2, 3), (2, 3), int32(1, 1))
    case("empty_block", (2, 3), (0, 3), int32(1, 1))
    case("scalar", (), (), np.zeros(0, np.int32))
    case("constant_starts", (5, 4), (2, 3), int32(2, 1), constant=True)
    case("float16", (5, 4), (2, 3), int32(2, 1), np.float16, version=4)
    for kind in ("i32", "i64", "bool", "i8", "i16"):
        case(f"type_{kind}", (5, 4), (2, 3), int32(3, 0), TYPES[kind], kind, version=3)


def scatter_nd(suite):
    def case(form, indices, inner, shape, dtype=np.float32, kind="f32", constant=True):
        def build(model, draw):
            updates = model.input(numbers(draw, *indices.shape[:-1], *inner, dtype=dtype))
            extents = model.constant(shape) if constant else model.input(shape)
            return [model.operator("SCATTER_ND", [model.input(indices), updates, extents], options("ScatterNdOptions"), dtype=dtype)]
        suite.case("SCATTER_ND", form, build, kind)

    case("elements", int32([4], [0], [2]), (), int32(6))
    case("named_twice", int32([1], [3], [1], [1]), (), int32(5))
    case("rows", int32([2], [0]), (3,), int32(4, 3))
    case("two_axes", int32([0, 1], [1, 0], [1, 0]), (3,), int32(2, 2, 3))
    case("rank_4", int32([0, 1, 1], [1, 0, 2]), (2,), int32(2, 2, 3, 2))
    case("indices_of_rank_3", int32([[0, 1], [1, 2]], [[0, 0], [1, 2]]), (), int32(2, 3))
    case("index_alone", int32(1), (3,), int32(2, 3))
    case("no_axis", np.zeros((2, 0), np.int32), (3,), int32(3))
    case("nothing", np.zeros((0, 1), np.int32), (), int32(4))
    case("runtime_shape", int32([2], [0]), (3,), int32(4, 3), constant=False)
    for kind in ("i32", "i64", "i8", "u8", "bool"):
        case(f"type_{kind}", int32([1], [0], [1]), (4,), int32(3, 4), TYPES[kind], kind)


def sparse_to_dense(suite):
    def case(form, indices, shape, values, dtype=np.float32, kind="f32", version=1, constant=True, default=()):
        def build(model, draw):
            extents = model.constant(shape) if constant else model.input(shape)
            given, rest = (model.input(numbers(draw, *extents, dtype=dtype)) for extents in (values, default))
            return [model.operator("SPARSE_TO_DENSE", [model.input(indices), extents, given, rest],
                                   options("SparseToDenseOptions", validateIndices=False), version, dtype=dtype)]
        suite.case("SPARSE_TO_DENSE", form, build, kind)

    case("list", int32(1, 4), int32(6), (2,))
    case("one_value", int32(1, 4), int32(6), ())
    case("one_index", np.array(3, np.int32), int32(5), ())
    case("one_index_of_list", int32(3), int32(5), (1,))
    case("rank_2", int32([0, 1], [2, 2]), int32(3, 4), (2,))
    case("rank_2_one_value", int32([0, 1], [2, 2]), int32(3, 4), ())
    case("rank_3", int32([0, 1, 0], [1, 2, 3]), int32(2, 3, 4), (2,))
    case("rank_4", int32([0, 1, 0, 1], [1, 2, 3, 0]), int32(2, 3, 4, 2), (2,))
    case("not_sorted", int32([2, 2], [0, 1], [0, 1]), int32(3, 4), (3,))
    case("default_of_list", int32(1, 4), int32(6), (2,), default=(1,))
    case("nothing", np.zeros((0, 2), np.int32), int32(2, 3), (0,))
    case("int64_indices", np.array([[0, 1], [2, 2]], np.int64), np.array([3, 4], np.int64), (2,))
    case("runtime_shape", int32([0, 1], [2, 2]), int32(3, 4), (2,), constant=False)
    for kind, version in (("i32", 1), ("i64", 2), ("i8", 3), ("u8", 3)):
        case(f"type_{kind}", int32([0, 1], [2, 2]), int32(3, 4), (2,), TYPES[kind], kind, version)


def reverse_sequence(suite):
    def case(form, shape, lengths, sequence, batch, dtype=np.float32, kind="f32"):
        inputs = lambda m, draw: [m.input(numbers(draw, *shape, dtype=dtype)), m.input(lengths)]
        suite.single("REVERSE_SEQUENCE", form, inputs, "ReverseSequenceOptions", kind, result=dtype, seqDim=sequence, batchDim=batch)

    case("time_in_batch", (2, 4, 3), int32(2, 4), 1, 0)
    case("batch_in_time", (4, 3, 2), int32(2, 1, 4), 0, 1)
    case("rank_2", (3, 5), int32(5, 0, 3), 1, 0)
    case("rank_2_back", (5, 3), int32(5, 1, 3), 0, 1)
    case("last_axis", (2, 3, 4), int32(1, 2, 3), 2, 1)
    case("apart", (3, 2, 4), int32(3, 2, 1, 0), 0, 2)
    case("apart_back", (4, 2, 3), int32(3, 2, 1, 0), 2, 0)
    case("rank_4", (2, 3, 2, 3), int32(3, 1), 1, 2)
    case("int64_lengths", (2, 4, 3), np.array([2, 4], np.int64), 1, 0)
    for kind in ("i32", "i64", "u8", "i16"):
        case(f"type_{kind}", (2, 4, 3), int32(2, 4), 1, 0, TYPES[kind], kind)


def unique(suite):
    def case(form, values, kind="f32", places=np.int32):
        code = {np.int32: 2, np.int64: 4}[places]
        many(suite, "UNIQUE", form, fed_values(values), 2, "UniqueOptions", kind, (values.dtype, places), idxOutType=code)

    case("reals", np.array([2, -1, 2, 0, -1, 7], np.float32))
    case("zeros", np.array([0, -0.0, 1, -0.0], np.float32))
    case("one", np.array([5], np.float32))
    case("all_the_same", np.array([5] * 4, np.float32))
    case("all_different", np.array([4, 3, 2, 1], np.float32))
    case("int64_places", np.array([2, -1, 2, 0], np.float32), places=np.int64)
    case("int32_int64_places", int32(3, 3, -7, 3), "i32", np.int64)
    extremes = {"i32": np.int32, "i64": np.int64, "i8": np.int8, "u8": np.uint8, "i16": np.int16}
    for kind, dtype in extremes.items():
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        case("extremes", np.array([most, least, 1, most, least, 2], dtype), kind)


def segments(suite):
    def case(form, shape, ids, dtype=np.float32, kind="f32"):
        inputs = lambda m, draw: [m.input(numbers(draw, *shape, dtype=dtype)), m.input(ids)]
        suite.single("SEGMENT_SUM", form, inputs, "SegmentSumOptions", kind, kernels=PLAIN, result=dtype)

    case("rank_1", (4,), int32(0, 0, 1, 2))
    case("rank_2", (4, 3), int32(0, 1, 1, 2))
    case("rank_4", (3, 2, 1, 2), int32(0, 1, 1))
    case("one", (3, 2), int32(0, 0, 0))
    case("each", (3, 2), int32(0, 1, 2))
    case("single", (1, 2), int32(0))
    case("rank_5", (3, 1, 2, 1, 2), int32(0, 0, 1))
    case("int32", (4, 3), int32(0, 1, 1, 1), np.int32, "i32")
    case("int32_rank_1", (5,), int32(0, 1, 1, 1, 2), np.int32, "i32")

    fixed = lambda m, draw: [m.input(draw(4, 2)), m.constant(int32(0, 0, 1, 1))]
    suite.single("SEGMENT_SUM", "constant_segments", fixed, "SegmentSumOptions", kernels=PLAIN)
    ids = int32(0, 0, 1)
    wraps = fed_values(int32(2**31 - 1, 2**31 - 1, 5), ids)
    suite.single("SEGMENT_SUM", "wraps", wraps, "SegmentSumOptions", "i32", kernels=PLAIN)
    exact = fed_values(np.array([1e8, 1, -1e8], np.float32), int32(0, 0, 0))
    suite.single("SEGMENT_SUM", "in_order", exact, "SegmentSumOptions", kernels=PLAIN)


def unsorted_segments(suite):
    def case(operator, form, shape, ids, count, dtype=np.float32, kind="f32", constant=True):
        number = np.array(count, np.int32)
        inputs = lambda m, draw: [m.input(numbers(draw, *shape, dtype=dtype)), m.input(ids),
                                  m.constant(number) if constant else m.input(number)]
        table = "".join(word.capitalize() for word in operator.split("_")) + "Options"
        suite.single(operator, form, inputs, table, kind, result=dtype)

    for operator in ("SUM", "PROD", "MAX", "MIN"):
        operator = f"UNSORTED_SEGMENT_{operator}"
        case(operator, "rank_1", (5,), int32(2, 0, 2, 1, 2), 3)
        case(operator, "rank_2", (4, 3), int32(1, 0, 1, 1), 2)
        case(operator, "rank_3", (3, 2, 2), int32(1, 0, 1), 2)
        case(operator, "empty_segment_int32", (3, 2), int32(3, 0, 3), 5, np.int32, "i32")
        case(operator, "negative_is_left_out", (4, 2), int32(1, -1, 0, -7), 2)
        case(operator, "segments_of_rank_2", (3, 2), int32([2, 0], [1, 1], [0, 2]), 3)
        case(operator, "segments_of_rank_2_of_3", (2, 2, 3), int32([2, 0], [1, 2]), 3)
        case(operator, "scalar", (), np.array(1, np.int32), 2, np.int32, "i32")
        case(operator, "runtime_count", (3, 2), int32(1, 0, 1), 2, constant=False)
        case(operator, "count_of_list", (3, 2), int32(1, 0, 1), [2])
        case(operator, "int32", (4, 3), int32(1, 0, 1, 1), 2, np.int32, "i32")
        case(operator, "int32_rank_1", (5,), int32(2, 0, 2, 1, 2), 3, np.int32, "i32")


def matrices(suite):
    types = [(f"type_{kind}", TYPES[kind], kind) for kind in ("i32", "i64", "i8", "u8", "i16")]

    def diagonal(form, shape, dtype=np.float32, kind="f32"):
        inputs = lambda m, draw: [m.input(numbers(draw, *shape, dtype=dtype))]
        suite.single("MATRIX_DIAG", form, inputs, "MatrixDiagOptions", kind, result=dtype)

    def replaced(form, shape, dtype=np.float32, kind="f32"):
        inputs = lambda m, draw: [m.input(numbers(draw, *extents, dtype=dtype)) for extents in (shape, (*shape[:-2], min(shape[-2:])))]
        suite.single("MATRIX_SET_DIAG", form, inputs, "MatrixSetDiagOptions", kind, result=dtype)

    for form, shape in (("rank_1", (3,)), ("rank_2", (2, 3)), ("rank_3", (2, 1, 4)), ("rank_4", (2, 2, 1, 3)), ("one", (1,)),
                        ("ones", (3, 1)), ("long", (9,))):
        diagonal(form, shape)
    for form, shape in (("square", (3, 3)), ("wide", (2, 4)), ("tall", (4, 2)), ("rank_3", (2, 3, 3)), ("rank_4", (2, 1, 2, 3)),
                        ("row", (1, 4)), ("column", (4, 1))):
        replaced(form, shape)
    # Kernels of LiteRT's write truths as integers of 32 bits, beyond the end.
    for form, dtype, kind in (*types, ("type_uint32", np.uint32, "i32")):
        diagonal(form, (2, 3), dtype, kind)
        replaced(form, (2, 3, 2), dtype, kind)


FAMILIES = (embedding_lookup, dynamic_update_slice, scatter_nd, sparse_to_dense, reverse_sequence, unique, segments,
            unsorted_segments, matrices)
