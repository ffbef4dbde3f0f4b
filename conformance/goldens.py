"""Writes the golden cases: small models with inputs and the outputs that LiteRT's CPU computes for them.

    pip install ai-edge-litert numpy
    python goldens.py [OUT_DIR]        (default: the folder `cases` beside this file)

Each case is a folder OUT_DIR/KIND_OPERATOR_FORM/ that contains

    model.tflite   one operator, or the few that the form is about
    in_K.npy       input K of the model, in the order of the graph's inputs
    out_K.npy      output K
    dequantized_K.npy
                   output K with weights that are the floats which those of 8 bits stand for, where activations are floats
    case.json      {"op", "kind", "version", "scale", "form"}

kind is f32, f16w (float16 weights with DEQUANTIZE), i32, i64, bool, text, or i4, i8, u8, i16 for quantized tensors. scale is
the largest magnitude of the outputs before a fused activation, to which errors are relative. Each case has its own
random generator, seeded by its name, so that the script always writes the same files, and a new case does not change the
others. Cases of an earlier run in OUT_DIR are removed first.

Outputs are those of LiteRT's reference kernels, compared with its optimized ones and XNNPACK, except where a form gives a
reason. LiteRT's CPU ignores a fused TANH, so such a case contains the tanh of the outputs of the bare operator, and
its case.json contains "oracle": "unfused".
"""

import json
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np

import forms_arithmetic
import forms_audio
import forms_blocks
import forms_bytes
import forms_contractions
import forms_detection
import forms_edges
import forms_flow
import forms_graphs
import forms_memories
import forms_movement
import forms_numbers
import forms_quantized
import forms_quantizers
import forms_random
import forms_ranks
import forms_recurrent
import forms_relations
import forms_selection
import forms_shuffled
import forms_signals
import forms_sizes
import forms_stablehlo
import forms_strings
import forms_subgraphs
import forms_tables
import forms_types
import forms_volumes
import forms_windows
from dequantized import dequantized
from model_writer import TEXT, Activation, Model, options, run

ALL_KERNELS = ("reference", "plain", "default")
RESULTS = {"i32": np.int32, "i64": np.int64, "bool": np.bool_, "text": TEXT}  # what an operator of a kind gives, float32 else
TOLERANCE = 1e-5  # how far LiteRT's own kernel sets may lie apart, relative to the scale


def magnitude(value):
    """The largest magnitude in an array; 0 if it is empty or has strings."""
    if value.dtype == TEXT:
        return 0.0
    return float(np.abs(value.astype(np.complex128)).max(initial=0))


class Draw:
    """The random values of one case."""
    def __init__(self, name):
        self.generator = np.random.RandomState(zlib.crc32(name.encode()))

    def __call__(self, *shape, dtype=np.float32, low=-2, high=2):
        return np.asarray(self.generator.uniform(low, high, shape)).astype(dtype)


class Suite:
    """Collects cases in a folder."""
    def __init__(self, folder):
        self.folder, self.count = Path(folder), 0

    def case(self, operator, form, build, kind="f32", kernels=ALL_KERNELS):
        """Writes one case. `build(model, draw)` adds the nodes and returns the list of outputs.

        The first of `kernels` computes the outputs. The others must agree with it.
        """
        name = f"{kind}_{operator}_{form}"
        model = Model()
        outputs = build(model, Draw(name))
        model.settle_shapes(outputs, kernels[0])
        bare = self.bare_results(model, outputs, kernels)
        record = {"op": operator, "kind": kind, "version": model.codes[-1].version if model.codes else 1, "form": form}
        if Activation.TANH in model.activations():
            expected, record["oracle"] = [np.tanh(value) for value in bare], "unfused"
        else:
            expected = self.checked_run(name, model, outputs, kernels)
        record["scale"] = max(map(magnitude, bare + expected)) or 1.0
        file = model.to_bytes(outputs)
        arrays = {"in": model.values, "out": expected}
        if floats := dequantized(file):
            arrays["dequantized"] = run(floats, model.values)
        self.write(self.folder / name, record, file, arrays)
        self.count += 1

    def single(self, operator, form, make_inputs, table=None, kind="f32", version=1, kernels=ALL_KERNELS, result=None,
               **fields):
        """Writes a case of one operator with one result.

        `make_inputs(model, draw)` adds its inputs and returns their list. `table` names its options, `fields` are their
        values. `result` is the type of the result if the kind does not determine it.
        """
        dtype = result or RESULTS.get(kind, np.float32)

        def build(model, draw):
            chosen = options(table, **fields) if table else None
            return [model.operator(operator, make_inputs(model, draw), chosen, version, dtype=dtype)]

        self.case(operator, form, build, kind, kernels)

    def bare_results(self, model, outputs, kernels):
        """The outputs without any fused activation."""
        fused = model.activations()
        model.set_activations([Activation.NONE] * len(fused))
        try:
            return self.checked_run("bare", model, outputs, kernels)
        finally:
            model.set_activations(fused)

    def checked_run(self, name, model, outputs, kernels):
        """The outputs by the first kernel set, after comparing them with those of the others."""
        file = model.to_bytes(outputs)
        expected, *others = [run(file, model.values, kernel) for kernel in kernels]
        for kernel, other in zip(kernels[1:], others):
            for first, second in zip(expected, other, strict=True):
                limit = TOLERANCE * max(1.0, magnitude(first))
                if first.dtype == TEXT:
                    if not np.array_equal(first, second):
                        raise ValueError(f"{name}: the {kernel} kernels disagree with the {kernels[0]} ones")
                    continue
                if first.shape != second.shape or not np.allclose(first, second, rtol=0, atol=limit):
                    raise ValueError(f"{name}: the {kernel} kernels disagree with the {kernels[0]} ones")
        for value in expected:
            if value.dtype != TEXT and not np.isfinite(value).all():
                raise ValueError(f"{name}: an output is not finite")
        return expected

    def write(self, folder, record, file, arrays):
        """Writes the files of one case."""
        folder.mkdir(parents=True)
        (folder / "model.tflite").write_bytes(file)
        (folder / "case.json").write_text(json.dumps(record, sort_keys=True) + "\n")
        for prefix, values in arrays.items():
            for index, value in enumerate(values):
                np.save(folder / f"{prefix}_{index}.npy", value.astype(bytes) if value.dtype == TEXT else value)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "cases"
    for stale in folder.glob("*/case.json"):
        shutil.rmtree(stale.parent)
    suite = Suite(folder)
    for module in (forms_arithmetic, forms_relations, forms_windows, forms_movement, forms_selection, forms_sizes,
                   forms_flow, forms_detection, forms_graphs, forms_edges, forms_quantized, forms_contractions,
                   forms_memories, forms_bytes, forms_tables, forms_numbers,
                   forms_signals, forms_subgraphs, forms_volumes,
                   forms_recurrent, forms_stablehlo, forms_random, forms_strings,
                   forms_audio, forms_types, forms_blocks, forms_quantizers, forms_ranks,
                   forms_shuffled):
        for family in module.FAMILIES:
            family(suite)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{suite.count} cases, {size} bytes")


if __name__ == "__main__":
    main()
