"""Every dictionary and every result of the interpreter is that of LiteRT. Left out where ai-edge-litert is not installed."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

import attache
import samples
from conftest import CASES

SEED = 7
MODELS = [
    "blazeface_short_range", "deeplabv3_257_mv_gpu", "deeplabv3_mnv2_dm05_pascal_quant", "edsr_f32b5_fp32",
    "edsr_f32b5_full_int8", "face_landmark", "hair_segmentation", "mlperf_tiny_kws_float", "mlperf_tiny_resnet8_float",
    "mlperf_tiny_resnet8_int8", "mlperf_tiny_vww_float", "mnist_lstm_float", "mobilenet_v1_0.25_224_float",
    "mobilenet_v1_0.25_224_quant", "mobilenet_v2_1.0_224_ptq_int8", "mobilenet_v2_1.0_224_quant",
    "posenet_mobilenet_v1_100_257_integer_quant", "ssd_mobilenet_v1_coco_quant", "style_transfer_dynamic_range",
    "style_transfer_f16_384",
]
# Their operators are custom ones that LiteRT's package for Python does not have.
WITHOUT_ORACLE = {"hair_segmentation"}
# Custom operators that LiteRT's package for Python does not have.
CUSTOM = ("Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D")
# NumPy has no such type, so that LiteRT fails to give the details of tensors of it.
UNKNOWN_TO_NUMPY = ("bfloat16",)
# Before the first run, LiteRT says nothing of the shapes of some tensors that follow from those of the inputs.
OPEN_UNTIL_A_RUN = {"style_transfer_dynamic_range"}
# 540 by 960 pixels, which the reference kernels take minutes for.
LARGE = {"edsr_f32b5_fp32", "edsr_f32b5_full_int8"}


# When LiteRT allocates tensors, it gives the output of DENSIFY another name, the weights of a dynamic TRANSPOSE_CONV a scale
# for each channel, and some tensors of branches, loops, their results and what runs once no shapes, or those of the file or
# of the last call.
CHANGED_BY_LITERT = (
    "DENSIFY", "HASHTABLE_in_a_branch", "CALL_ONCE_computed", "CALL_ONCE_read_in_a_branch", "CALL_ONCE_written_in_a",
    "STABLEHLO_COMPOSITE_one_subgraph_twice", "TRANSPOSE_CONV_dynamic", "WHILE_counted_recurrent_network",
    "WHILE_counted_variable",
)


def same(left, right, path="details"):
    """Asserts that two details are equal: types, keys and their order, arrays with their types, texts and numbers."""
    if isinstance(left, np.ndarray):
        assert isinstance(right, np.ndarray) and (left.dtype, left.shape) == (right.dtype, right.shape), path
        assert left.tolist() == right.tolist(), path
    elif isinstance(left, dict):
        assert isinstance(right, dict) and list(left) == list(right), path
        for key in left:
            same(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, (list, tuple)):
        assert type(left) is type(right) and len(left) == len(right), path
        for place, (one, other) in enumerate(zip(left, right)):
            same(one, other, f"{path}[{place}]")
    else:
        assert type(left) is type(right) and left == right, f"{path}: {left!r} and {right!r}"


def compare_details(litert, ours):
    """Compares all details of two interpreters, of the tensors that the file has."""
    same(litert.get_input_details(), ours.get_input_details(), "inputs")
    same(litert.get_output_details(), ours.get_output_details(), "outputs")
    same(litert.get_signature_list(), ours.get_signature_list(), "signatures")
    same(litert._get_full_signature_list(), ours._get_full_signature_list(), "signatures")
    assert litert.num_subgraphs() == ours.num_subgraphs()
    for subgraph in range(ours.num_subgraphs()):
        # Behind the tensors of the file, LiteRT lists those that its operators and delegates added.
        count = ours._interpreter.tensor_count(subgraph)
        others = [detail for detail in litert.get_tensor_details(subgraph) if detail["index"] < count]
        same(others, ours.get_tensor_details(subgraph), f"tensors of {subgraph}")
    same(litert._get_ops_details(), ours._get_ops_details(), "operators")
    for key in ours.get_signature_list():
        runners = litert.get_signature_runner(key), ours.get_signature_runner(key)
        same(*[runner.get_input_details() for runner in runners], f"inputs of {key}")
        same(*[runner.get_output_details() for runner in runners], f"outputs of {key}")


def pair(litert, path, plain=False, **options):
    """An interpreter of LiteRT's with its reference kernels, or with its plain ones, and one of ours."""
    kind = "BUILTIN_WITHOUT_DEFAULT_DELEGATES" if plain else "BUILTIN_REF"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = litert.Interpreter(str(path), experimental_op_resolver_type=litert.OpResolverType[kind], **options)
    return theirs, attache.Interpreter(str(path), **options)


def draw(detail, seed):
    """A random value for an input."""
    generator, shape = np.random.RandomState(seed), tuple(detail["shape"])
    dtype = np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return generator.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return generator.rand(*shape) < 0.5
    return generator.randint(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype)


def compare_results(theirs, ours, values, scale=None):
    """Allocates the tensors of both, runs them on the same inputs, and compares all outputs."""
    theirs.allocate_tensors(), ours.allocate_tensors()
    compare_runs(theirs, ours, values, scale)


def compare_runs(theirs, ours, values, scale=None):
    """Runs both on the same inputs, and compares all outputs."""
    for interpreter in (theirs, ours):
        for detail, value in zip(interpreter.get_input_details(), values):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    for detail in ours.get_output_details():
        wanted, result = theirs.get_tensor(detail["index"]), ours.get_tensor(detail["index"])
        assert (wanted.dtype, wanted.shape) == (result.dtype, result.shape)
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(result, wanted)
            continue
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(np.isfinite(result), finite)
        size = scale or max(float(np.abs(wanted[finite]).max(initial=0)), 1e-30)
        assert np.abs(result[finite] - wanted[finite]).max(initial=0) <= 1e-4 * size


@pytest.mark.parametrize("make", [samples.relu, samples.chain, samples.signatures, samples.quantized, samples.lookup])
def test_samples(litert, tmp_path, make):
    path = tmp_path / "model.tflite"
    path.write_bytes(make())
    theirs, ours = pair(litert, path)
    compare_details(theirs, ours)
    theirs.allocate_tensors(), ours.allocate_tensors()
    compare_details(theirs, ours)
    if make is samples.chain:
        for interpreter in (theirs, ours):
            interpreter.resize_tensor_input(0, [5, 3])
        compare_details(theirs, ours)
        theirs.allocate_tensors(), ours.allocate_tensors()
        compare_details(theirs, ours)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_details_of_golden_case(litert, path):
    if any(name in path.parent.name for name in CUSTOM + UNKNOWN_TO_NUMPY):
        pytest.skip("LiteRT's package does not have the operator or the type")
    try:
        theirs, ours = pair(litert, path)
    except ValueError:
        theirs, ours = pair(litert, path, plain=True)
    compare_details(theirs, ours)
    try:
        theirs.allocate_tensors()
    except RuntimeError:
        theirs, _ = pair(litert, path, plain=True)
        theirs.allocate_tensors()
    ours.allocate_tensors()
    if not any(name in path.parent.name for name in CHANGED_BY_LITERT):
        compare_details(theirs, ours)


STATES = ("VARIABLE", "CALL_ONCE", "UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF")
STATEFUL = [path for path in CASES if any(name in path.parent.name for name in STATES)]


@pytest.mark.parametrize("path", STATEFUL, ids=lambda path: path.parent.name)
def test_what_a_reset_leaves(litert, path):
    try:
        interpreters = pair(litert, path)
    except ValueError:
        interpreters = pair(litert, path, plain=True)
    places = range(len(interpreters[0].get_input_details()))
    values = [np.load(path.parent / f"in_{place}.npy") for place in places]
    compare_results(*interpreters, values)
    for resets in [False, True]:
        for interpreter in interpreters if resets else []:
            interpreter.reset_all_variables()
        compare_runs(*interpreters, values)


@pytest.mark.parametrize("make", [samples.twice, samples.with_data, samples.reshaped])
def test_unusual_inputs_and_outputs(litert, tmp_path, make):
    path = tmp_path / "model.tflite"
    path.write_bytes(make())
    theirs, ours = pair(litert, path)
    theirs.allocate_tensors(), ours.allocate_tensors()
    compare_details(theirs, ours)
    for detail in ours.get_output_details():
        assert theirs.get_tensor(detail["index"]).shape == ours.get_tensor(detail["index"]).shape
    if make is samples.with_data:
        theirs.invoke(), ours.invoke()
        assert theirs.get_tensor(1).tolist() == ours.get_tensor(1).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_details_of_shared_model(litert, shared, name):
    if name in WITHOUT_ORACLE:
        pytest.skip("LiteRT's package does not have its operators")
    path = shared / "models" / f"{name}.tflite"
    theirs, ours = pair(litert, path, plain=name in LARGE)
    compare_details(theirs, ours)
    theirs.allocate_tensors(), ours.allocate_tensors()
    if name not in OPEN_UNTIL_A_RUN:
        compare_details(theirs, ours)


@pytest.mark.parametrize("name", MODELS)
def test_results_of_shared_model(litert, shared, name):
    if name in WITHOUT_ORACLE | LARGE:
        pytest.skip("LiteRT's package does not have its operators, or takes minutes")
    path = shared / "models" / f"{name}.tflite"
    theirs, ours = pair(litert, path)
    values = [draw(detail, place) for place, detail in enumerate(ours.get_input_details())]
    compare_results(theirs, ours, values)
    # Shapes that only a run tells.
    same(theirs.get_output_details(), ours.get_output_details(), "outputs")


@pytest.mark.parametrize("name", MODELS)
def test_intermediate_tensors_of_shared_model(litert, shared, name):
    if name in WITHOUT_ORACLE | LARGE:
        pytest.skip("LiteRT's package does not have its operators, or takes minutes")
    path = shared / "models" / f"{name}.tflite"
    theirs, ours = pair(litert, path, experimental_preserve_all_tensors=True)
    compare_results(theirs, ours, [draw(detail, place) for place, detail in enumerate(ours.get_input_details())])
    for detail in ours.get_tensor_details():
        try:
            wanted = theirs.get_tensor(detail["index"])
        except ValueError:
            continue
        result = ours.get_tensor(detail["index"])
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape), detail["name"]
        if wanted.dtype.kind == "f":
            assert np.abs(result - wanted).max(initial=0) <= 1e-4 * np.abs(wanted).max(initial=1e-30), detail["name"]
        else:
            np.testing.assert_array_equal(result, wanted, detail["name"])


@pytest.fixture(scope="session")
def drawn(litert, shared, tmp_path_factory):
    """The folder of operator cases that the generator of `shared` draws."""
    folder = tmp_path_factory.mktemp("drawn")
    script = shared / "conformance/opgen.py"
    command = [sys.executable, str(script), str(folder), "--seed", str(SEED), "--per-op", "2"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return folder


def test_operator_cases(litert, drawn):
    failed, count = [], 0
    for path in sorted(drawn.glob("*/model.tflite")):
        case = json.loads((path.parent / "case.json").read_text())
        is_sum = case["op"] == "SUM" and case["kind"] in ("int8", "uint8")
        count += 1
        try:
            compare_case(litert, path, case, is_sum)
        except Exception as error:
            failed.append(f"{path.parent.name}: {type(error).__name__}: {str(error)[:300]}")
    assert count > 100 and not failed, "\n".join(failed)


@pytest.mark.parametrize("path", [path for path in CASES if "DENSIFY" in path.parent.name], ids=lambda path: path.parent.name)
def test_sparse_constants(litert, path):
    theirs, ours = pair(litert, path)
    theirs.allocate_tensors()
    ours.allocate_tensors()
    for detail in ours.get_tensor_details():
        if detail["sparsity_parameters"]:
            same(theirs.get_tensor(detail["index"]), ours.get_tensor(detail["index"]), detail["name"])


def compare_case(litert, path, case, plain):
    try:
        theirs, ours = pair(litert, path, plain)
        theirs.allocate_tensors()
    except (ValueError, RuntimeError):
        # There is no reference kernel of this version.
        theirs, ours = pair(litert, path, plain=True)
        theirs.allocate_tensors()
    ours.allocate_tensors()
    compare_details(theirs, ours)
    values = [np.load(path.parent / f"in_{place}.npy") for place in range(len(ours.get_input_details()))]
    compare_results(theirs, ours, values, case["scale"] if np.isfinite(case["scale"]) else None)
    same(theirs.get_output_details(), ours.get_output_details(), "outputs")
