"""The models that the tests use, as bytes. Each exists to show one thing."""

import numpy as np

import writer
from writer import Operator, Signature, Subgraph, Tensor


def relu():
    """`y = relu(x)` of 2×3 floats; no signature."""
    return writer.model([Subgraph([Tensor("x", [2, 3]), Tensor("y", [2, 3])], [Operator(writer.RELU, [0], [1])], [0], [1])])


def chain():
    """`b = relu(a)`, `d = b × c` with a constant `c`: tensors of every kind. Extent 0 is open."""
    weights = np.array([1, 2, 3], np.float32).tobytes()
    tensors = [
        Tensor("a", [1, 3], signature=[-1, 3]), Tensor("b", [1, 3], signature=[-1, 3]), Tensor("c", [3], data=weights),
        Tensor("d", [1, 3], signature=[-1, 3]),
    ]
    operators = [Operator(writer.RELU, [0], [1]), Operator(writer.MUL, [1, 2], [3])]
    signature = Signature("serving_default", {"in": 0}, {"out": 3})
    return writer.model([Subgraph(tensors, operators, [0], [3])], [signature])


def signatures():
    """`add` and `multiply` of two inputs, in a subgraph each."""
    def subgraph(code, name):
        tensors = [Tensor("left", [2]), Tensor("right", [2]), Tensor("result", [2])]
        return Subgraph(tensors, [Operator(code, [0, 1], [2])], [0, 1], [2], name)
    return writer.model(
        [subgraph(writer.ADD, "main"), subgraph(writer.MUL, "other")],
        [
            Signature("multiply", {"y": 1, "x": 0}, {"product": 2}, 1),
            Signature("add", {"y": 1, "x": 0}, {"sum": 2}, 0),
        ],
    )


def quantized():
    """`y = relu(x)` of uint8, with scale 0.5 and zero point 10."""
    tensors = [Tensor(name, [1, 4], "uint8", scales=[0.5], zero_points=[10]) for name in "xy"]
    return writer.model([Subgraph(tensors, [Operator(writer.RELU, [0], [1])], [0], [1])])


def repeated(signature=None):
    """`y = relu(x)` twice, with the same names; for a signature once."""
    names = ["x", "y", "x", "y"]
    operators = [Operator(writer.RELU, [0], [1]), Operator(writer.RELU, [2], [3])]
    inputs, outputs = ([0], [1]) if signature else ([0, 2], [1, 3])
    subgraph = Subgraph([Tensor(name, [2]) for name in names], operators[:len(inputs)], inputs, outputs)
    return writer.model([subgraph], [signature] if signature else [])


def custom(name="Unheard"):
    """A custom operator that nobody registers."""
    tensors = [Tensor("x", [2]), Tensor("y", [2])]
    return writer.model([Subgraph(tensors, [Operator(name, [0], [1])], [0], [1])])


def unknown():
    """A builtin operator in a version that does not exist."""
    tensors = [Tensor("x", [2]), Tensor("y", [2])]
    return writer.model([Subgraph(tensors, [Operator(writer.RELU, [0], [1], 99)], [0], [1])])


def unused():
    """Two inputs, of which nothing reads the second."""
    tensors = [Tensor("x", [2]), Tensor("z", [2]), Tensor("y", [2])]
    return writer.model([Subgraph(tensors, [Operator(writer.RELU, [0], [2])], [0, 1], [2])])


def passed(dtype, shape=(2, 3)):
    """An input that is the output, of any type."""
    signature = Signature("same", {"x": 0}, {"y": 0})
    return writer.model([Subgraph([Tensor("x", list(shape), dtype)], [], [0], [0])], [signature])


def twice():
    """`y = x + x`, where both inputs are one tensor."""
    signature = Signature("twice", {"left": 0, "right": 0}, {"y": 1})
    subgraph = Subgraph([Tensor("x", [2]), Tensor("y", [2])], [Operator(writer.ADD, [0, 0], [1])], [0, 0], [1])
    return writer.model([subgraph], [signature])


def with_data():
    """`y = relu(x)`, where the file has data for the input."""
    data = np.array([1, -2], np.float32).tobytes()
    tensors = [Tensor("x", [2], data=data), Tensor("y", [2])]
    return writer.model([Subgraph(tensors, [Operator(writer.RELU, [0], [1])], [0], [1])])


def reshaped():
    """The elements of `x` in a shape that a run learns."""
    tensors = [Tensor("x", [4]), Tensor("shape", [2], "int32"), Tensor("y", [0, 0], signature=[-1, -1])]
    return writer.model([Subgraph(tensors, [Operator(writer.RESHAPE, [0, 1], [2])], [0, 1], [2])])


def lookup():
    """The elements of `table` at `places`. A place outside of it is an error of the run."""
    tensors = [Tensor("table", [3]), Tensor("places", [2], "int32"), Tensor("y", [2])]
    return writer.model([Subgraph(tensors, [Operator(writer.GATHER, [0, 1], [2])], [0, 1], [2])])
