"""Writes small .tflite models and runs them on LiteRT's CPU.

A `Model` collects the tensors and operators of one subgraph. `to_bytes` returns the file, and `run` the results of
LiteRT. The writer does not check anything, so that it can also write files that a converter would never write.
"""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Activation = schema.ActivationFunctionType
Padding = schema.Padding

TENSOR_TYPES = {
    np.dtype(name.lower()): getattr(schema.TensorType, name)
    for name in ("FLOAT32", "FLOAT16", "FLOAT64", "INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8", "BOOL",
                 "COMPLEX64", "COMPLEX128")
}

TEXT = np.dtype(object)  # of arrays whose elements are bytes, which become tensors of strings
TENSOR_TYPES[TEXT] = schema.TensorType.STRING

KERNELS = {
    "reference": OpResolverType.BUILTIN_REF, "plain": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "default": OpResolverType.AUTO,
}


# Tables of operators whose activation is a part of their formula.
RECURRENT_TABLES = (
    schema.LSTMOptionsT, schema.UnidirectionalSequenceLSTMOptionsT, schema.BidirectionalSequenceLSTMOptionsT, schema.RNNOptionsT,
    schema.SequenceRNNOptionsT, schema.BidirectionalSequenceRNNOptionsT, schema.SVDFOptionsT,
)


class Model:
    """Builds one subgraph and the subgraphs that it runs. Tensors are indices; -1 stands for an absent optional input.
    """
    def __init__(self):
        self.buffers, self.tensors, self.operators, self.codes = [schema.BufferT()], [], [], []
        self.inputs, self.values = [], []  # indices of the graph's inputs, and the array to feed each
        self.subgraphs = [self]  # all of the file's, the main one first
        self.index, self.results = 0, []  # which of them this is, and what an inner one gives

    def subgraph(self, build):
        """Adds a subgraph and returns its index. `build(inner)` builds it and returns its outputs. Of the values of an
        inner subgraph's inputs, only the type and the shape matter.
        """
        inner = Model()
        inner.buffers, inner.codes, inner.subgraphs = self.buffers, self.codes, self.subgraphs
        inner.index = len(self.subgraphs)
        self.subgraphs.append(inner)
        inner.results = build(inner)
        return inner.index

    def handle(self, name):
        """The handle of a resource variable."""
        index = self.operator("VAR_HANDLE", [], options("VarHandleOptions", container="", sharedName=name), dtype=np.int32)
        self.tensors[index].type = schema.TensorType.RESOURCE
        return index

    def tensor(self, shape, dtype=np.float32, data=None):
        """Adds a tensor. Without data, it is computed at run time. The shape of an operator's result may be a guess."""
        tensor = schema.TensorT()
        tensor.shape, tensor.type = [int(extent) for extent in shape], TENSOR_TYPES[np.dtype(dtype)]
        tensor.name, tensor.buffer = f"tensor_{len(self.tensors)}", 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(elements(data), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def input(self, value):
        """Adds a graph input with the value `value`."""
        index = self.tensor(value.shape, value.dtype)
        self.inputs.append(index)
        self.values.append(value)
        return index

    def constant(self, value, dtype=None):
        """Adds a constant tensor."""
        value = np.asarray(value, dtype)
        return self.tensor(value.shape, value.dtype, value)

    def variable(self, *shape):
        """Adds a tensor that keeps its value between runs. The initial value is 0."""
        index = self.tensor(shape)
        self.tensors[index].isVariable = True
        return index

    def constant_f16(self, value):
        """A float32 tensor that DEQUANTIZE computes from a float16 constant."""
        half = self.constant(value.astype(np.float16))
        return self.operator("DEQUANTIZE", [half], options("DequantizeOptions"), version=3, shape=value.shape)

    def operator(self, name, inputs, options=None, version=1, results=1, dtype=np.float32, shape=(), custom=None):
        """Adds an operator; returns the index of its result, or a list of them if `results` is more than one.

        `options` is an options table of the schema; `custom` the bytes of a custom operator's options.
        """
        code = schema.OperatorCodeT()
        code.version = version
        builtin = "CUSTOM" if custom is not None else name
        code.builtinCode = getattr(schema.BuiltinOperator, builtin)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        if custom is not None:
            code.customCode = name
        self.codes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs = len(self.codes) - 1, list(inputs)
        operator.outputs = [self.tensor(shape, dtype) for _ in range(results)]
        if options is not None:
            table = type(options).__name__.removesuffix("T")
            if hasattr(schema.BuiltinOptions, table):
                operator.builtinOptions, operator.builtinOptionsType = options, getattr(schema.BuiltinOptions, table)
            else:
                operator.builtinOptions2, operator.builtinOptions2Type = options, getattr(schema.BuiltinOptions2, table)
        if custom is not None:
            operator.customOptions = np.frombuffer(custom, np.uint8)
        self.operators.append(operator)
        return operator.outputs[0] if results == 1 else operator.outputs

    def activations(self):
        """The fused activations of the operators that have the field, in order."""
        return [table.fusedActivationFunction for table in self._activated()]

    def set_activations(self, activations):
        """Replaces the activations that `activations` returns."""
        for table, activation in zip(self._activated(), activations, strict=True):
            table.fusedActivationFunction = activation

    def _activated(self):
        tables = [operator.builtinOptions for operator in self.operators]
        fused = (table for table in tables if not isinstance(table, RECURRENT_TABLES))
        return [table for table in fused if hasattr(table, "fusedActivationFunction")]

    def settle_shapes(self, outputs, kernels="reference"):
        """Replaces the guessed shapes of results by those that LiteRT computes."""
        interpreter = invoke(self.to_bytes(outputs), self.values, kernels)
        results = {index for operator in self.operators for index in operator.outputs}
        for detail in interpreter.get_tensor_details():
            if detail["index"] in results:
                self.tensors[detail["index"]].shape = [int(extent) for extent in detail["shape"]]

    def table(self):
        """The schema's table of this subgraph alone."""
        graph = schema.SubGraphT()
        graph.name = f"subgraph_{self.index}" if self.index else "main"
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = list(self.results)
        return graph

    def to_bytes(self, outputs):
        """The file of this graph with the named outputs."""
        self.results = outputs
        model = schema.ModelT()
        model.version, model.description = 3, "golden case"
        model.operatorCodes, model.buffers = self.codes, self.buffers
        model.subgraphs = [inner.table() for inner in self.subgraphs]
        return pack(model)


def elements(value):
    """The bytes of a tensor with this value. Of strings: their number, the offset of each and the end, and the strings."""
    value = np.asarray(value)
    if value.dtype != TEXT:
        return np.ascontiguousarray(value).tobytes()
    texts = list(value.ravel())
    offsets = 4 * (len(texts) + 2) + np.cumsum([0] + [len(text) for text in texts])
    return np.array([len(texts), *offsets], np.int32).tobytes() + b"".join(texts)


def parse(file):
    """Reads a model file into the schema's tables."""
    return schema.ModelT.InitFromPackedBuf(file, 0)


def pack(model):
    """Writes the schema's tables as a model file."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def options(table, **fields):
    """An options table of the schema by name, with its fields set: options("Pool2DOptions", strideH=2)."""
    result = getattr(schema, table + "T")()
    for name, value in fields.items():
        if not hasattr(result, name):
            raise AttributeError(f"{table} has no field {name}")
        setattr(result, name, value)
    return result


def invoke(file, values, kernels):
    """An interpreter that has run a model file. Raises LiteRT's exception if LiteRT rejects the model."""
    interpreter = Interpreter(model_content=file, experimental_op_resolver_type=KERNELS[kernels])
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter


def run(file, values, kernels="reference"):
    """The outputs that LiteRT computes for a model file."""
    interpreter = invoke(file, values, kernels)
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]
