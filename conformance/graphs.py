"""Computes the expected outputs of random graphs with LiteRT, and minimises graphs that another runtime gets wrong.

    pip install ai-edge-litert numpy
    cargo run --release -p attache --example random_graphs -- OUT_DIR --count 2000 --seed 1 [--kind f32|int8|uint8]
    python graphs.py answer OUT_DIR [--largest BYTES] [--keep N]
    attache check OUT_DIR --delegate cpu
    attache check OUT_DIR --delegate gpu [--quantized exact]
    python graphs.py minimise OUT_DIR/graph_NNNN MINIMAL_DIR -- attache check --delegate gpu

`answer` adds out_K.npy and case.json {"op": "GRAPH", "kind", "scale", "operators"} to each graph. It removes the graphs
that LiteRT rejects, and prints their number and the reasons. The outputs of float graphs are those of LiteRT's plain
kernels; such a graph is removed if the default kernels differ by more than 1e-5 of the scale. The outputs of quantized
graphs are those of the reference kernels. scale is the largest magnitude of any float tensor of the graph, including
inputs and intermediate values, because errors of intermediate values reach the outputs even if these are much smaller.
--largest also removes graphs of more bytes, and --keep all except the first N of the remaining ones.

`integer_graphs.py` writes graphs of integers of all widths, to which `answer` adds outputs in the same way.

The folder `graphs` beside this file was written with seed 7, --count 150 and --largest 7000: 30 graphs of f32, 20 of int8
and 20 of uint8 (--keep), with a folder for each kind.

`minimise` drops operators as long as the command, called with the folder of the smaller graph, still fails. Results of
dropped operators become inputs, with the values that LiteRT computed for them.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TOLERANCE = 1e-5  # how far LiteRT's own kernel sets may lie apart, relative to the scale


def load(folder, stem):
    """The arrays STEM_0.npy, STEM_1.npy and so on."""
    paths = []
    while (path := folder / f"{stem}_{len(paths)}.npy").exists():
        paths.append(path)
    return [np.load(path) for path in paths]


def run(content, inputs, kernels=OpResolverType.AUTO):
    """The outputs, and all tensors of nodes by index, which are empty for the default kernels."""
    keeps = kernels != OpResolverType.AUTO
    interpreter = Interpreter(
        model_content=content, num_threads=1,
        experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=keeps)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    outputs = [np.array(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]
    main = schema.ModelT.InitFromPackedBuf(content).subgraphs[0]
    known = {tensor for node in main.operators for tensor in [*node.inputs, *node.outputs] if tensor >= 0}
    known = {tensor for tensor in known if 0 not in main.tensors[tensor].shape}  # LiteRT refuses to return empty constants
    tensors = {index: np.array(interpreter.get_tensor(index)) for index in sorted(known)} if keeps else {}
    return outputs, tensors


def is_quantized(content):
    """Whether any tensor of a graph has 8 or 16 bits, or integers that only `integer_graphs.py` draws."""
    kinds = schema.TensorType
    rare = (kinds.INT8, kinds.UINT8, kinds.INT16, kinds.INT64, kinds.UINT32)
    tensors = schema.ModelT.InitFromPackedBuf(content).subgraphs[0].tensors
    return any(tensor.type in rare for tensor in tensors)


def kernels_for(content):
    """The kernels that compute the expected outputs."""
    return OpResolverType.BUILTIN_REF if is_quantized(content) else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def magnitude(values):
    """The largest magnitude in float arrays. Infinities and NaN count as infinite."""
    floats = [np.abs(value).max(initial=0) for value in values if value.dtype == np.float32]
    return float(np.nan_to_num(np.array(floats, np.float64), nan=np.inf).max(initial=0))


def answer(folder):
    """Adds LiteRT's outputs to a graph. Returns the reason if the graph cannot be used."""
    content, inputs = (folder / "model.tflite").read_bytes(), load(folder, "in")
    quantized = is_quantized(content)
    try:
        outputs, tensors = run(content, inputs, kernels_for(content))
        others = outputs if quantized else run(content, inputs)[0]
    except (RuntimeError, ValueError) as error:
        return "LiteRT refuses it: " + str(error).strip().splitlines()[0]
    scale = magnitude(list(tensors.values()) + outputs)
    if not np.isfinite(scale):
        return "a value is not finite"
    if [one.shape for one in outputs] != [other.shape for other in others]:
        return "LiteRT's kernels disagree about shapes"
    pairs = list(zip(outputs, others))
    floats = [one - other for one, other in pairs if one.dtype == np.float32]
    exact = all(np.array_equal(one, other) for one, other in pairs if one.dtype != np.float32)
    if magnitude(floats) > TOLERANCE * scale or not exact:
        return "LiteRT's kernels lie apart"
    for index, output in enumerate(outputs):
        np.save(folder / f"out_{index}.npy", output)
    model = schema.ModelT.InitFromPackedBuf(content)
    kind = "quantized" if quantized else "f32"
    record = {"op": "GRAPH", "kind": kind, "scale": scale or 1.0, "operators": len(model.subgraphs[0].operators)}
    (folder / "case.json").write_text(json.dumps(record) + "\n")
    return None


def answer_apart(folder):
    """The same as `answer` in a child process, since LiteRT aborts on some graphs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            pipe.write(answer(folder) or "")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        reason = pipe.read()
    _, status = os.waitpid(child, 0)
    return reason or None if status == 0 else "LiteRT aborts"


def answer_all(arguments):
    """Adds outputs to all graphs of a folder."""
    reasons, kept = collections.Counter(), 0
    for folder in sorted(arguments.folder.glob("graph_*")):
        size = sum(path.stat().st_size for path in folder.iterdir())
        if kept == arguments.keep:
            reason = "there are enough"
        elif arguments.largest and size > arguments.largest:
            reason = "it is too large"
        else:
            reason = answer_apart(folder)
        if reason:
            reasons[reason] += 1
            shutil.rmtree(folder)
        else:
            kept += 1
    print(f"{kept} graphs have answers")
    for reason, count in reasons.most_common():
        print(f"{count} removed: {reason}")


class Graph:
    """A graph with LiteRT's values of all its tensors."""
    def __init__(self, folder):
        content = (folder / "model.tflite").read_bytes()
        self.model = schema.ModelT.InitFromPackedBuf(content)
        _, self.tensors = run(content, load(folder, "in"), kernels_for(content))
        main = self.model.subgraphs[0]
        self.operators = list(main.operators)
        self.inputs, self.outputs = list(main.inputs), list(main.outputs)

    def write(self, folder, operators):
        """Writes the graph of these operators. Returns false if LiteRT rejects it."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        results = {result for operator in operators for result in operator.outputs}
        used = [tensor for operator in operators for tensor in operator.inputs if tensor >= 0]
        buffers, tensors = self.model.buffers, self.model.subgraphs[0].tensors
        is_constant = {index: buffers[tensor.buffer].data is not None for index, tensor in enumerate(tensors)}
        inputs = [index for index in dict.fromkeys(used) if index not in results and not is_constant[index]]
        outputs = [index for index in self.outputs if index in results]
        outputs += sorted(results - set(used) - set(outputs))
        if not outputs:
            return False
        main = self.model.subgraphs[0]
        main.operators, main.inputs, main.outputs = operators, inputs, outputs
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        (folder / "model.tflite").write_bytes(builder.Output())
        for index, tensor in enumerate(inputs):
            np.save(folder / f"in_{index}.npy", self.tensors[tensor])
        return answer(folder) is None


def minimise(arguments):
    """Removes operators one by one while the command still fails."""
    graph, operators = Graph(arguments.folder), None
    trial = arguments.minimal.with_name(arguments.minimal.name + "_trial")

    def fails(candidates):
        command = [*arguments.command, str(trial)]
        return graph.write(trial, candidates) and subprocess.run(command, capture_output=True).returncode != 0

    operators = graph.operators
    if not fails(operators):
        sys.exit("the whole graph does not fail")
    shrunk = True
    while shrunk:
        shrunk = False
        for operator in list(operators):
            rest = [other for other in operators if other is not operator]
            if rest and fails(rest):
                operators, shrunk = rest, True
    fails(operators)
    shutil.rmtree(arguments.minimal, ignore_errors=True)
    trial.rename(arguments.minimal)
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    for operator in operators:
        shapes = [list(graph.tensors[tensor].shape) if tensor in graph.tensors else None for tensor in operator.inputs]
        code = graph.model.operatorCodes[operator.opcodeIndex].builtinCode
        options = operator.builtinOptions and vars(operator.builtinOptions)
        print(names[code], operator.inputs, "->", operator.outputs, shapes, options)


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("answer")
    command.add_argument("folder", type=Path)
    command.add_argument("--largest", type=int, metavar="BYTES")
    command.add_argument("--keep", type=int, metavar="N")
    command.set_defaults(run=answer_all)
    command = commands.add_parser("minimise")
    command.add_argument("folder", type=Path)
    command.add_argument("minimal", type=Path)
    command.add_argument("command", nargs="+")
    command.set_defaults(run=minimise)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
