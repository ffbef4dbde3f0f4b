"""Weights of 4 bits that have a scale for each block of elements of a row, as language models are stored.

FULLY_CONNECTED is computed by TensorFlow Lite's own optimized kernel: the reference kernel takes the weights for ones with one
scale, and XNNPACK quantizes rows otherwise. The kernel leaves a fused activation out, so no case has one.
"""

import numpy as np

from forms import int32
from forms_quantized import packed
from model_writer import options, schema


def by_blocks(model, draw, shape, block):
    """A constant matrix of 4-bit integers with a float16 scale for each block of a row."""
    index = model.constant(packed(draw(*shape, dtype=np.float64, low=-8, high=8).astype(np.int8), 4))
    model.tensors[index].type, model.tensors[index].shape = schema.TensorType.INT4, list(shape)
    details, quantization = schema.BlockwiseQuantizationT(), schema.QuantizationParametersT()
    rows, depth = shape
    details.scales = model.constant(draw(rows, depth // block, low=0.02, high=0.3).astype(np.float16))
    details.zeroPoints, details.blockSize = -1, block
    quantization.details, quantization.detailsType = details, schema.QuantizationDetails.BlockwiseQuantization
    model.tensors[index].quantization = quantization
    return index


def fully_connected(suite):
    def case(form, rows, weights, block, bias=True, keep=True):
        def build(model, draw):
            inputs = [model.input(draw(*rows)), by_blocks(model, draw, weights, block)]
            if bias:
                inputs.append(model.constant(draw(weights[0])))
            chosen = options("FullyConnectedOptions", keepNumDims=keep)
            return [model.operator("FULLY_CONNECTED", inputs, chosen, version=5)]
        suite.case("FULLY_CONNECTED", f"blocks_{form}", build, kernels=("plain",))

    case("one_row", (1, 64), (8, 64), 32)
    case("rows", (2, 3, 64), (40, 64), 32)
    case("of_64_no_bias", (5, 128), (9, 128), 64, bias=False)
    case("one_for_each_row", (3, 32), (12, 32), 32, keep=False)
    case("of_128", (1, 4, 256), (16, 256), 128)
    case("long_rows", (7, 1024), (33, 1024), 32)


def embedding_lookup(suite):
    def case(form, ids, shape, block):
        def build(model, draw):
            rows = by_blocks(model, draw, shape, block)
            return [model.operator("EMBEDDING_LOOKUP", [model.input(ids), rows], version=4)]
        suite.case("EMBEDDING_LOOKUP", f"blocks_{form}", build)

    case("to_reals", int32(3, 0, 3, 4), (5, 64), 32)
    case("one_for_each_row", int32(1), (2, 32), 32)
    case("of_64", int32(6, 2), (7, 128), 64)


FAMILIES = (fully_connected, embedding_lookup)
