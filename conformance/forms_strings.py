"""Operators on strings: those that move them, comparisons, hash tables and sequences of words."""

import numpy as np

from forms import int32
from model_writer import TENSOR_TYPES, TEXT, options, schema


def texts(*values):
    """An array of strings."""
    return np.array(values, TEXT)


ALL_KERNELS = ("reference", "plain", "default")
PLAIN = ("plain", "default")  # for operators and versions that LiteRT registers in one set of kernels alone
SIX = np.array([[b"a", b"bc", b""], [b"d e", b"\xff\x00g", b"a longer text of several words"]], TEXT)
EMPTY = np.zeros((0, 3), TEXT)


def moves(suite):
    def case(operator, form, value, *others, table=None, version=1, fed=False, **fields):
        def build(model, draw):
            add = model.input if fed else model.constant
            chosen = options(table, **fields) if table else None
            inputs = [model.input(value), *(add(other) for other in others)]
            return [model.operator(operator, inputs, chosen, version, dtype=TEXT)]
        kernels = PLAIN if operator in ("SQUEEZE", "STRIDED_SLICE") else ALL_KERNELS
        suite.case(operator, f"strings_{form}", build, "text", kernels)

    case("RESHAPE", "list", SIX, int32(3, -1))
    case("RESHAPE", "run_time_shape", SIX, int32(6), fed=True)
    case("RESHAPE", "options", SIX, table="ReshapeOptions", newShape=[1, 6])
    case("RESHAPE", "shape_of_strings_is_ignored", SIX, texts(b"x"), table="ReshapeOptions", newShape=[2, 1, 3])
    case("RESHAPE", "scalar", texts(b"only one"), int32())
    case("SQUEEZE", "axis", SIX[None], table="SqueezeOptions", version=2, squeezeDims=[0])
    case("SQUEEZE", "all", SIX[None, :, :, None], table="SqueezeOptions", version=2)
    case("EXPAND_DIMS", "first", SIX, int32(0))
    case("EXPAND_DIMS", "last", SIX, np.int32(-1))
    case("EXPAND_DIMS", "run_time_axis", SIX, int32(1), fed=True)
    case("GATHER", "list", SIX[1], int32(2, 0, 0, 1), table="GatherOptions", version=4)
    case("GATHER", "table_of_indices", SIX[0], int32(2, 0, 0, 1).reshape(2, 2), table="GatherOptions", version=4)
    case("GATHER", "run_time_indices", SIX[0], int32(1, 1), table="GatherOptions", version=4, fed=True)
    case("GATHER", "wide_indices", SIX[1], np.array([1, 2]), table="GatherOptions", version=4)
    case("GATHER", "nothing", SIX[1], int32(), table="GatherOptions", version=4)
    case("GATHER_ND", "elements", SIX, int32(1, 0, 0, 2).reshape(2, 2), version=2)
    case("GATHER_ND", "rows", SIX, int32(1, 0, 1).reshape(3, 1), version=2)
    case("GATHER_ND", "run_time_indices", SIX, int32(1, 1).reshape(1, 2), version=2, fed=True)
    case("SLICE", "constants", SIX, int32(0, 1), int32(2, 2), version=2)
    case("SLICE", "to_the_end", SIX, int32(1, 0), int32(-1, -1), version=2)
    case("SLICE", "run_time_begin", SIX, int32(1, 1), int32(1, 2), version=2, fed=True)
    case("SLICE", "rank_4", SIX.reshape(1, 2, 1, 3), int32(0, 0, 0, 2), int32(1, 2, 1, 1), version=2)
    case("STRIDED_SLICE", "steps", SIX, int32(0, 0), int32(2, 3), int32(1, 2), table="StridedSliceOptions", version=5)
    case("STRIDED_SLICE", "back", SIX, int32(1, 2), int32(-3, -4), int32(-1, -1), table="StridedSliceOptions", version=5)
    case("STRIDED_SLICE", "one_row", SIX, int32(1, 0), int32(2, 3), int32(1, 1), table="StridedSliceOptions", version=5,
         shrinkAxisMask=1)
    case("STRIDED_SLICE", "run_time", SIX, int32(0, 1), int32(1, 3), int32(1, 1), table="StridedSliceOptions", version=5,
         fed=True)
    case("TILE", "both_axes", SIX, int32(2, 2), version=2)
    case("TILE", "run_time", SIX[0], int32(3), version=2, fed=True)
    case("TILE", "nothing", SIX, int32(0, 2), version=2)

    def filled(form, extents):
        def build(model, draw):
            return [model.operator("FILL", [model.input(extents), model.constant(np.array(b"same", TEXT))], version=2, dtype=TEXT)]
        suite.case("FILL", f"strings_{form}", build, "text")

    filled("table", int32(2, 3))
    filled("list", int32(3))
    filled("nothing", int32(0, 3))


def relations(suite):
    other = SIX.copy()
    other[0, 1], other[1, 1], other[1, 2] = b"bd", b"\xff\x00h", b"a longer text of several word"
    forms = {
        "same": (SIX, SIX), "some": (SIX, other), "one": (SIX, texts(b"a")), "row": (other, SIX[:1]), "rank_1": (SIX, other[1]),
        "nothing": (EMPTY, EMPTY), "scalars": (np.array(b"x", TEXT), np.array(b"x", TEXT)),
    }
    for operator, table in ("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"):
        for form, (left, right) in forms.items():
            def build(model, draw):
                add = model.constant if form == "scalars" else model.input
                inputs = [add(left), add(right)]
                return [model.operator(operator, inputs, options(table), 3, dtype=np.bool_)]
            suite.case(operator, f"strings_{form}", build, "text")

    def constant(model, draw):
        inputs = [model.input(SIX), model.constant(texts(b"bc"))]
        return [model.operator("EQUAL", inputs, options("EqualOptions"), 3, dtype=np.bool_)]
    suite.case("EQUAL", "strings_constant", constant, "text")


def extents(suite):
    def case(operator, table, value):
        def build(model, draw):
            return [model.operator(operator, [model.input(value)], options(table, **fields), dtype=np.int32)]
        fields = {"outType": 2} if operator == "SHAPE" else {}
        suite.case(operator, f"strings_rank_{value.ndim}", build, "text")

    for value in SIX, SIX[0], SIX[None, None]:
        case("SHAPE", "ShapeOptions", value)
        case("RANK", "RankOptions", value)


def table(model, number, keys, values):
    """The handle of the hash table with this number, from the type of `keys` to that of `values`."""
    key, value = (TENSOR_TYPES[side.dtype] for side in (keys, values))
    chosen = options("HashtableOptions", tableId=number, keyDtype=key, valueDtype=value)
    index = model.operator("HASHTABLE", [], chosen, dtype=np.int32, shape=(1,))
    model.tensors[index].type = schema.TensorType.RESOURCE
    return index


def fill(model, number, keys, values, fed=False):
    """Fills a hash table."""
    add = model.input if fed else model.constant
    inputs = [table(model, number, keys, values), add(keys), add(values)]
    model.operator("HASHTABLE_IMPORT", inputs, options("HashtableImportOptions"), results=0)


def fill_once(model, *fills):
    """Fills hash tables in a subgraph that runs once."""
    def setup(inner):
        for number, keys, values in fills:
            fill(inner, number, keys, values)
        return []
    chosen = options("CallOnceOptions", initSubgraphIndex=model.subgraph(setup))
    model.operator("CALL_ONCE", [], chosen, results=0)


def find(model, handle, keys, default):
    inputs = [handle, keys, model.constant(default)]
    return model.operator("HASHTABLE_FIND", inputs, options("HashtableFindOptions"), dtype=default.dtype)


def size(model, handle):
    return model.operator("HASHTABLE_SIZE", [handle], options("HashtableSizeOptions"), dtype=np.int64)


WORDS, NUMBERS = texts(b"one", b"two", b"", b"f\xf6ur"), np.array([1, -2, 0, 1 << 40])


def hash_tables(suite):
    ids, words = (NUMBERS, WORDS), (WORDS, NUMBERS)
    unknown = {"ids": texts(b"unknown"), "words": np.array([-1])}
    wanted = {"ids": np.array([1, 7, 1 << 40, -2, 1]), "words": texts(b"one", b"seven", b"", b"f\xf6ur", b"one")}

    for side, pair in ("ids", ids), ("words", words):
        keys, values = pair

        def case(operator, form, build):
            suite.case(operator, f"{side}_{form}", build, "text", PLAIN)

        def plus(model, count):
            return [model.operator("ADD", [count, model.input(np.array([5]))], options("AddOptions"), dtype=np.int64)]

        def once(model, draw):
            fill_once(model, (3, *pair))
            return [find(model, table(model, 3, *pair), model.input(wanted[side]), unknown[side])]
        case("HASHTABLE", "once", once)

        def constant_keys(model, draw):
            fill_once(model, (3, *pair))
            found = find(model, table(model, 3, *pair), model.constant(wanted[side]), unknown[side])
            return [found, *plus(model, size(model, table(model, 3, *pair)))]
        case("HASHTABLE_FIND", "constant_keys", constant_keys)

        def table_of_keys(model, draw):
            fill_once(model, (3, *pair))
            keys = model.input(wanted[side][:4].reshape(2, 1, 2))
            return [find(model, table(model, 3, *pair), keys, unknown[side])]
        case("HASHTABLE_FIND", "table_of_keys", table_of_keys)

        def no_keys(model, draw):
            fill_once(model, (3, *pair))
            return [find(model, table(model, 3, *pair), model.input(wanted[side][:0]), unknown[side])]
        case("HASHTABLE_FIND", "no_keys", no_keys)

        def several_defaults(model, draw):
            fill_once(model, (3, *pair))
            return [find(model, table(model, 3, *pair), model.input(wanted[side]), np.repeat(unknown[side], 3))]
        case("HASHTABLE_FIND", "several_defaults", several_defaults)

        def equal_keys(model, draw):
            fill_once(model, (3, np.concatenate([keys, keys[::-1]]), np.concatenate([values, values])))
            handle = table(model, 3, *pair)
            return [find(model, handle, model.input(wanted[side]), unknown[side]), size(model, handle)]
        case("HASHTABLE_IMPORT", "equal_keys", equal_keys)

        def twice(model, draw):
            fill_once(model, (3, keys[:2], values[:2]), (3, keys, values))
            handle = table(model, 3, *pair)
            return [find(model, handle, model.input(wanted[side]), unknown[side]), size(model, handle)]
        case("HASHTABLE_IMPORT", "twice", twice)

        def fed(model, draw):
            fill(model, 3, keys, values, fed=True)
            return [find(model, table(model, 3, *pair), model.input(wanted[side]), unknown[side])]
        case("HASHTABLE_IMPORT", "fed", fed)

        def in_rows(model, draw):
            fill_once(model, (3, keys.reshape(2, 2), values.reshape(2, 2)))
            return [find(model, table(model, 3, *pair), model.input(wanted[side]), unknown[side])]
        case("HASHTABLE_IMPORT", "in_rows", in_rows)

        def nothing(model, draw):
            fill_once(model, (3, keys[:0], values[:0]))
            handle = table(model, 3, *pair)
            return [find(model, handle, model.input(wanted[side]), unknown[side]), size(model, handle)]
        case("HASHTABLE_IMPORT", "nothing", nothing)

        def filled(model, draw):
            fill_once(model, (3, *pair))
            return plus(model, size(model, table(model, 3, *pair)))
        case("HASHTABLE_SIZE", "filled", filled)

        def not_filled(model, draw):
            return plus(model, size(model, table(model, 3, *pair)))
        case("HASHTABLE_SIZE", "not_filled", not_filled)

    def there_and_back(model, draw):
        fill_once(model, (0, *ids), (1, *words))
        found = find(model, table(model, 0, *ids), model.input(wanted["ids"]), unknown["ids"])
        return [found, find(model, table(model, 1, *words), found, unknown["words"])]
    suite.case("HASHTABLE", "there_and_back", there_and_back, "text", PLAIN)

    def negative_number(model, draw):
        fill_once(model, (-5, *ids))
        return [find(model, table(model, -5, *ids), model.input(wanted["ids"]), unknown["ids"])]
    suite.case("HASHTABLE", "negative_number", negative_number, "text", PLAIN)

    def in_a_branch(model, draw):
        fill_once(model, (2, *ids))

        def branch(default):
            def build(inner):
                return [find(inner, table(inner, 2, *ids), inner.input(wanted["ids"]), default)]
            return model.subgraph(build)

        chosen = options("IfOptions", thenSubgraphIndex=branch(texts(b"then")), elseSubgraphIndex=branch(texts(b"else")))
        inputs = [model.input(np.array(False)), model.input(wanted["ids"])]
        return [model.operator("IF", inputs, chosen, dtype=TEXT)]
    suite.case("HASHTABLE", "in_a_branch", in_a_branch, "text", PLAIN)


def lookups(suite):
    def case(form, lookup, keys, values, fed=False):
        def build(model, draw):
            add = model.input if fed else model.constant
            inputs = [model.input(lookup), add(keys), add(values)]
            rows, hits = model.operator("HASHTABLE_LOOKUP", inputs, results=2, dtype=values.dtype)
            model.tensors[hits].type = schema.TensorType.UINT8
            return [rows, hits]
        suite.case("HASHTABLE_LOOKUP", form, build, "text" if values.dtype == TEXT else "f32")

    keys, wanted = int32(-3, 1, 4, 9), int32(9, 1, 2, -3, 1)
    rows = np.random.RandomState(7).uniform(-2, 2, (4, 3)).astype(np.float32)
    case("strings", wanted, keys, WORDS)
    case("strings_fed", wanted, keys, WORDS, fed=True)
    case("strings_none_found", int32(7, 8), keys, WORDS)
    case("list", wanted, keys, rows[:, 0])
    case("rows", wanted, keys, rows)
    case("rows_fed", wanted, keys, rows, fed=True)
    case("rank_4", wanted, keys, rows.reshape(4, 1, 3, 1))
    case("unsorted", wanted, keys[::-1].copy(), rows)
    case("equal_keys", int32(1, 4), int32(1, 1, 1, 4), rows)
    case("nothing", int32(), keys, rows)
    case("one_key", int32(5, 6), int32(5), rows[:1])
    for dtype in np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_:
        case(f"type_{np.dtype(dtype).name}", wanted, keys, (rows * 9).astype(dtype))


SEEDS = np.array([[0.123, 0.456, 2.5], [-0.321, 1.234, -0.0], [5.678, -4.321, 1e20], [0.0, 1e-30, 9.75]], np.float32)


def projections(suite):
    def case(form, seeds, value, weights=None, dense=False, fed=False):
        def build(model, draw):
            add = model.input if fed else model.constant
            inputs = [add(seeds), model.input(value)] + ([] if weights is None else [add(weights)])
            return [model.operator("LSH_PROJECTION", inputs, options("LSHProjectionOptions", type=2 if dense else 1),
                                   dtype=np.int32)]
        suite.case("LSH_PROJECTION", form, build, "i32")

    numbers = np.array([12345, 54321, 67890, 9876, -12345678, -87654321], np.int32)
    weights = np.array([0.12, 0.34, -0.56, 0.67, 0.78, 0.9], np.float32)
    case("sparse", SEEDS, numbers)
    case("sparse_weights", SEEDS, numbers, weights)
    case("dense", SEEDS, numbers, dense=True)
    case("dense_weights", SEEDS, numbers, weights, dense=True)
    case("fed", SEEDS, numbers, weights, fed=True)
    case("one_bit", SEEDS[:, :1], numbers)
    case("many_bits", np.linspace(-3, 5, 62).astype(np.float32).reshape(2, 31), numbers, weights)
    case("all_bits", np.linspace(-3, 5, 64).astype(np.float32).reshape(2, 32), numbers, weights)
    case("strings", SEEDS, texts(b"a", b"b", b"longer"))
    # The fingerprint has forms of its own for 0 to 3, 4 to 7, 8 to 16, 17 to 32, 33 to 64 and more bytes.
    for length in 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 20, 28, 29, 44, 60, 61, 80, 124, 125, 200:
        value = np.arange(3 * length, dtype=np.uint8).reshape(3, length) * 7
        case(f"rows_of_{length}", SEEDS, value, dense=length % 2 == 0)
    case("rank_4", SEEDS, np.arange(24, dtype=np.int64).reshape(3, 2, 1, 4), weights[:3])
    case("halves", SEEDS, np.arange(6, dtype=np.float16).reshape(3, 2), dense=True)


def sequences(suite):
    def case(form, sentence, words, skipped, shorter=False):
        def build(model, draw):
            chosen = options("SkipGramOptions", ngramSize=words, maxSkipSize=skipped, includeAllNgrams=shorter)
            return [model.operator("SKIP_GRAM", [model.input(sentence)], chosen, dtype=TEXT)]
        suite.case("SKIP_GRAM", form, build, "text")

    fox = texts(b"The quick\t brown fox\n jumps over the lazy dog!")
    case("pairs", fox, 2, 0)
    case("pairs_skip_1", fox, 2, 1)
    case("pairs_skip_9", fox, 2, 9)
    case("triples_skip_2", fox, 3, 2)
    case("single", fox, 1, 5)
    case("all_of_a_sentence", fox, 9, 0)
    case("up_to_pairs", fox, 2, 1, True)
    case("up_to_triples", fox, 3, 1, True)
    case("up_to_fours", texts(b"a b c d"), 4, 3, True)
    case("too_few_words", texts(b"a b"), 3, 1, True)
    case("no_words_asked_for", texts(b"a b"), 0, 1, True)
    case("empty", texts(b""), 1, 1)
    case("white_space_in_front", texts(b" a b c"), 1, 0)
    case("white_space_and_one_word", texts(b" a"), 1, 0)
    case("white_space_at_the_end", texts(b"a  b  "), 1, 0)
    case("kinds_of_white_space", texts(b"a\x0bb\x0cc\rd\xa0e"), 2, 0)
    case("first_of_two", texts(b"a b", b"c d"), 2, 0)
    case("table", np.array([[b"a b c"]], TEXT), 2, 1)


FAMILIES = (moves, relations, extents, hash_tables, lookups, projections, sequences)
