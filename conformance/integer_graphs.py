"""Writes random graphs that compute on integers of all widths, truths and floats that are exact.

    pip install ai-edge-litert numpy
    python integer_graphs.py OUT_DIR [--count 300] [--seed 1]
    python graphs.py answer OUT_DIR
    attache check OUT_DIR --delegate cpu
    attache check OUT_DIR --delegate gpu --quantized exact

Graph N is written to OUT_DIR/graph_NNNN as model.tflite and in_K.npy. Each operator is run by LiteRT as soon as it is
drawn, so that the next steps know the values: an index is in range, and an operator that LiteRT refuses is left out.
Floats are multiples of 1/8 and small enough that every sum of them is exact in any order, so that a decision on a float
is the same everywhere. In half of the graphs, the tensors of a type of 8 or 16 bits are quantized, all alike.
"""

import argparse
import copy
import os
import warnings
from pathlib import Path

import numpy as np

from model_writer import TENSOR_TYPES, Model, options, run, schema

WHOLE = tuple(np.dtype(name) for name in ("int8", "uint8", "int16", "int32", "int64", "uint32"))
FLOAT, TRUTH, INDEX = np.dtype("float32"), np.dtype("bool"), np.dtype("int32")
TYPES = (*WHOLE, FLOAT, TRUTH)
STORED = {np.dtype("int8"): (-128, 127), np.dtype("uint8"): (0, 255), np.dtype("int16"): (0, 0)}  # range of zero points
MOST_ELEMENTS, MOST_FLOAT, STEP = 2000, 4000, 1 / 8
OPERATORS = (4, 18)  # how many a graph has
OUTPUTS = 6  # how many at most


class Refused(Exception):
    """A step does not apply, or LiteRT refuses its operator."""


def shares(one, other):
    """The shape of two that broadcast, or None."""
    try:
        return np.broadcast_shapes(one, other)
    except ValueError:
        return None


def is_usable(value):
    """Whether the steps can compute on a value."""
    if value.dtype not in TYPES or value.ndim > 5 or not 0 < value.size <= MOST_ELEMENTS:
        return False
    if value.dtype != FLOAT:
        return True
    return bool(np.isfinite(value).all() and np.abs(value).sum() <= MOST_FLOAT and not (value % STEP).any())


class Draft:
    """A graph under construction, with LiteRT's values of its tensors."""
    def __init__(self, seed):
        self.random, self.model, self.values = np.random.RandomState(seed), Model(), {}
        self.count, self.results = 0, []
        quantized = self.chance(.5)
        self.quantizations = {dtype: (float(self.choose([1, .5, .25, .1])), int(self.random.randint(low, high + 1)))
                              for dtype, (low, high) in STORED.items() if quantized}

    def chance(self, probability):
        return self.random.rand() < probability

    def choose(self, among):
        """One of a list; a step that has none does not apply."""
        among = list(among)
        if not among:
            raise Refused
        return among[self.random.randint(len(among))]

    def array(self, shape, dtype):
        """A random array: small numbers, or any of an integer's range."""
        if dtype == TRUTH:
            return self.random.rand(*shape) < .5
        if dtype == FLOAT:
            return np.asarray(self.random.randint(-16, 17, shape) * STEP, FLOAT)
        bounds = np.iinfo(dtype)
        if self.chance(.6):
            return np.asarray(self.random.randint(max(-5, bounds.min), 6, shape)).astype(dtype)
        return np.asarray(self.random.randint(bounds.min, bounds.max, shape, dtype=dtype)).astype(dtype)

    def settle(self, index):
        """Gives a tensor the quantization of its type."""
        dtype = next((dtype for dtype in self.quantizations if TENSOR_TYPES[dtype] == self.model.tensors[index].type), None)
        if dtype is not None:
            scale, zero_point = self.quantizations[dtype]
            parameters = schema.QuantizationParametersT()
            parameters.scale, parameters.zeroPoint = [scale], [zero_point]
            self.model.tensors[index].quantization = parameters

    def input(self, shape, dtype):
        value = self.array(shape, dtype)
        index = self.model.input(value)
        self.settle(index)
        self.values[index] = value
        return index

    def constant(self, value, dtype=None):
        index = self.model.constant(value, dtype)
        self.settle(index)
        return index

    def any(self, dtypes=TYPES, test=lambda value: True):
        """A value of one of these types."""
        return self.choose(index for index, value in self.values.items() if value.dtype in dtypes and test(value))

    def like(self, dtype, shape, test=lambda value: True):
        """An operand of this shape: a value, or a constant."""
        there = [index for index, value in self.values.items() if value.dtype == dtype and value.shape == tuple(shape) and test(value)]
        return self.choose(there) if there and self.chance(.7) else self.constant(self.array(shape, dtype))

    def partner(self, index):
        """An operand that broadcasts with a value, of its type: a value, or a constant."""
        value = self.values[index]
        there = [other for other, peer in self.values.items() if peer.dtype == value.dtype and shares(peer.shape, value.shape)]
        if self.chance(.6):
            return self.choose(there)
        shape = [1 if self.chance(.3) else extent for extent in value.shape]
        return self.constant(self.array(shape[self.random.randint(len(shape) + 1):], value.dtype))

    def indices(self, extent, shape):
        """Indices below an extent: a value whose elements are, or a constant."""
        def fits(value):
            return value.shape == tuple(shape) and value.min() >= 0 and value.max() < extent
        there = [index for index, value in self.values.items() if value.dtype in (INDEX, np.int64) and fits(value)]
        if there and self.chance(.7):
            return self.choose(there)
        return self.constant(self.random.randint(0, extent, shape), self.choose([np.int32, np.int64]))

    def axis(self, index):
        """An axis of a value and how an operator may be told of it: from either end."""
        rank = self.values[index].ndim
        axis = self.choose(range(rank))
        return axis, axis - rank if self.chance(.3) else axis

    def add(self, name, inputs, dtypes, table=None, version=1, **fields):
        """Adds an operator with a result of each type, and LiteRT's values of these."""
        chosen = options(table, **fields) if table else None
        made = self.model.operator(name, inputs, chosen, version, len(dtypes), dtypes[0], (0,))
        made = made if len(dtypes) > 1 else [made]
        for index, dtype in zip(made, dtypes):
            self.model.tensors[index].type = TENSOR_TYPES[np.dtype(dtype)]
            self.settle(index)
        try:
            values = self.evaluate(self.model.operators[-1])
        except (RuntimeError, ValueError) as error:
            raise Refused(name) from error
        if not all(map(is_usable, values)):
            raise Refused(name)
        for index, value in zip(made, values):
            self.model.tensors[index].shape = list(value.shape)
            self.values[index] = value
        self.results += made

    def evaluate(self, operator):
        """LiteRT's results of one operator."""
        alone, places = Model(), {}
        alone.codes, alone.buffers = [self.model.codes[operator.opcodeIndex]], self.model.buffers
        for index in dict.fromkeys([*operator.inputs, *operator.outputs]):
            places[index] = len(alone.tensors)
            alone.tensors.append(self.model.tensors[index])
            if index in self.values:
                alone.inputs.append(places[index])
                alone.values.append(self.values[index])
        node = copy.copy(operator)
        node.opcodeIndex, node.inputs = 0, [places[index] for index in operator.inputs]
        node.outputs = [places[index] for index in operator.outputs]
        alone.operators = [node]
        return run(alone.to_bytes(node.outputs), alone.values)

    def attempt(self, step):
        """Takes a step, or takes back what it added."""
        model = self.model
        lists = (model.buffers, model.tensors, model.operators, model.codes)
        lengths = [len(each) for each in lists]
        try:
            step(self)
            self.count += 1
        except Refused:
            for each, length in zip(lists, lengths):
                del each[length:]

    def outputs(self):
        """Results that nobody reads, and a few others."""
        read = {tensor for operator in self.model.operators for tensor in operator.inputs}
        ends = [index for index in self.results if index not in read][:OUTPUTS]
        others = [index for index in self.results if index not in ends]
        return ends + [index for index in others if self.chance(.15)][:OUTPUTS - len(ends)]


def arithmetic(draft):
    names = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "SQUARED_DIFFERENCE": "SquaredDifferenceOptions"}
    name = draft.choose(names)
    # A type of 8 bits computes only with a scale.
    types = (*STORED, np.int64, INDEX, np.uint32, FLOAT) if draft.quantizations else (np.int64, np.int16, INDEX, np.uint32, FLOAT)
    value = draft.any(types)
    inputs = [value, draft.partner(value)]
    version = 2 if draft.values[value].dtype in STORED else 1
    draft.add(name, inputs[::draft.choose([1, -1])], [draft.values[value].dtype], names[name], version)


def extremum(draft):
    value = draft.any((*WHOLE, FLOAT))
    name = draft.choose(["MAXIMUM", "MINIMUM"])
    draft.add(name, [value, draft.partner(value)], [draft.values[value].dtype], "MaximumMinimumOptions", 2)


def divide(draft):
    name, table, types = draft.choose([
        ("FLOOR_DIV", "FloorDivOptions", (np.int8, np.int16, INDEX, np.int64)),
        ("FLOOR_MOD", "FloorModOptions", (np.int8, np.int16, INDEX, np.int64)), ("DIV", "DivOptions", (INDEX,))])
    value = draft.any(types, lambda value: (value > np.iinfo(value.dtype).min).all())
    divisors = draft.random.choice([1, 2, 3, 5, 7, -1, -2, -4], draft.values[value].shape)
    draft.add(name, [value, draft.constant(divisors, draft.values[value].dtype)], [draft.values[value].dtype], table)


def bits(draft):
    value = draft.any(WHOLE)
    dtype = draft.values[value].dtype
    if draft.chance(.5):
        return draft.add("BITWISE_XOR", [value, draft.partner(value)], [dtype], "BitwiseXorOptions")
    by = draft.constant(draft.random.randint(0, 8, draft.values[value].shape), dtype)
    return draft.add("RIGHT_SHIFT", [value, by], [dtype], "RightShiftOptions")


def unary(draft):
    name, table, types = draft.choose([
        ("ABS", "AbsOptions", (INDEX, FLOAT, np.int64)), ("NEG", "NegOptions", (INDEX, np.int64, FLOAT)),
        ("SIGN", "SignOptions", (INDEX, FLOAT)), ("SQUARE", "SquareOptions", (FLOAT,)),
        ("FLOOR", None, (FLOAT,)), ("CEIL", None, (FLOAT,)),
        ("RELU", None, (FLOAT, np.int8, np.uint8) if draft.quantizations else (FLOAT,)), ("ZEROS_LIKE", "ZerosLikeOptions", (INDEX, np.int64, FLOAT)),
        ("LOGICAL_NOT", "LogicalNotOptions", (TRUTH,)),
    ])
    value = draft.any(types)
    draft.add(name, [value], [draft.values[value].dtype], table, 2 if name == "RELU" else 1)


def compare(draft):
    names = {name.upper(): "".join(map(str.title, name.split("_"))) + "Options"
             for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")}
    name = draft.choose(names)
    # Comparisons of 8 bits compare what a scale makes of them.
    types = TYPES if draft.quantizations else [dtype for dtype in TYPES if dtype not in STORED]
    value = draft.any(types)
    draft.add(name, [value, draft.partner(value)], [TRUTH], names[name], 2)


def logical(draft):
    name, table = draft.choose([("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions")])
    value = draft.any((TRUTH,))
    draft.add(name, [value, draft.partner(value)], [TRUTH], table)


def cast(draft):
    to = draft.choose(TYPES)

    def fits(value):
        if value.dtype != FLOAT or to in (FLOAT, TRUTH):
            return True
        return value.min() >= np.iinfo(to).min and value.max() <= np.iinfo(to).max

    value = draft.any(TYPES, fits)
    kinds = {"inDataType": TENSOR_TYPES[draft.values[value].dtype], "outDataType": TENSOR_TYPES[to]}
    draft.add("CAST", [value], [to], "CastOptions", 1, **kinds)


def select(draft):
    value = draft.any()
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    if draft.chance(.4):
        condition = draft.like(TRUTH, shape)
        return draft.add("SELECT", [condition, value, draft.like(dtype, shape)], [dtype], "SelectOptions")
    there = [index for index, peer in draft.values.items() if peer.dtype == TRUTH and shares(peer.shape, shape)]
    condition = draft.choose(there) if there else draft.constant(draft.array(shape, TRUTH))
    return draft.add("SELECT_V2", [condition, value, draft.partner(value)], [dtype], "SelectV2Options")


def reduce(draft):
    name = draft.choose(["SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL", "SUM"])
    types = {"SUM": (INDEX, np.int64, FLOAT), "REDUCE_PROD": (INDEX, np.int64, FLOAT),
             "REDUCE_ANY": (TRUTH,), "REDUCE_ALL": (TRUTH,)}.get(name, (*WHOLE, FLOAT))
    value = draft.any(types, lambda value: value.ndim > 0)
    rank = draft.values[value].ndim
    axes = [axis - rank if draft.chance(.2) else axis for axis in range(rank) if draft.chance(.5)]
    draft.add(name, [value, draft.constant(axes, np.int32)], [draft.values[value].dtype], "ReducerOptions",
              1 if name in ("REDUCE_ANY", "REDUCE_ALL") else 2, keepDims=draft.chance(.5))


def arg_extremum(draft):
    name = draft.choose(["ARG_MAX", "ARG_MIN"])
    value = draft.any((np.int8, np.uint8, INDEX, FLOAT, TRUTH), lambda value: value.ndim > 0)
    dtype = draft.choose([INDEX, np.dtype("int64")])
    axis = draft.constant(draft.axis(value)[1], draft.choose([np.int32, np.int64]))
    kind = "ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions"
    draft.add(name, [value, axis], [dtype], kind, 2, outputType=TENSOR_TYPES[dtype])


def top(draft):
    value = draft.any((*WHOLE, FLOAT), lambda value: value.ndim > 0)
    count = draft.random.randint(1, draft.values[value].shape[-1] + 1)
    draft.add("TOPK_V2", [value, draft.constant(count, np.int32)], [draft.values[value].dtype, INDEX], "TopKV2Options", 2)


def running_sum(draft):
    value = draft.any((INDEX, np.int64, FLOAT), lambda value: value.ndim > 0)
    axis = draft.constant(draft.axis(value)[1], np.int32)
    draft.add("CUMSUM", [value, axis], [draft.values[value].dtype], "CumsumOptions", 1, exclusive=draft.chance(.5),
              reverse=draft.chance(.5))


def gather(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape = draft.values[value].shape
    if draft.chance(.4):
        count = draft.random.randint(1, len(shape) + 1)
        places = np.stack([draft.random.randint(0, extent, 4) for extent in shape[:count]], -1)
        index = draft.constant(places, draft.choose([np.int32, np.int64]))
        return draft.add("GATHER_ND", [value, index], [draft.values[value].dtype], "GatherNdOptions", 3)
    axis, told = draft.axis(value)
    chosen = draft.choose([(), (3,), (2, 2)] + [peer.shape for peer in draft.values.values() if peer.dtype in (INDEX, np.int64)])
    index = draft.indices(shape[axis], chosen)
    return draft.add("GATHER", [value, index], [draft.values[value].dtype], "GatherOptions", 4, axis=told)


def scatter(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    extent = draft.random.randint(1, 8)
    if draft.chance(.6):
        places = draft.indices(extent, (shape[0], 1))
        kind = TENSOR_TYPES[np.dtype("int64")]
        wide = np.int64 if draft.model.tensors[places].type == kind else np.int32
        size = draft.constant([extent, *shape[1:]], wide)
        return draft.add("SCATTER_ND", [places, value, size], [dtype], "ScatterNdOptions")
    name, table = draft.choose([(f"UNSORTED_SEGMENT_{what.upper()}", f"UnsortedSegment{what}Options")
                                for what in ("Sum", "Max", "Min", "Prod")] + [("SEGMENT_SUM", "SegmentSumOptions")])
    if name == "SEGMENT_SUM":
        return draft.add(name, [value, draft.constant(np.sort(draft.random.randint(0, extent, shape[0])), np.int32)], [dtype], table)
    places = draft.constant(draft.random.randint(-1, extent, shape[0]), np.int32)
    return draft.add(name, [value, places, draft.constant(extent, np.int32)], [dtype], table)


def one_hot(draft):
    value = draft.any((INDEX, np.int64, np.uint8))
    dtype = draft.choose([INDEX, np.dtype("int64"), FLOAT, TRUTH, np.dtype("int8"), np.dtype("uint8")])
    depth = draft.constant(draft.random.randint(1, 7), np.int32)
    inputs = [value, depth, draft.constant(draft.array((), dtype)), draft.constant(draft.array((), dtype))]
    draft.add("ONE_HOT", inputs, [dtype], "OneHotOptions", axis=draft.choose([-1, 0]))


def cut(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    begins = [draft.random.randint(extent) for extent in shape]
    wide = draft.choose([np.int32, np.int64])
    if draft.chance(.5):
        sizes = [-1 if draft.chance(.3) else draft.random.randint(1, extent - begin + 1) for extent, begin in zip(shape, begins)]
        return draft.add("SLICE", [value, draft.constant(begins, wide), draft.constant(sizes, wide)], [dtype], "SliceOptions", 2)
    strides = [draft.choose([1, 1, 2, -1, -2]) for _ in shape]
    ends = [min(extent, begin + 3) if stride > 0 else begin - 4 - extent
            for extent, begin, stride in zip(shape, begins, strides)]
    masks = {name: int(draft.random.randint(1 << len(shape))) for name in ("beginMask", "endMask")}
    if min(strides) > 0 and draft.chance(.5):  # no axis can be removed backwards
        masks["shrinkAxisMask"] = int(draft.random.randint(1 << len(shape)))
    inputs = [value] + [draft.constant(each, np.int32) for each in (begins, ends, strides)]
    return draft.add("STRIDED_SLICE", inputs, [dtype], "StridedSliceOptions", 2, **masks)


def pad(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    name = draft.choose(["PAD", "PADV2", "MIRROR_PAD"])
    most = [min(2, extent - 1) if name == "MIRROR_PAD" else 2 for extent in shape]
    inputs = [value, draft.constant([[draft.random.randint(each + 1) for _ in range(2)] for each in most],
                                    draft.choose([np.int32, np.int64]))]
    if name == "PADV2":
        inputs.append(draft.constant(draft.array((1,), dtype)))
    fields = {"mode": draft.choose([0, 1])} if name == "MIRROR_PAD" else {}
    draft.add(name, inputs, [dtype], {"PAD": "PadOptions", "PADV2": "PadV2Options"}.get(name, "MirrorPadOptions"), 2, **fields)


def join(draft):
    value = draft.any()
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    others = [draft.like(dtype, shape) for _ in range(draft.random.randint(1, 4))]
    inputs = [others[0], value, *others[1:]]
    if not shape or draft.chance(.4):
        axis = draft.choose(range(len(shape) + 1))
        return draft.add("PACK", inputs, [dtype], "PackOptions", 2, valuesCount=len(inputs), axis=axis)
    return draft.add("CONCATENATION", inputs, [dtype], "ConcatenationOptions", 2, axis=draft.axis(value)[1])


def split(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    axis, told = draft.axis(value)
    if draft.chance(.5) and shape[axis] <= 4:
        return draft.add("UNPACK", [value], [dtype] * shape[axis], "UnpackOptions", 2, num=shape[axis], axis=told)
    count = draft.choose(count for count in (1, 2, 3) if shape[axis] % count == 0)
    return draft.add("SPLIT", [draft.constant(told, np.int32), value], [dtype] * count, "SplitOptions", 2, numSplits=count)


def move(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    name = draft.choose(["TRANSPOSE", "RESHAPE", "TILE", "REVERSE_V2", "EXPAND_DIMS", "BROADCAST_TO"])
    if name == "TRANSPOSE":
        return draft.add(name, [value, draft.constant(draft.random.permutation(len(shape)), np.int32)], [dtype], "TransposeOptions", 2)
    if name == "RESHAPE":
        size = int(np.prod(shape))
        first = draft.choose(each for each in range(1, size + 1) if size % each == 0)
        to = draft.choose([[size], [first, -1], [1, first, size // first], [first, 1, size // first, 1]])
        return draft.add(name, [value, draft.constant(to, np.int32)], [dtype], "ReshapeOptions", 1, newShape=to)
    if name == "TILE":
        return draft.add(name, [value, draft.constant(draft.random.randint(1, 3, len(shape)), np.int32)], [dtype], "TileOptions")
    if name == "REVERSE_V2":
        return draft.add(name, [value, draft.constant([draft.axis(value)[0]], np.int32)], [dtype], "ReverseV2Options", 3)
    if name == "EXPAND_DIMS":
        return draft.add(name, [value, draft.constant(draft.axis(value)[1], np.int32)], [dtype], "ExpandDimsOptions")
    to = [3 if extent == 1 else extent for extent in shape]
    return draft.add(name, [value, draft.constant(to, np.int32)], [dtype], "BroadcastToOptions", 3)


def update(draft):
    value = draft.any(TYPES, lambda value: value.ndim > 0)
    shape, dtype = draft.values[value].shape, draft.values[value].dtype
    piece = draft.like(dtype, [draft.random.randint(1, extent + 1) for extent in shape])
    begins = draft.constant([draft.random.randint(-1, extent + 1) for extent in shape], np.int32)
    draft.add("DYNAMIC_UPDATE_SLICE", [value, piece, begins], [dtype], "DynamicUpdateSliceOptions", 2)


STEPS = (arithmetic, arithmetic, arithmetic, extremum, divide, bits, unary, compare, compare, logical, cast, cast, cast, select,
         select, reduce, reduce, arg_extremum, top, running_sum, gather, gather, scatter, scatter, one_hot, cut, cut, pad,
         join, join, split, move, move, update)


def write(seed, folder):
    """Writes one graph."""
    draft = Draft(seed)
    shape = tuple(draft.random.randint(1, 6, draft.random.randint(1, 5)))
    for dtype in draft.random.permutation(len(TYPES))[:draft.random.randint(2, 6)]:
        own = [extent if draft.chance(.8) else 1 for extent in shape]
        draft.input(own, TYPES[dtype])
    for _ in range(200):
        if draft.count < draft.random.randint(*OPERATORS):
            draft.attempt(draft.choose(STEPS))
    outputs = draft.outputs()
    folder.mkdir(parents=True)
    (folder / "model.tflite").write_bytes(draft.model.to_bytes(outputs))
    for index, value in enumerate(draft.model.values):
        np.save(folder / f"in_{index}.npy", value)


def main():
    """Writes each graph in a process of its own, since LiteRT aborts on some operators."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lost = 0
    for number in range(arguments.count):
        child = os.fork()
        if child == 0:
            write((arguments.seed, number), arguments.folder / f"graph_{number:04}")
            os._exit(0)
        lost += os.waitpid(child, 0)[1] != 0
    print(f"{arguments.count - lost} graphs in {arguments.folder}, {lost} lost where LiteRT aborts")


if __name__ == "__main__":
    main()
