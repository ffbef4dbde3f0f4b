"""Compares `attache` with LiteRT's results for real quantized models, and prints the tables of docs/guide/src/quantized.md.

    python quantized.py WORK
    python quantized_report.py WORK ATTACHE [MODEL...]

WORK is the output folder of `quantized.py`, ATTACHE the command. A step is the difference between adjacent quantized
values. For float outputs, it is the scale of the quantized tensors from which they are computed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from model_writer import parse, run, schema
from dequantized import dequantized

LABELS = np.int64  # outputs of this type are indices of classes: those that differ are counted
MARGIN = 10  # steps by which the reference has to prefer its top class for others to agree on it
CPU, EXACT, VIEW = ["cpu"], ["gpu", "--quantized", "exact"], ["gpu", "--quantized", "view"]


def attache(command, *arguments, device):
    """The JSON object that the command writes, whatever its exit status."""
    call = [command, "--json", *map(str, arguments), "--delegate", *device]
    return json.loads(subprocess.run(call, capture_output=True, text=True).stdout)


def arrays(folder, stem="out"):
    """The arrays stem_0.npy, stem_1.npy and so on."""
    return [np.load(folder / f"{stem}_{index}.npy") for index in range(len(list(folder.glob(f"{stem}_*.npy"))))]


def steps(model):
    """The size of a step of each output; 1 for quantized outputs."""
    graph = model.subgraphs[0]
    makers = {output: operator for operator in graph.operators for output in operator.outputs}
    for output in graph.outputs:
        tensor = graph.tensors[output]
        source = graph.tensors[makers[output].inputs[0]]
        is_float = tensor.type == schema.TensorType.FLOAT32 and source.quantization is not None
        yield source.quantization.scale[0] if is_float and source.quantization.scale is not None else 1


def inputs(case):
    """The options of the command for the inputs of a case."""
    return [text for file in sorted(case.glob("in_*.npy")) for text in ("--input", file)]


def outputs(command, case, device):
    """The command's outputs for a case."""
    with tempfile.TemporaryDirectory() as folder:
        attache(command, "run", case / "model.tflite", *inputs(case), "--out", folder, device=device)
        return arrays(Path(folder))


def difference(reference, others, sizes):
    """The mean difference in steps; for labels, the fraction that differs."""
    pairs = list(zip(reference, others, sizes))
    if reference[0].dtype == LABELS:
        return np.concatenate([(one != other).ravel() for one, other, _ in pairs]).mean()
    apart = [np.abs(one.astype(np.float64) - other).ravel() / size for one, other, size in pairs]
    return np.concatenate(apart).mean()


def top(reference, other):
    """Whether the most likely class is the same; None if the reference's margin is too small."""
    ranked = np.sort(reference.ravel().astype(np.int64))
    if ranked[-1] - ranked[-2] <= MARGIN:
        return None
    return reference.argmax() == other.argmax()


def ratio(passed, of):
    return f"{passed} of {of}"


def integer_row(command, work, name):
    """A line about a model that computes in integers."""
    cases = sorted((work / "reference" / name).iterdir())
    sizes = list(steps(parse((cases[0] / "model.tflite").read_bytes())))
    cells = [name]
    for device in (CPU, EXACT):
        answer = attache(command, "check", work / "reference" / name, "--tolerance", "1e-6", device=device)
        cells.append(ratio(answer["passed"], len(cases)))
    operators, ours, theirs, tops = [], [], [], []
    for case in cases:
        arguments = ["diff", case / "model.tflite", *inputs(case), "--per-operator", "--quantization-steps", "2:99.5:1"]
        operators += [one["passes"] for one in attache(command, *arguments, device=VIEW)["operators"]]
        reference, view = arrays(case), outputs(command, case, VIEW)
        ours.append(difference(reference, view, sizes))
        theirs.append(difference(reference, arrays(work / "xnnpack" / name / case.name), sizes))
        if len(reference) == 1 and reference[0].size <= 1001:
            tops.append(top(reference[0], view[0]))
    sure = [one for one in tops if one is not None]
    taken = [one for one in operators if one is not None]
    # Detections are not quantized. The tensors from which they are computed have their own row.
    is_detector = (work / "reference" / f"{name}_before").exists()
    means = ["–", "–"] if is_detector else [f"{np.mean(ours):.3f}", f"{np.mean(theirs):.3f}"]
    cells += [ratio(sum(taken), len(taken)), *means]
    return cells + [ratio(sum(sure), len(sure)) if sure else "–"]


def hybrid_row(command, work, name):
    """A line about a model whose activations are floats: largest differences, relative to the largest output."""
    worst = {"cpu": 0.0, "view": 0.0, "xnnpack": 0.0, "reference": 0.0}
    for case in sorted((work / "reference" / name).iterdir()):
        floats = run(dequantized((case / "model.tflite").read_bytes()), arrays(case, "in"))
        made = {"cpu": (arrays(case), outputs(command, case, CPU)), "view": (floats, outputs(command, case, VIEW)),
                "xnnpack": (arrays(case), arrays(work / "xnnpack" / name / case.name)), "reference": (floats, arrays(case))}
        for key, (expected, found) in made.items():
            errors = (np.abs(one - other).max() / np.abs(one).max() for one, other in zip(expected, found))
            worst[key] = max(worst[key], *errors)
    return [name, *(f"{worst[key]:.1e}" for key in ("cpu", "view", "reference", "xnnpack"))]


def is_hybrid(work, name):
    file = next((work / "reference" / name).rglob("model.tflite"))
    return dequantized(file.read_bytes()) is not None


def table(heading, rows):
    lines = [heading, ["---"] * len(heading), *rows]
    print("\n".join(f"| {' | '.join(line)} |" for line in lines), flush=True)


def main():
    work, command = Path(sys.argv[1]), sys.argv[2]
    names = sys.argv[3:] or sorted(folder.name for folder in (work / "reference").iterdir())
    hybrid = [name for name in names if is_hybrid(work, name)]
    table(["Model", "CPU", "GPU, exact", "GPU, view: operators", "mean steps", "XNNPACK's", "top class"],
          (integer_row(command, work, name) for name in names if name not in hybrid))
    print()
    table(["Model", "CPU, from the reference", "GPU, from floats", "reference from floats", "XNNPACK from the reference"],
          (hybrid_row(command, work, name) for name in hybrid))


if __name__ == "__main__":
    main()
