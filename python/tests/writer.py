"""Writes small model files for the tests, with nothing but the package `flatbuffers`.

Field numbers are those of TensorFlow Lite's schema.
"""

import dataclasses

import flatbuffers

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "int16": 7,
    "complex64": 8, "int8": 9, "float64": 10, "uint64": 12, "resource": 13, "variant": 14, "uint32": 15, "uint16": 16,
    "int4": 17, "bfloat16": 18,
}
ADD, CUSTOM, GATHER, MUL, RELU, RESHAPE = 0, 32, 36, 18, 19, 22


@dataclasses.dataclass
class Tensor:
    """A tensor of a subgraph. `data` are the bytes of a constant."""

    name: str
    shape: list
    dtype: str = "float32"
    data: bytes = b""
    signature: list = None
    scales: list = None
    zero_points: list = None
    axis: int = 0
    variable: bool = False


@dataclasses.dataclass
class Operator:
    """An operator. `code` is a builtin operator's number, or the name of a custom operator."""

    code: object
    inputs: list
    outputs: list
    version: int = 1


@dataclasses.dataclass
class Subgraph:
    tensors: list
    operators: list
    inputs: list
    outputs: list
    name: str = "main"


@dataclasses.dataclass
class Signature:
    """Names of inputs and outputs, each with the index of its tensor."""

    key: str
    inputs: dict
    outputs: dict
    subgraph: int = 0


def model(subgraphs, signatures=(), identifier=b"TFL3"):
    """Returns the bytes of a model file."""
    writer = _Writer()
    codes = {}
    for subgraph in subgraphs:
        for operator in subgraph.operators:
            codes.setdefault((operator.code, operator.version), len(codes))
    tables = [writer.subgraph(subgraph, codes) for subgraph in subgraphs]
    written = [writer.code(*code) for code in codes]
    signed = [writer.signature(signature) for signature in signatures]
    buffers = [writer.table({0: data}) if data else writer.table({}) for data in writer.buffers()]
    fields = {
        1: writer.offsets(written), 2: writer.offsets(tables), 3: writer.text("test"), 4: writer.offsets(buffers),
        7: writer.offsets(signed) if signed else None,
    }
    root = writer.table(fields, {0: ("Uint32", 3)})
    writer.builder.Finish(root, identifier)
    return bytes(writer.builder.Output())


class _Writer:
    def __init__(self):
        self.builder = flatbuffers.Builder(1024)
        self.data = [b""]

    def buffers(self):
        return [self.vector("Byte", data, 16) if data else None for data in self.data]

    def text(self, text):
        return self.builder.CreateString(text)

    def vector(self, kind, values, alignment=None):
        size = {"Byte": 1, "Int32": 4, "Float32": 4, "Int64": 8}[kind]
        self.builder.StartVector(size, len(values), alignment or size)
        for value in reversed(values):
            getattr(self.builder, "Prepend" + kind)(value)
        return self.builder.EndVector()

    def offsets(self, tables):
        self.builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.builder.PrependUOffsetTRelative(table)
        return self.builder.EndVector()

    def table(self, offsets, scalars=None):
        """Writes a table of the fields that are not `None`: offsets, and scalars with their kind."""
        self.builder.StartObject(12)
        for slot, offset in offsets.items():
            if offset is not None:
                self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        for slot, (kind, value) in (scalars or {}).items():
            getattr(self.builder, f"Prepend{kind}Slot")(slot, value, 0)
        return self.builder.EndObject()

    def code(self, code, version):
        is_custom = isinstance(code, str)
        name = self.text(code) if is_custom else None
        number = CUSTOM if is_custom else code
        return self.table({1: name}, {0: ("Int8", min(number, 127)), 2: ("Int32", version), 3: ("Int32", number)})

    def tensor(self, tensor):
        buffer = 0
        if tensor.data:
            buffer = len(self.data)
            self.data.append(tensor.data)
        quantization = None
        if tensor.scales is not None:
            scales = self.vector("Float32", tensor.scales)
            points = self.vector("Int64", tensor.zero_points)
            quantization = self.table({2: scales, 3: points}, {6: ("Int32", tensor.axis)})
        fields = {
            0: self.vector("Int32", tensor.shape), 3: self.text(tensor.name), 4: quantization,
            7: self.vector("Int32", tensor.signature) if tensor.signature is not None else None,
        }
        scalars = {1: ("Int8", TYPES[tensor.dtype]), 2: ("Uint32", buffer), 5: ("Bool", tensor.variable)}
        return self.table(fields, scalars)

    def operator(self, operator, codes):
        fields = {1: self.vector("Int32", operator.inputs), 2: self.vector("Int32", operator.outputs)}
        return self.table(fields, {0: ("Uint32", codes[operator.code, operator.version])})

    def subgraph(self, subgraph, codes):
        tensors = self.offsets([self.tensor(tensor) for tensor in subgraph.tensors])
        operators = self.offsets([self.operator(operator, codes) for operator in subgraph.operators])
        inputs, outputs = self.vector("Int32", subgraph.inputs), self.vector("Int32", subgraph.outputs)
        return self.table({0: tensors, 1: inputs, 2: outputs, 3: operators, 4: self.text(subgraph.name)})

    def signature(self, signature):
        def names(entries):
            return self.offsets([
                self.table({0: self.text(name)}, {1: ("Uint32", tensor)}) for name, tensor in entries.items()
            ])
        fields = {0: names(signature.inputs), 1: names(signature.outputs), 2: self.text(signature.key)}
        return self.table(fields, {4: ("Uint32", signature.subgraph)})
