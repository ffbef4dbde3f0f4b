"""Checks the plug-in libattache_delegate.so in LiteRT, against LiteRT's own kernels and Attaché's own claims.

    pip install ai-edge-litert flatbuffers numpy    (also tested: ai-edge-litert 1.0.1, tflite-runtime 2.14.0, numpy<2)
    cargo rustc --profile dist -p attache-delegate --lib --crate-type cdylib
    python plugin.py PLUGIN [--option KEY=VALUE]... compare [--command attache] [--limit N] PATH...
    python plugin.py PLUGIN [--option KEY=VALUE]... cycles MODEL [--count 1000]
    python plugin.py PLUGIN [--option KEY=VALUE]... behaviour MODEL RESIZABLE_MODEL

PATH is a model, or a folder in which all model.tflite are taken, with their inputs in_K.npy; other inputs are random.

`compare` runs each model with the plug-in and with the reference kernels alone. Floats may differ by TOLERANCE of the
largest value (case.json may have a scale of its own), those of dynamic range models by DYNAMIC_RANGE, and are infinite or no numbers in the same places. Integers may not
differ, but quantized ones may by STEPS unless the option quantized is exact. With
--command it also compares the nodes that the plug-in takes with `attache dump partition`, by the nodes' indices; nodes
that graph passes remove may join. `cycles` creates, runs and destroys interpreters and delegates, in both orders, and
fails if memory grows. `behaviour` checks threads, other shapes, and libraries and options that are wrong.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import flatbuffers
import numpy as np

try:
    from ai_edge_litert import interpreter as litert
except ImportError:
    from tflite_runtime import interpreter as litert
try:
    from ai_edge_litert import schema_py_generated as schema
except ImportError:
    schema = None

TOLERANCE = {"f32": 2e-5, "f32_f16": 2e-3, "f16": 2e-3}
# As `attache report` judges models with float activations and 8-bit weights, whose activations LiteRT's CPU quantizes.
DYNAMIC_RANGE = 0.05
# By how many steps quantized values may differ, if floats compute them.
STEPS = 3
# Operators with dynamic range quantization, with the positions of their data and weights.
HYBRID = {} if schema is None else {
    schema.BuiltinOperator.CONV_2D: (0, 1),
    schema.BuiltinOperator.DEPTHWISE_CONV_2D: (0, 1),
    schema.BuiltinOperator.FULLY_CONNECTED: (0, 1),
    schema.BuiltinOperator.TRANSPOSE_CONV: (2, 1),
}
# Of this operator, the reference kernels return the input.
WRONG_IN_REFERENCE = {"LOCAL_RESPONSE_NORMALIZATION"}
# int8 SUM of LiteRT's reference kernels is wrong for some scales.
WRONG_IN_LITERT = {"SUM"}
# LiteRT's own kernels of this operator give other numbers in each process for some cases.
UNSTABLE_IN_LITERT = {"BIDIRECTIONAL_SEQUENCE_LSTM"}
# Cases whose files state another type of an output than the operator makes, which a delegate cannot change.
OTHERWISE_TYPED = {"i8_NumericVerify_states_another_type"}


class Log:
    """Takes the lines that are written to the process's standard error output meanwhile."""

    def __enter__(self):
        sys.stderr.flush()
        self.file, self.kept = tempfile.TemporaryFile(), os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.kept, 2)
        os.close(self.kept)
        self.file.seek(0)
        self.lines = self.file.read().decode(errors="replace").splitlines()
        self.file.close()


def interpreter(model, delegates=(), reference=True):
    # Older versions have no kernels of their own choice.
    resolver = getattr(litert, "OpResolverType", None)
    kernels = {"experimental_op_resolver_type": resolver.BUILTIN_REF} if resolver and reference else {}
    content = for_reference(model) if reference else None
    source = {"model_content": content} if content else {"model_path": str(model)}
    return litert.Interpreter(num_threads=1, experimental_delegates=list(delegates), **source, **kernels)


def parsed(model):
    """The model as objects; None where the schema is not installed or the file has no usual root."""
    return schema and schema.ModelT.InitFromPackedBuf(Path(model).read_bytes(), 0)


def kind_of(code):
    """The operator that a code names; old files have its number in a byte."""
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def for_reference(model):
    """The model with the version of DEPTH_TO_SPACE that the reference kernels have, which means the same; None if it needs
    no change."""
    found = parsed(model)
    codes = found.operatorCodes or [] if found else []
    later = [code for code in codes if kind_of(code) == schema.BuiltinOperator.DEPTH_TO_SPACE and code.version > 1]
    if not later:
        return None
    for code in later:
        code.version = 1
    builder = flatbuffers.Builder()
    builder.Finish(found.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def is_dynamic_range(model):
    """Whether an operator multiplies floats by constant weights of 8 bits or fewer."""
    found = parsed(model)
    small = {getattr(schema and schema.TensorType, name, None) for name in ("INT8", "UINT8", "INT4", "INT2")}
    for graph in found.subgraphs if found else []:
        for operator in graph.operators or []:
            kind = kind_of(found.operatorCodes[operator.opcodeIndex])
            if kind not in HYBRID or len(operator.inputs) < 2:
                continue
            data, weights = (graph.tensors[operator.inputs[position]].type for position in HYBRID[kind])
            if data == schema.TensorType.FLOAT32 and weights in small:
                return True
    return False


def has_blocks(model):
    """Whether weights have a scale for each block of a row, which the reference kernels take for ones with one scale."""
    found = parsed(model)
    tensors = [tensor for graph in (found.subgraphs if found else []) for tensor in graph.tensors or []]
    kinds = [tensor.quantization.detailsType for tensor in tensors if tensor.quantization]
    # Not all versions of the schema have it.
    blockwise = getattr(schema and schema.QuantizationDetails, "BlockwiseQuantization", None)
    return blockwise is not None and blockwise in kinds


def inputs_of(model, made):
    """The inputs beside the model, or random ones."""
    values, generator = [], np.random.default_rng(1)
    for position, detail in enumerate(made.get_input_details()):
        path = Path(model).parent / f"in_{position}.npy"
        if Path(model).name == "model.tflite" and path.exists():
            values.append(np.load(path))
        elif np.issubdtype(detail["dtype"], np.floating):
            values.append(generator.uniform(-1, 1, detail["shape"]).astype(detail["dtype"]))
        elif detail["dtype"] in (np.int8, np.uint8):
            limits = np.iinfo(detail["dtype"])
            values.append(generator.integers(limits.min, limits.max, detail["shape"], detail["dtype"], endpoint=True))
        else:
            values.append(np.zeros(detail["shape"], detail["dtype"]))
    return values


def run(made, values):
    made.allocate_tensors()
    for detail, value in zip(made.get_input_details(), values):
        made.set_tensor(detail["index"], value)
    made.invoke()
    return [np.array(made.get_tensor(detail["index"])) for detail in made.get_output_details()]


def taken(lines):
    """The nodes of each partition, from the plug-in's log."""
    nodes = set()
    for line in lines:
        if match := re.search(r"Partition of \d+ operations? \(nodes? ([\d, -]+)\)", line):
            for part in match[1].split(", "):
                first, _, last = part.partition("-")
                nodes.update(range(int(first), int(last or first) + 1))
    return nodes


def own_claims(command, model, options):
    """The nodes that Attaché's own delegate takes, and those that graph passes remove."""
    flags = [word for key, value in options.items() if key in ("precision", "quantized", "backend", "adapter")
             for word in (f"--{key}", value)]
    environment = {**os.environ, "ATTACHE_SOFTWARE": "1"} if options.get("software") == "true" else None
    text = subprocess.run(
        [command, "dump", "partition", model, "--delegate", "gpu", *flags], capture_output=True, text=True, env=environment)
    if text.returncode != 0:
        return None, text.stderr.strip()
    on_gpu, folded = set(), set()
    for line in text.stdout.splitlines():
        if match := re.match(r"(\d+) \S+ version \d+: (.*)", line):
            if match[2].startswith("GPU"):
                on_gpu.add(int(match[1]))
            elif not match[2].startswith("CPU"):
                folded.add(int(match[1]))
    return on_gpu, folded


def tolerance(options):
    """By how much floats may differ, in parts of the largest value."""
    return TOLERANCE[options.get("precision", "f32")]


def differences(expected, made, allowed, options, scale):
    if len(expected) != len(made):
        yield f"there are {len(made)} outputs, and not {len(expected)}"
    for position, (want, have) in enumerate(zip(expected, made)):
        if np.iscomplexobj(want) and np.iscomplexobj(have):
            want, have = [np.stack([value.real, value.imag], -1) for value in (want, have)]
        if want.shape != have.shape:
            yield f"output {position} has the shape {have.shape}, and not {want.shape}"
        elif np.issubdtype(want.dtype, np.floating):
            finite = np.isfinite(want)
            same = np.where(finite, np.isfinite(have), (want == have) | np.isnan(want) & np.isnan(have))
            if not same.all():
                yield f"output {position} is infinite or no number in {np.count_nonzero(~same)} other places"
                continue
            largest = max(np.abs(want[finite]).max(initial=0), scale or 0) or 1
            error = np.abs(want[finite].astype(float) - have[finite].astype(float)).max(initial=0) / largest
            if error > allowed:
                yield f"output {position} differs by {error:.1e}"
        elif not np.array_equal(want, have) and want.dtype == object:
            yield f"output {position} has other texts"
        elif not np.array_equal(want, have):
            # Quantized values that are computed as floats may be rounded to a neighbour. Truths and indices may not.
            is_rounded = options.get("quantized") != "exact" and want.dtype in (np.int8, np.uint8, np.int16)
            steps = np.abs(want.astype(np.int64) - have.astype(np.int64))
            if not is_rounded or steps.max() > STEPS:
                yield f"output {position} differs by up to {steps.max()}"


def compare_one(library, options, model, command):
    """What is wrong with a model, as texts, and the number of nodes that the plug-in takes; None if LiteRT rejects it."""
    # The reference kernels do not have all versions.
    case = Path(model).parent / "case.json"
    notes = json.loads(case.read_text()) if Path(model).name == "model.tflite" and case.exists() else {}
    is_blockwise = has_blocks(model)
    for reference in (False,) if notes.get("op") in WRONG_IN_REFERENCE or is_blockwise else (True, False):
        try:
            plain = interpreter(model, (), reference)
            values = inputs_of(model, plain)
            expected = run(plain, values)
            break
        except (ValueError, RuntimeError):
            pass
    else:
        return None
    # LiteRT's kernels ignore some activations, and read what nobody wrote in others; such cases have outputs of their own.
    if notes.get("oracle") == "unfused" or notes.get("op") in UNSTABLE_IN_LITERT:
        expected = [np.load(path) for path in sorted(Path(model).parent.glob("out_*.npy"))]
    with Log() as log:
        try:
            outputs = run(interpreter(model, [litert.load_delegate(library, options)], reference), values)
        except (ValueError, RuntimeError) as error:
            return [f"fails with the plug-in: {error}"], 0
    nodes = taken(log.lines)
    wrong = []
    is_litert_alone = not nodes and notes.get("op") in UNSTABLE_IN_LITERT
    if notes.get("op") not in WRONG_IN_LITERT and not is_litert_alone:
        allowed = DYNAMIC_RANGE if is_blockwise or is_dynamic_range(model) else tolerance(options)
        wrong += differences(expected, outputs, allowed, options, notes.get("scale"))
    wrong += [line for line in log.lines if line.startswith("ERROR")]
    if command:
        own, folded = own_claims(command, model, options)
        if own is None:
            wrong.append(f"attache dump: {folded}")
        elif Path(model).parent.name not in OTHERWISE_TYPED and not own <= nodes <= own | folded:
            wrong.append(f"missing nodes {sorted(own - nodes)}, more nodes {sorted(nodes - own - folded)}")
    return wrong, len(nodes)


def models(paths, limit):
    found = []
    for path in map(Path, paths):
        found += sorted(path.rglob("model.tflite")) or sorted(path.glob("*.tflite")) if path.is_dir() else [path]
    return found[:limit]


def compare(library, options, arguments):
    failed = rejected = delegated = 0
    found = models(arguments.paths, arguments.limit)
    for model in found:
        result = compare_one(library, options, model, arguments.command)
        if result is None:
            rejected += 1
            continue
        wrong, nodes = result
        delegated += nodes > 0
        failed += bool(wrong)
        for text in wrong:
            print(f"{model.parent.name if model.name == 'model.tflite' else model.name}: {text}")
    print(f"{len(found) - rejected} models, {delegated} delegated, {failed} failed; LiteRT rejects {rejected}")
    return failed == 0


def memory():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cycles(library, options, arguments):
    values = inputs_of(arguments.model, interpreter(arguments.model))
    sizes = []
    for cycle in range(arguments.count):
        delegate = litert.load_delegate(library, {**options, "log": "error"})
        made = interpreter(arguments.model, [delegate])
        run(made, values)
        if cycle % 2:
            del delegate, made
        else:
            del made, delegate
        if cycle >= arguments.count // 2:
            sizes.append(memory())
    growth = (np.mean(sizes[-len(sizes) // 4:]) - np.mean(sizes[:len(sizes) // 4])) / 1e6
    print(f"{arguments.count} cycles: {sizes[-1] / 1e6:.1f} MB, {growth:+.2f} MB in the second half")
    return growth < 2


def expect(what, holds):
    print(f"{'ok' if holds else 'FAILED'}: {what}")
    return holds


def message(call):
    """The text of the error that a call raises; None if it raises none."""
    try:
        call()
    except (ValueError, OSError, RuntimeError) as error:
        return str(error)
    return None


def in_threads(library, options, model):
    delegate = litert.load_delegate(library, options)
    plain = interpreter(model)
    values = inputs_of(model, plain)
    expected = run(plain, values)
    wrong = []

    def work():
        try:
            made = interpreter(model, [delegate])
            for _ in range(20):
                wrong.extend(differences(expected, run(made, values), tolerance(options), options, None))
        except Exception as error:  # Of a thread, Python only prints it.
            wrong.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not wrong


def resized(library, options, model):
    plain, made = interpreter(model), interpreter(model, [litert.load_delegate(library, options)])
    own = plain.get_input_details()[0]["shape"]
    for shape in (own, [2, *own[1:]], [3, *own[1:]], own):
        for one in (plain, made):
            one.resize_tensor_input(one.get_input_details()[0]["index"], shape)
            one.allocate_tensors()
        values = inputs_of(model, plain)
        if list(differences(run(plain, values), run(made, values), tolerance(options), options, None)):
            return False
    return True


def behaviour(library, options, arguments):
    model = arguments.model
    values = inputs_of(model, interpreter(model))
    none = Path(tempfile.mkdtemp()) / "none.so"
    none.write_text("this is no library")
    wrong = message(lambda: litert.load_delegate(library, {**options, "speed": "high"}))
    absent = message(lambda: litert.load_delegate(library, {**options, "adapter": "no such adapter"}))
    left = message(lambda: interpreter(
        arguments.resizable, [litert.load_delegate(library, {**options, "require_delegation": "true"})]))
    with Log() as log:
        interpreter(arguments.resizable, [litert.load_delegate(library, {**options, "log": "info"})])
    rest = any(re.search(r"(remaining|all) [1-9]\d* operations? will run on the CPU", line) for line in log.lines)
    print(f"  {wrong}\n  {absent}\n  {left}")
    checks = [
        ("two interpreters in two threads", in_threads(library, options, model)),
        ("other shapes, and the first again", resized(library, options, arguments.resizable)),
        ("a missing library raises", message(lambda: litert.load_delegate("/nowhere/none.so")) is not None),
        ("a file that is no library raises", message(lambda: litert.load_delegate(str(none))) is not None),
        ("a wrong option raises with the text", wrong is not None and "there is no option" in wrong),
        ("no GPU raises with the text", absent is not None and "no such adapter" in absent),
        ("required delegation raises if operators are left", (left is not None and "not delegated" in left) == rest),
        ("the CPU runs afterwards", len(run(interpreter(model), values)) > 0),
    ]
    return all([expect(what, holds) for what, holds in checks])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plugin")
    parser.add_argument("--option", action="append", default=[])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("compare")
    one.add_argument("paths", nargs="+")
    one.add_argument("--command")
    one.add_argument("--limit", type=int)
    one.set_defaults(check=compare)
    one = commands.add_parser("cycles")
    one.add_argument("model")
    one.add_argument("--count", type=int, default=1000)
    one.set_defaults(check=cycles)
    one = commands.add_parser("behaviour")
    one.add_argument("model")
    one.add_argument("resizable")
    one.set_defaults(check=behaviour)
    arguments = parser.parse_args()
    options = dict(option.split("=", 1) for option in arguments.option)
    sys.exit(not arguments.check(arguments.plugin, options, arguments))


if __name__ == "__main__":
    main()
