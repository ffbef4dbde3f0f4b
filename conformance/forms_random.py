"""Random numbers with seeds, and sums of rows of a table that a sparse tensor names."""

import numpy as np

from forms import int32
from forms_movement import PLAIN
from model_writer import TENSOR_TYPES, options


def numbers(suite):
    def case(operator, form, shape, seeds=(1, 2), results=1):
        def build(model, draw):
            table = options("RandomOptions", seed=seeds[0], seed2=seeds[1])
            return [model.operator(operator, [model.input(int32(*shape))], table) for _ in range(results)]
        suite.case(operator, form, build)

    for operator in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
        case(operator, "one", (1,))
        case(operator, "four", (4,))
        case(operator, "part_of_a_group", (7,))
        case(operator, "rank_0", ())
        case(operator, "rank_2", (3, 5))
        case(operator, "rank_4", (2, 1, 3, 2))
        case(operator, "many", (1000,))
        case(operator, "first_seed", (5,), (17, 0))
        case(operator, "second_seed", (5,), (0, 17))
        case(operator, "large_seeds", (5,), (2**40 + 3, 2**50 + 7))
        case(operator, "negative_seeds", (5,), (-1, -2))
        case(operator, "two_operators", (6,), results=2)


def draws(suite):
    def case(form, logits, count, seeds=(1, 2), dtype=np.int32):
        def build(model, draw):
            values = draw(*logits) if isinstance(logits, tuple) else np.array(logits, np.float32)
            table = options("RandomOptions", seed=seeds[0], seed2=seeds[1])
            return [model.operator("MULTINOMIAL", [model.input(values), model.input(np.array(count, np.int32))], table, dtype=dtype)]
        suite.case("MULTINOMIAL", form, build, "i32" if dtype == np.int32 else "i64")

    case("plain", (2, 3), 6)
    case("odd", (2, 3), 7)
    case("one_row", (1, 5), 20)
    case("one_class", (3, 1), 4)
    case("many_classes", (2, 100), 30)
    case("many_rows", (9, 4), 3)
    case("one_draw", (3, 4), 1)
    case("int64", (2, 3), 6, dtype=np.int64)
    case("first_seed", (2, 3), 6, (17, 0))
    case("second_seed", (2, 3), 6, (0, 17))
    case("large_seeds", (2, 3), 6, (2**40 + 3, 2**50 + 7))
    case("unlikely", [[0, -80, 3], [90, 0, 0]], 12)
    case("impossible", [[0, -np.inf, 1]], 12)


def bits(suite):
    def case(form, algorithm, state, shape=(5,), dtype=np.uint32):
        def build(model, draw):
            given = model.input(np.array(state, np.uint64))
            table = options("StablehloRngBitGeneratorOptions", algorithm=algorithm)
            made = model.operator("STABLEHLO_RNG_BIT_GENERATOR", [given], table, results=2, dtype=np.uint64)
            model.tensors[made[0]].shape, model.tensors[made[1]].shape = [len(state)], list(shape)
            model.tensors[made[1]].type = TENSOR_TYPES[np.dtype(dtype)]
            return made
        suite.case("STABLEHLO_RNG_BIT_GENERATOR", form, build, "i32")

    for name, algorithm, state in (("default", 0, (1, 2, 3)), ("philox", 1, (1, 2, 3)), ("threefry", 2, (1, 2))):
        for dtype in (np.int32, np.uint32, np.int64, np.uint64):
            case(f"{name}_{np.dtype(dtype).name}", algorithm, state, dtype=dtype)
        case(f"{name}_rank_2", algorithm, state, (3, 7))
    case("philox_two_words", 1, (5, 9))
    case("philox_end_of_counter", 1, (1, 2**64 - 1, 2**64 - 1), (9,))
    case("philox_large_state", 1, (2**60 + 5, 2**50 + 3, 2**40 + 1), (40,))
    case("threefry_end_of_counter", 2, (2**64 - 1, 2**64 - 1), (9,))


def sparse_lookups(suite):
    def case(form, ids, indices, shape, combiner=0, table=(5, 3), fixed=True):
        def build(model, draw):
            add = model.constant if fixed else model.input
            weights = draw(len(ids), low=0.2, high=2)
            inputs = [model.input(int32(*ids)), model.input(np.array(indices, np.int32).reshape(len(ids), len(shape))),
                      add(int32(*shape)), model.input(weights), add(draw(*table))]
            return [model.operator("EMBEDDING_LOOKUP_SPARSE", inputs, options("EmbeddingLookupSparseOptions", combiner=combiner))]
        suite.case("EMBEDDING_LOOKUP_SPARSE", form, build)

    for combiner, name in enumerate(("sum", "mean", "root")):
        case(name, (1, 3, 0, 4), [[0, 0], [2, 0], [2, 1], [2, 3]], (3, 4), combiner)
        case(f"{name}_rank_3", (1, 3, 0), [[0, 0, 0], [1, 0, 1], [1, 1, 0]], (2, 2, 2), combiner)
        case(f"{name}_not_sorted", (1, 2, 0), [[2, 0], [0, 0], [2, 1]], (3, 2), combiner)
        case(f"{name}_table_of_rank_3", (1, 3, 0), [[0, 0], [2, 0], [2, 1]], (3, 2), combiner, (4, 2, 3))
    case("nothing", (), [], (2, 2))
    case("one_axis", (2,), [[0]], (3,))
    case("runtime_shape", (1, 3, 0), [[0, 0], [2, 0], [2, 1]], (3, 2), fixed=False)


FAMILIES = (numbers, draws, bits, sparse_lookups)
