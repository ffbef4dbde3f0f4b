"""The interpreter does what TensorFlow Lite's documentation says of it."""

import gc
import json
import os
import threading
import warnings

import numpy as np
import pytest

import attache
import samples
import writer
from conftest import CASES, ROOT


def ready(content, **options):
    interpreter = attache.Interpreter(model_content=content, **options)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter, *values):
    for detail, value in zip(interpreter.get_input_details(), values):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def test_runs_from_content_and_path(tmp_path):
    value = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    path = tmp_path / "relu.tflite"
    path.write_bytes(samples.relu())
    for interpreter in [
        attache.Interpreter(model_content=samples.relu()), attache.Interpreter(str(path)),
        attache.Interpreter(model_path=path, num_threads=3), attache.Interpreter(os.fsencode(path)),
    ]:
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(run(interpreter, value)[0], np.maximum(value, 0))


def test_details():
    first, second = attache.Interpreter(model_content=samples.quantized()).get_tensor_details()
    assert (first["name"], first["index"], first["dtype"], first["quantization"]) == ("x", 0, np.uint8, (0.5, 10))
    assert list(first) == [
        "name", "index", "shape", "shape_signature", "dtype", "quantization", "quantization_parameters",
        "sparsity_parameters",
    ]
    for key in ["shape", "shape_signature"]:
        assert first[key].dtype == np.int32 and first[key].tolist() == [1, 4]
    parameters = first["quantization_parameters"]
    assert parameters["scales"].dtype == np.float32 and parameters["scales"].tolist() == [0.5]
    assert parameters["zero_points"].dtype == np.int32 and parameters["zero_points"].tolist() == [10]
    assert (parameters["quantized_dimension"], first["sparsity_parameters"]) == (0, {})
    assert second["name"] == "y"


def test_inputs_keep_their_values_and_arrays_are_copies():
    interpreter = ready(samples.relu())
    value = np.ones([2, 3], np.float32)
    interpreter.set_tensor(0, value)
    value[:] = 7
    interpreter.invoke()
    result = interpreter.get_tensor(1)
    interpreter.set_tensor(0, value)
    interpreter.invoke()
    assert result.max() == 1 and interpreter.get_tensor(1).min() == 7
    result[:] = 0
    assert result.flags.writeable and interpreter.get_tensor(1).min() == 7


@pytest.mark.parametrize("make", [
    lambda value: np.asfortranarray(value), lambda value: value[::-1, ::-1][::-1, ::-1],
    lambda value: value.astype(">f4"), lambda value: np.lib.stride_tricks.as_strided(value, value.shape, value.strides),
    lambda value: np.frombuffer(b"\0" + value.tobytes(), np.uint8)[1:].view(np.float32).reshape(value.shape),
])
def test_arrays_of_any_layout(make):
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(ready(samples.relu()), make(value))[0], value)


def test_read_only_arrays_and_subclasses():
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    value.flags.writeable = False
    np.testing.assert_array_equal(run(ready(samples.relu()), value)[0], value)
    
    class Own(np.ndarray):
        pass

    np.testing.assert_array_equal(run(ready(samples.relu()), value.view(Own))[0], value)


@pytest.mark.parametrize("dtype", [
    "float32", "float16", "int32", "uint8", "int64", "bool", "int16", "complex64", "int8", "float64", "uint64", "uint32",
    "uint16", "int4",
])
def test_types(dtype):
    interpreter = ready(samples.passed(dtype))
    detail = interpreter.get_input_details()[0]
    kind = np.dtype("int8" if dtype == "int4" else dtype)
    assert detail["dtype"] is kind.type
    value = np.array([[1, 0, 1], [0, 1, 1]]).astype(kind)
    if dtype == "int4":
        value[0] = [-8, 7, -1]
    interpreter.set_tensor(0, value)
    read = interpreter.get_tensor(0)
    assert read.dtype == kind
    np.testing.assert_array_equal(read, value)


def test_types_that_numpy_lacks():
    interpreter = attache.Interpreter(model_content=samples.passed("bfloat16"))
    assert interpreter.get_tensor_details() == []


def test_resize():
    interpreter = ready(samples.chain())
    interpreter.resize_tensor_input(0, [4, 3])
    shapes = [detail["shape"].tolist() for detail in interpreter.get_tensor_details()]
    assert shapes == [[4, 3], [1, 3], [3], [1, 3]]
    interpreter.allocate_tensors()
    shapes = [detail["shape"].tolist() for detail in interpreter.get_tensor_details()]
    assert shapes == [[4, 3], [4, 3], [3], [4, 3]]
    assert interpreter.get_output_details()[0]["shape_signature"].tolist() == [-1, 3]
    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(run(interpreter, value)[0], value * [1, 2, 3])
    # To the shape that it has: nothing changes.
    interpreter.resize_tensor_input(0, np.array([4, 3]))
    interpreter.invoke()


def test_a_tensor_that_is_an_input_twice_is_resized():
    interpreter = ready(samples.twice())
    for length in [3, 5, 1]:
        interpreter.resize_tensor_input(0, [length])
        interpreter.allocate_tensors()
        assert [detail["shape"].tolist() for detail in interpreter.get_input_details()] == [[length]] * 2
        assert run(interpreter, *[np.full(length, 4, np.float32)] * 2)[0].tolist() == [8] * length
    runner, value = interpreter.get_signature_runner(), np.ones(7, np.float32)
    assert runner(left=value, right=value)["y"].tolist() == [2] * 7


def test_resize_that_fails_can_be_repaired():
    interpreter = ready(samples.chain())
    interpreter.resize_tensor_input(0, [1, 5])
    with pytest.raises(RuntimeError):
        interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="Call allocate_tensors"):
        interpreter.invoke()
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.allocate_tensors()
    assert run(interpreter, np.ones([2, 3], np.float32))[0].shape == (2, 3)


def test_constants_are_read_without_allocation():
    interpreter = attache.Interpreter(model_content=samples.chain())
    assert interpreter.get_tensor(2).tolist() == [1, 2, 3]
    assert interpreter.tensor(2)().tolist() == [1, 2, 3]


def test_sparse_constants_are_lists_of_what_the_file_stores():
    interpreter = attache.Interpreter(str(ROOT / "conformance/cases/f32_DENSIFY_rows_32_bits/model.tflite"))
    detail = interpreter.get_tensor_details()[0]
    stored = detail["sparsity_parameters"]["dim_metadata"][1]["array_segments"][-1]
    values = interpreter.get_tensor(0)
    assert (values.dtype, values.shape, detail["shape"].tolist()) == (np.float32, (stored,), [4, 6])
    assert np.count_nonzero(values) == stored


def test_the_data_of_an_input_is_its_first_value():
    interpreter = attache.Interpreter(model_content=samples.with_data())
    assert interpreter.get_tensor(0).tolist() == [1, -2] == interpreter.tensor(0)().tolist()
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert (interpreter.get_tensor(0).tolist(), interpreter.get_tensor(1).tolist()) == ([1, -2], [1, 0])
    assert run(interpreter, np.array([-3, 4], np.float32))[0].tolist() == [0, 4]
    assert interpreter.get_tensor(0).tolist() == [-3, 4]
    interpreter.resize_tensor_input(0, [3])
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "float16"])
def test_tensors_without_axes_are_scalars(dtype):
    interpreter = ready(samples.passed(dtype, ()))
    value = np.array(1, dtype)
    interpreter.set_tensor(0, value)
    for read in [interpreter.get_tensor(0), interpreter.get_signature_runner()(x=value)["y"]]:
        assert type(read) is np.dtype(dtype).type and read == value[()]
    # The short way has arrays.
    result = attache.Model(samples.passed(dtype, ())).run(value)
    assert isinstance(result, np.ndarray) and result.shape == ()


def test_what_has_no_elements_needs_no_memory():
    interpreter, nothing = attache.Interpreter(model_content=samples.passed("float32", (0, 3))), np.zeros([0, 3], np.float32)
    interpreter.set_tensor(0, nothing)
    assert interpreter.get_tensor(0).shape == interpreter.tensor(0)().shape == (0, 3)
    with pytest.raises(ValueError):
        interpreter.set_tensor(0, np.zeros([3, 0], np.float32))
    interpreter.allocate_tensors()
    assert run(interpreter, nothing)[0].shape == (0, 3)


def test_outputs_of_unknown_shape_are_empty_before_the_first_run():
    interpreter = ready(samples.reshaped())
    assert interpreter.get_tensor(2).shape == interpreter.tensor(2)().shape == (0, 0)
    values = np.arange(4, dtype=np.float32), np.array([2, 2], np.int32)
    assert run(interpreter, *values)[0].tolist() == [[0, 1], [2, 3]]


def test_a_reset_leaves_resource_variables():
    path = next(path for path in CASES if path.parent.name == "f32_ASSIGN_VARIABLE_state_of_itself")
    results = []
    for resets in [False, True]:
        interpreter = ready(path.read_bytes())
        first = run(interpreter, np.full([2, 3], 0.25, np.float32))[0]
        if resets:
            interpreter.reset_all_variables()
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        assert not np.array_equal(first, results[-1])
    np.testing.assert_array_equal(*results)


def test_preserving_all_tensors_warns_as_in_litert():
    for resolver in attache.OpResolverType:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            attache.Interpreter(
                model_content=samples.relu(), experimental_preserve_all_tensors=True, experimental_op_resolver_type=resolver
            )
        assert bool(said) == (resolver.name in ("AUTO", "BUILTIN")) and all(it.category is UserWarning for it in said)


def test_intermediate_tensors():
    interpreter = ready(samples.chain())
    run(interpreter, np.array([[-1, 2, 3]], np.float32))
    with pytest.raises(ValueError, match="experimental_preserve_all_tensors"):
        interpreter.get_tensor(1)
    interpreter = ready(samples.chain(), experimental_preserve_all_tensors=True)
    assert interpreter.get_tensor(1).tolist() == [[0, 0, 0]]
    run(interpreter, np.array([[-1, 2, 3]], np.float32))
    assert interpreter.get_tensor(1).tolist() == [[0, 2, 3]]
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(1).tolist() == [[0, 0, 0]] * 2


def test_unused_inputs_keep_what_is_set():
    interpreter = ready(samples.unused())
    interpreter.set_tensor(1, np.array([5, 6], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(1).tolist() == [5, 6]


def test_outputs_have_zeros_before_the_first_run():
    assert ready(samples.relu()).get_tensor(1).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_operators():
    details = attache.Interpreter(model_content=samples.chain())._get_ops_details()
    assert [detail["op_name"] for detail in details] == ["RELU", "MUL"]
    assert details[1]["inputs"].tolist() == [1, 2] and details[1]["outputs"].dtype == np.int32
    assert details[1]["operand_types"] == [np.float32, np.float32] and details[1]["index"] == 1


def test_signatures():
    interpreter = attache.Interpreter(model_content=samples.signatures())
    assert interpreter.get_signature_list() == {
        "multiply": {"inputs": ["x", "y"], "outputs": ["product"]}, "add": {"inputs": ["x", "y"], "outputs": ["sum"]},
    }
    left, right = np.array([2, 3], np.float32), np.array([5, 7], np.float32)
    multiply, add = (interpreter.get_signature_runner(key) for key in ["multiply", "add"])
    assert multiply(x=left, y=right)["product"].tolist() == [10, 21]
    assert add(y=right, x=left)["sum"].tolist() == [7, 10]
    assert list(multiply.get_input_details()) == ["x", "y"]
    assert multiply.get_output_details()["product"]["index"] == 2
    wide = np.ones(5, np.float32)
    assert multiply(x=wide, y=wide)["product"].tolist() == [1] * 5
    assert multiply.get_output_details()["product"]["shape"].tolist() == [5]


def test_views():
    interpreter = ready(samples.relu())
    source, target = interpreter.tensor(0), interpreter.tensor(1)
    for value in [3, -4]:
        source().fill(value)
        interpreter.invoke()
        assert target().tolist() == [[max(value, 0)] * 3] * 2
    view = source()
    assert not interpreter._safe_to_run() and view.flags.writeable and not view.flags.owndata
    other = view[1:]
    del view
    with pytest.raises(RuntimeError, match="at least 1 reference to internal data"):
        interpreter.invoke()
    # What is set while an array refers to the memory is seen by it.
    interpreter.set_tensor(0, np.full([2, 3], 9, np.float32))
    assert other.tolist() == [[9, 9, 9]]
    del other
    assert interpreter._safe_to_run()
    interpreter.invoke()
    assert interpreter.get_tensor(1).max() == 9


def test_views_outlive_their_interpreter():
    interpreter = ready(samples.relu())
    interpreter.set_tensor(0, np.full([2, 3], 5, np.float32))
    interpreter.invoke()
    views = [interpreter.tensor(0)(), interpreter.tensor(1)()]
    del interpreter
    gc.collect()
    assert [view.tolist() for view in views] == [[[5, 5, 5]] * 2] * 2


@pytest.mark.parametrize("runs", [0, 1])
def test_views_of_outputs_stand_for_them_until_the_next_run(runs):
    interpreter = ready(samples.relu())
    interpreter.set_tensor(0, np.full([2, 3], 5, np.float32))
    for _ in range(runs):
        interpreter.invoke()
    view = interpreter.tensor(1)()
    view += 1
    view *= 2
    now = [[2 * (5 * runs + 1)] * 3] * 2
    assert view.tolist() == now == interpreter.get_tensor(1).tolist() == interpreter.tensor(1)().tolist()
    assert np.shares_memory(view, interpreter.tensor(1)())
    interpreter.set_tensor(1, np.zeros([2, 3], np.float32))
    assert not view.any()
    del view
    interpreter.invoke()
    assert interpreter.tensor(1)().tolist() == [[5] * 3] * 2


def test_views_of_constants_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        attache.Interpreter(model_content=samples.chain()).tensor(2)()[:] = 1


def test_views_of_preserved_tensors():
    interpreter = ready(samples.chain(), experimental_preserve_all_tensors=True)
    before = interpreter.tensor(1)()
    assert before.tolist() == [[0, 0, 0]] and before.dtype == np.float32
    del before
    run(interpreter, np.array([[-1, 2, 3]], np.float32))
    view = interpreter.tensor(1)()
    assert view.tolist() == [[0, 2, 3]]
    view[:] = 7
    assert interpreter.get_tensor(1).tolist() == [[7, 7, 7]]
    del view
    interpreter.invoke()
    assert interpreter.get_tensor(1).tolist() == [[0, 2, 3]]


def test_variables_are_reset_while_arrays_refer_to_tensors():
    tensors = [writer.Tensor("x", [2]), writer.Tensor("state", [2], variable=True), writer.Tensor("y", [2])]
    content = writer.model([writer.Subgraph(tensors, [writer.Operator(writer.ADD, [0, 1], [2])], [0], [2])])
    interpreter = ready(content)
    view = interpreter.tensor(1)()
    view[:] = 3
    assert interpreter.get_tensor(1).tolist() == [3, 3]
    interpreter.reset_all_variables()
    assert view.tolist() == [0, 0]
    view[:] = 4
    del view
    assert run(interpreter, np.ones(2, np.float32))[0].tolist() == [5, 5]


def test_large_values_are_set_and_read():
    interpreter = ready(samples.chain())
    rows = 1 << 18
    interpreter.resize_tensor_input(0, [rows, 3])
    interpreter.allocate_tensors()
    value = np.random.default_rng(1).random((rows, 3), np.float32)
    np.testing.assert_array_equal(run(interpreter, value)[0], value * np.array([1, 2, 3], np.float32))
    for wrong in [value.astype(np.float64), value[1:]]:
        with pytest.raises(ValueError, match="input 0"):
            interpreter.set_tensor(0, wrong)


def test_threads_with_an_interpreter_each():
    content, failures = samples.chain(), []

    def work(seed):
        interpreter = ready(content)
        generator = np.random.default_rng(seed)
        for _ in range(200):
            value = generator.random((1, 3), np.float32)
            if not np.allclose(run(interpreter, value)[0], value * [1, 2, 3]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


def test_threads_that_share_an_interpreter():
    interpreter = ready(samples.chain())
    failures = []

    def work(number):
        for step in range(300):
            try:
                if number == 0 and step % 10 == 0:
                    interpreter.resize_tensor_input(0, [1 + step % 3, 3])
                    interpreter.allocate_tensors()
                elif number == 1:
                    interpreter.tensor(0)()[:] = step
                elif number == 2:
                    interpreter.set_tensor(0, np.ones([1, 3], np.float32))
                elif number == 3:
                    interpreter.get_tensor_details()
                else:
                    interpreter.invoke()
                    assert interpreter.get_tensor(3).shape[1] == 3
            except (RuntimeError, ValueError):
                pass
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


def test_the_interpreter_lock_is_released_while_a_model_runs():
    model = attache.Model.zoo("mobilenet_v1_1.0_224")
    interpreter = ready(model.content(), num_threads=1)
    steps, running = 0, True

    def work():
        nonlocal running
        interpreter.invoke()
        running = False

    thread = threading.Thread(target=work)
    thread.start()
    while running:
        steps += 1
    thread.join()
    assert steps > 100


def test_interpreters_come_and_go():
    content = samples.chain()
    for _ in range(300):
        interpreter = ready(content)
        run(interpreter, np.ones([1, 3], np.float32))


def test_subclasses_and_resolvers():
    class Own(attache.Interpreter):
        def __init__(self, content):
            super().__init__(model_content=content)

    assert Own(samples.relu()).get_input_details()[0]["name"] == "x"
    for resolver in attache.OpResolverType:
        ready(samples.relu(), experimental_op_resolver_type=resolver)
    assert [resolver.value for resolver in attache.OpResolverType] == [0, 1, 2, 3]
    attache.InterpreterWithCustomOps(model_content=samples.relu(), custom_op_registerers=[]).allocate_tensors()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_golden_case(path):
    case = json.loads((path.parent / "case.json").read_text())
    interpreter = attache.Interpreter(str(path))
    interpreter.allocate_tensors()
    inputs = [np.load(path.parent / f"in_{place}.npy") for place in range(len(interpreter.get_input_details()))]
    for place, result in enumerate(run(interpreter, *inputs)):
        wanted = np.load(path.parent / f"out_{place}.npy")
        # Files have NumPy's own strings.
        assert result.dtype == (object if wanted.dtype.kind == "S" else wanted.dtype) and result.shape == wanted.shape
        if wanted.dtype.kind in "fc":
            scale = max(case["scale"], 1e-30) if np.isfinite(case["scale"]) else 1.0
            np.testing.assert_allclose(result / scale, wanted / scale, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(result, wanted)
