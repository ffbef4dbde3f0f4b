"""Constants in sparse form, and operators that the file also describes by a subgraph."""

import numpy as np

from forms_flow import add, multiply, real
from forms_movement import PLAIN
from model_writer import options, schema

DENSE, SPARSE = schema.DimensionType.DENSE, schema.DimensionType.SPARSE_CSR
LISTS = {8: ("Uint8VectorT", "Uint8Vector"), 16: ("Uint16VectorT", "Uint16Vector"), 32: ("Int32VectorT", "Int32Vector")}


def index_list(values, bits):
    table, member = LISTS[bits]
    result = getattr(schema, table)()
    result.values = [int(value) for value in values]
    return result, getattr(schema.SparseIndexVector, member)


def sparse(model, value, order, formats, blocks=(), bits=8):
    """A constant in sparse form. `order` and `formats` have an entry for each level; `blocks` are (axis, extent)."""
    rank = value.ndim
    extents = [*value.shape, *(extent for _, extent in blocks)]
    for axis, extent in blocks:
        extents[axis] //= extent
    whole = value.reshape([part for axis in range(rank) for part in
                           (extents[axis], dict(blocks).get(axis, 1))])
    whole = whole.transpose([2 * axis for axis in range(rank)] + [2 * axis + 1 for axis, _ in blocks] +
                            [2 * axis + 1 for axis in range(rank) if axis not in dict(blocks)])
    whole = whole.reshape(extents).transpose(order)
    levels, nodes = [], [()]  # a node is a path of indices
    for level, form in enumerate(formats):
        metadata, extent = schema.DimensionMetadataT(), whole.shape[level]
        metadata.format, below = form, []
        if form == DENSE:
            metadata.denseSize = extent
            below = [(*node, index) for node in nodes for index in range(extent)]
        else:
            segments, indices = [0], []
            for node in nodes:
                kept = [index for index in range(extent) if np.any(whole[(*node, index)])]
                indices += kept
                below += [(*node, index) for index in kept]
                segments.append(len(indices))
            metadata.arraySegments, metadata.arraySegmentsType = index_list(segments, bits)
            metadata.arrayIndices, metadata.arrayIndicesType = index_list(indices, bits)
        levels.append(metadata)
        nodes = below
    values = np.array([whole[node] for node in nodes], value.dtype)
    index = model.tensor(value.shape, value.dtype, values)
    table = schema.SparsityParametersT()
    table.traversalOrder, table.blockMap, table.dimMetadata = list(order), [axis for axis, _ in blocks], levels
    model.tensors[index].sparsity = table
    return index


def thinned(draw, *shape, dtype=np.float32, share=0.3):
    values = draw(*shape, dtype=np.float64, low=-9, high=9)
    return np.where(draw(*shape, low=0, high=1) < share, values, 0).astype(dtype)


def densify(suite):
    def case(form, shape, order, formats, blocks=(), bits=8, dtype=np.float32, kind="f32"):
        def build(model, draw):
            value = thinned(draw, *shape, dtype=dtype)
            weights = model.operator("DENSIFY", [sparse(model, value, order, formats, blocks, bits)], options("DensifyOptions"), dtype=dtype)
            x = model.input(draw(*shape).astype(dtype) if np.dtype(dtype).kind == "f" else np.ones(shape, dtype))
            if dtype != np.float32:
                return [model.operator("CONCATENATION", [weights, x], options("ConcatenationOptions", axis=0), dtype=dtype)]
            return [add(model, weights, x)]
        suite.case("DENSIFY", form, build, kind, PLAIN)

    rows = ([0, 1], [DENSE, SPARSE])
    for bits in (8, 16, 32):
        case(f"rows_{bits}_bits", (4, 6), *rows, bits=bits)
    case("columns", (4, 6), [1, 0], [DENSE, SPARSE])
    case("both_axes", (4, 6), [0, 1], [SPARSE, SPARSE])
    case("both_axes_columns_first", (4, 6), [1, 0], [SPARSE, SPARSE])
    case("all_dense", (4, 6), [0, 1], [DENSE, DENSE])
    case("rank_1", (9,), [0], [SPARSE])
    case("rank_3", (3, 2, 5), [0, 1, 2], [DENSE, DENSE, SPARSE])
    case("rank_4", (2, 3, 2, 4), [0, 1, 2, 3], [DENSE, SPARSE, DENSE, SPARSE])
    case("rank_4_other_order", (2, 3, 2, 4), [3, 0, 2, 1], [DENSE, SPARSE, SPARSE, DENSE])
    case("blocks_of_4", (4, 8), [0, 1, 2], [DENSE, SPARSE, DENSE], [(1, 4)])
    case("blocks_of_2_by_2", (4, 6), [0, 1, 2, 3], [DENSE, SPARSE, DENSE, DENSE], [(0, 2), (1, 2)])
    case("blocks_of_16", (3, 32), [0, 1, 2], [DENSE, SPARSE, DENSE], [(1, 16)])
    case("blocks_of_rank_4", (4, 1, 1, 8), [0, 1, 2, 3, 4], [DENSE, DENSE, DENSE, SPARSE, DENSE], [(3, 4)])
    case("float16", (4, 6), *rows, dtype=np.float16)
    case("int8", (4, 6), *rows, dtype=np.int8, kind="i8")

    def weights(form, shape, order, formats, blocks=()):
        def build(model, draw):
            w = sparse(model, thinned(draw, *shape), order, formats, blocks)
            table = options("FullyConnectedOptions", keepNumDims=False)
            return [model.operator("FULLY_CONNECTED", [model.input(draw(3, shape[1])), w, model.constant(draw(shape[0]))], table)]
        suite.case("DENSIFY", form, build, kernels=PLAIN)

    weights("none_but_weights", (4, 6), *rows)
    weights("none_but_weights_in_blocks", (4, 8), [0, 1, 2], [DENSE, SPARSE, DENSE], [(1, 4)])


def composites(suite):
    def composed(model, inputs, build, name="program.own", results=1, attributes=b""):
        table = options("StableHLOCompositeOptions", name=name, decompositionSubgraphIndex=model.subgraph(build),
                        version=1)
        table.compositeAttributes = list(attributes)
        return model.operator("STABLEHLO_COMPOSITE", inputs, table, results=results)

    def twice_and_more(inner):
        x, y = inner.input(real(2, 3)), inner.input(real(3))
        return [multiply(inner, add(inner, x, x), y)]

    def normalized(inner):
        x = inner.input(real(2, 3))
        squares = multiply(inner, x, x)
        mean = inner.operator("MEAN", [squares, inner.constant(np.array([1], np.int32))], options("ReducerOptions", keepDims=True))
        return [multiply(inner, x, inner.operator("RSQRT", [add(inner, mean, inner.constant(np.float32(1e-6)))]))]

    def case(form, build):
        suite.case("STABLEHLO_COMPOSITE", form, build)

    case("plain", lambda m, draw: [composed(m, [m.input(draw(2, 3)), m.input(draw(3))], twice_and_more)])
    case("constant_input", lambda m, draw: [composed(m, [m.input(draw(2, 3)), m.constant(draw(3))], twice_and_more)])
    case("rms_norm", lambda m, draw: [composed(m, [m.input(draw(2, 3))], normalized, "odml.rms_norm", attributes=b"\x01\x02")])
    case("result_is_used", lambda m, draw: [m.operator("RELU", [composed(m, [m.input(draw(2, 3))], normalized)])])
    case("after_others", lambda m, draw: [composed(m, [m.operator("RELU", [m.input(draw(2, 3))])], normalized)])

    def one_twice(model, draw):
        x = model.input(draw(2, 3))
        first = composed(model, [x], normalized)
        return [first, composed(model, [add(model, x, first)], normalized)]

    case("two", one_twice)

    def two_results(inner):
        x = inner.input(real(2, 3))
        return [add(inner, x, x), inner.operator("RELU", [x])]

    case("two_results", lambda m, draw: composed(m, [m.input(draw(2, 3))], two_results, results=2))

    def nested(inner):
        x = inner.input(real(2, 3))
        return [add(inner, composed(inner, [x], normalized), x)]

    case("nested", lambda m, draw: [composed(m, [m.input(draw(2, 3))], nested)])

    def with_weights(inner):
        rs = np.random.RandomState(3)
        w = inner.constant(rs.uniform(-1, 1, (4, 3)).astype(np.float32))
        table = options("FullyConnectedOptions", keepNumDims=False)
        return [inner.operator("FULLY_CONNECTED", [inner.input(real(2, 3)), w, -1], table)]

    case("weights", lambda m, draw: [composed(m, [m.input(draw(2, 3))], with_weights)])

    def reshaped(inner):
        x = inner.input(real(2, 3))
        return [inner.operator("RESHAPE", [x, inner.constant(np.array([3, 2], np.int32))])]

    case("other_shape", lambda m, draw: [composed(m, [m.input(draw(2, 3))], reshaped)])

    def halves(inner):
        x = inner.input(real(2, 3))
        table = options("SplitOptions", numSplits=3)
        return inner.operator("SPLIT", [inner.constant(np.array(1, np.int32)), x], table, results=3)

    case("three_results", lambda m, draw: composed(m, [m.input(draw(2, 3))], halves, results=3))

    def same_input_twice(model, draw):
        x = model.input(draw(3, 3))
        def both(inner):
            a, b = inner.input(real(3, 3)), inner.input(real(3, 3))
            return [multiply(inner, a, b)]
        return [composed(model, [x, x], both)]

    case("same_input_twice", same_input_twice)

    def called(model, inputs, index, results=1):
        table = options("StableHLOCompositeOptions", name="program.own", decompositionSubgraphIndex=index, version=1)
        table.compositeAttributes = []
        return model.operator("STABLEHLO_COMPOSITE", inputs, table, results=results)

    def one_subgraph_twice(model, draw):
        x, y, index = model.input(draw(2, 3)), model.input(draw(4, 3)), model.subgraph(scaled)
        return [called(model, [x], index), model.operator("RELU", [called(model, [y], index)])]

    def scaled(inner):
        x, factors = inner.input(real(2, 3)), inner.constant(np.array([0.5, -2, 3], np.float32))
        return [add(inner, multiply(inner, x, factors), inner.constant(np.float32(0.25)))]

    case("own_constants", lambda m, draw: [m.operator("RELU", [composed(m, [m.input(draw(2, 3))], scaled)])])
    case("one_subgraph_twice", one_subgraph_twice)

    def nested_twice(inner):
        x = inner.input(real(2, 3))
        first = composed(inner, [x], scaled, "inner")
        return [add(inner, composed(inner, [first], normalized, "inner"), x)]

    def nested_and_more(model, draw):
        return [model.operator("RELU", [composed(model, [model.input(draw(2, 3))], nested_twice, "outer")])]

    case("nested_twice", nested_and_more)

    def passed_on(inner):
        x = inner.input(real(2, 3))
        return [x, add(inner, x, x)]

    def constants_too(inner):
        x, one = inner.input(real(2, 3)), inner.constant(np.array([1, 2, 3], np.float32))
        return [one, multiply(inner, x, one)]

    # There is no case of a subgraph that returns a tensor twice: LiteRT leaves one of the results without a value.
    for form, inside in (("input_passed_on", passed_on), ("constant_result", constants_too)):
        case(form, lambda m, draw, inside=inside: composed(m, [m.input(draw(2, 3))], inside, results=2))

        def then_more(model, draw, inside=inside):
            one, other = composed(model, [model.input(draw(2, 3))], inside, results=2)
            return [model.operator("RELU", [add(model, one, other)])]

        case(f"{form}_then_more", then_more)

    def passed_on_twice(model, draw):
        one, _ = composed(model, [model.input(draw(2, 3))], passed_on, results=2)
        two, three = composed(model, [one], passed_on, results=2)
        return [multiply(model, two, three)]

    case("passed_on_twice", passed_on_twice)


FAMILIES = (densify, composites)
