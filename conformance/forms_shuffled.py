"""FULLY_CONNECTED with shuffled weights: blocks of 4 rows of 16 elements, one after the other, stored as bytes plus 128."""

import numpy as np

from forms_quantized import scaled
from model_writer import Activation, options, schema


ALL_KERNELS = ("reference", "plain", "default")


def fully_connected(suite):
    def case(form, rows, outputs, depth, activation=Activation.NONE, scale=0.002, bias=3000):
        def build(model, draw):
            numbers = lambda low, high, *shape: draw(*shape, dtype=np.float64, low=low, high=high)
            data = scaled(model, model.input(numbers(0, 256, rows, depth).astype(np.uint8)), [0.02], [128])
            weights = numbers(-128, 128, outputs, depth).astype(np.int8)
            blocks = weights.reshape(outputs // 4, 4, depth // 16, 16).transpose(0, 2, 1, 3)
            stored = model.constant(np.ascontiguousarray(blocks).view(np.uint8).reshape(outputs, depth))
            weights = scaled(model, stored, [0.01], [128])
            biases = scaled(model, model.constant(numbers(-bias, bias, outputs).astype(np.int32)), [0.02 * 0.01])
            chosen = options("FullyConnectedOptions", weightsFormat=1, fusedActivationFunction=activation)
            result, workspace = model.operator(
                "FULLY_CONNECTED", [data, weights, biases], chosen, version=2, results=2, dtype=np.int16,
                shape=(rows, outputs))
            scaled(model, result, [scale], [0])
            model.tensors[workspace].type, model.tensors[workspace].shape = schema.TensorType.UINT8, [rows, depth]
            return [result, workspace]
        # The optimized kernel leaves a fused activation out.
        kernels = ALL_KERNELS if activation == Activation.NONE else ("reference",)
        suite.case("FULLY_CONNECTED", f"shuffled_{form}", build, kind="u8", kernels=kernels)

    case("row", 1, 4, 16)
    case("row_of_blocks", 1, 12, 64)
    case("four_rows", 4, 8, 48)
    case("relu6", 4, 16, 32, Activation.RELU6)
    case("saturated", 1, 24, 32, scale=0.0001)


FAMILIES = (fully_connected,)
