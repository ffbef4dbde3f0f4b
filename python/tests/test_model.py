"""The short interface: models, compiled models, placement, profiles and drawings."""

import threading
import xml.etree.ElementTree

import numpy as np
import pytest

import attache
import samples
import writer


def test_one_input_one_output(tmp_path):
    path = tmp_path / "relu.tflite"
    path.write_bytes(samples.relu())
    value = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    for source in [samples.relu(), path, str(path)]:
        result = attache.Model(source).run(value)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, np.maximum(value, 0))


def test_inputs_by_position_and_by_name():
    compiled = attache.Model(samples.signatures()).compile(signature="multiply")
    assert [info.name for info in compiled.inputs] == ["x", "y"]
    assert [info.name for info in compiled.outputs] == ["product"]
    left, right = np.array([2, 3], np.float32), np.array([5, 7], np.float32)
    for result in [
        compiled.run(left, right), compiled.run(x=left, y=right), compiled.run(left, y=right),
        compiled.run({"y": right, "x": left}),
    ]:
        assert result.tolist() == [10, 21]
    assert attache.Model(samples.signatures()).run(left=left, right=right).tolist() == [7, 10]


def test_values_are_converted_where_nothing_is_lost():
    compiled = attache.Model(samples.chain()).compile()
    for value in [[[1, 2, 3]], [[1.0, 2.0, 3.0]], np.array([[1, 2, 3]], np.float64), np.array([[1, 2, 3]], np.float16)]:
        assert compiled.run(value).tolist() == [[1, 4, 9]]
    integers = attache.Model(samples.passed("int32")).compile()
    assert integers.run([[1, 2, 3], [4, 5, 6]]).dtype == np.int32
    for wrong in [np.full([2, 3], 2**40), np.ones([2, 3]), np.ones([2, 3], complex)]:
        with pytest.raises(ValueError):
            integers.run(wrong)


def test_inputs_take_the_shapes_of_arrays():
    compiled = attache.Model(samples.chain()).compile()
    assert compiled.inputs[0].shape == (-1, 3)
    for rows in [4, 1, 7, 4]:
        assert compiled.run(np.ones([rows, 3], np.float32)).shape == (rows, 3)
    with pytest.raises(ValueError):
        compiled.run(np.ones([3], np.float32))
    with pytest.raises(RuntimeError):
        compiled.run(np.ones([1, 5], np.float32))
    assert compiled.run(np.ones([2, 3], np.float32)).shape == (2, 3)


def test_quantized_models_take_and_give_floats():
    compiled = attache.Model(samples.quantized()).compile()
    assert compiled.inputs[0].scales == (0.5,) and compiled.inputs[0].zero_points == (10,)
    value = np.array([[-1.0, 0.5, 1.2, 100]])
    assert compiled.run(value).tolist() == [[10, 11, 12, 210]]
    assert compiled.run(value, dequantize=True).tolist() == [[0, 0.5, 1, 100]]
    stored = np.array([[8, 11, 12, 210]], np.uint8)
    assert compiled.run(stored).tolist() == [[10, 11, 12, 210]]


def test_all_outputs_are_returned_when_names_repeat():
    value = np.array([-1, 2], np.float32)
    twice = {"x": 0}, {"a": 1, "b": 1}
    compiled = attache.Model(samples.repeated(writer.Signature("twice", *twice))).compile(signature="twice")
    assert {name: result.tolist() for name, result in compiled.run(value).items()} == {"a": [0, 2], "b": [0, 2]}
    assert [info.name for info in compiled.outputs] == ["a", "b"]
    compiled = attache.Model(samples.repeated()).compile()
    assert {name: result.tolist() for name, result in compiled.run(value, value * 2).items()} == {
        "y": [0, 2], "y:1": [0, 4],
    }
    assert compiled.run({"x": value, "x:1": -value})["y:1"].tolist() == [1, 0]
    assert compiled.run(value, **{"x:1": -value})["y"].tolist() == [0, 2]


def test_quantized_scalars_take_floats():
    tensors = [writer.Tensor(name, [], "uint8", scales=[0.5], zero_points=[10]) for name in "xy"]
    content = writer.model([writer.Subgraph(tensors, [writer.Operator(writer.RELU, [0], [1])], [0], [1])])
    result = attache.Model(content).run(np.float64(1.5))
    assert result.shape == () and result == 13


def test_numbers_of_threads():
    model = attache.Model(samples.relu())
    for threads in [1, np.int64(2), np.uint8(3)]:
        assert model.compile(threads=threads).run(np.ones([2, 3])).max() == 1
    for wrong in [0, -1, True, 1.0, "2", 2**31, 2**70]:
        with pytest.raises(ValueError, match="threads is"):
            model.compile(threads=wrong)


@pytest.mark.parametrize(("option", "value", "error"), [
    ("experimental_flags", -1, ValueError), ("experimental_flags", "a", ValueError),
    ("experimental_flags", 2**40, ValueError), ("cache", 5, TypeError), ("serialization_dir", 5, TypeError),
])
def test_wrong_options_are_named(option, value, error):
    with pytest.raises(error, match=f"{option} is"):
        attache.GpuDelegate(**{option: value})


def test_wrong_uses():
    compiled = attache.Model(samples.signatures()).compile()
    one = np.ones(2, np.float32)
    for error, use in [
        (TypeError, lambda: compiled.run(one)), (TypeError, lambda: compiled.run(one, one, one)),
        (TypeError, lambda: compiled.run(one, left=one)), (ValueError, lambda: compiled.run(one, rigth=one)),
        (ValueError, lambda: compiled.run(one, "text")), (ValueError, lambda: compiled.run(one, None)),
        (OSError, lambda: attache.Model("missing.tflite")), (ValueError, lambda: attache.Model(b"garbage")),
        (TypeError, lambda: attache.Model(5)), (ValueError, lambda: attache.Model.zoo("missing")),
        (ValueError, lambda: attache.Model(samples.relu()).compile(device="npu")),
        (ValueError, lambda: attache.Model(samples.relu()).compile(threads=0)),
        (ValueError, lambda: attache.Model(samples.relu()).compile(signature="missing")),
        (TypeError, lambda: attache.Model(samples.relu()).compile(precision="f16")),
        (RuntimeError, lambda: attache.Model(samples.custom()).compile()),
        (TypeError, lambda: attache.GpuDelegate(speed=1)), (ValueError, lambda: attache.GpuDelegate(precision="f64")),
        (TypeError, lambda: attache.GpuDelegate(software="yes")),
        (ValueError, lambda: attache.GpuDelegate(adapter="no such adapter", software=True)),
    ]:
        with pytest.raises(error) as raised:
            use()
        assert str(raised.value)


def test_threads_share_a_compiled_model():
    compiled = attache.Model(samples.chain()).compile()
    failures = []

    def work(seed):
        value = np.full([1 + seed % 3, 3], seed, np.float32)
        for _ in range(100):
            if not np.array_equal(compiled.run(value), value * [1, 2, 3]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


def test_built_in_models():
    names = attache.zoo_names()
    assert "mobilenet_v2_1.0_224" in names
    model = attache.Model.zoo("mobilenet_v1_1.0_224")
    assert attache.Model(model.content()).description == model.description
    compiled = model.compile()
    assert all(operator.place == "CPU" or "folded" in operator.place for operator in compiled.placement.operators)
    profile = compiled.profile(runs=1)
    assert len(profile.steps) > 20 and profile.milliseconds > 0 and "CONV_2D" in str(profile)


def test_drawing(tmp_path):
    compiled = attache.Model(samples.chain()).compile()
    drawing = compiled.draw(tmp_path / "chain.svg")
    root = xml.etree.ElementTree.fromstring((tmp_path / "chain.svg").read_text())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["0 RELU", "1 MUL", "CPU"]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 1
    assert drawing._repr_svg_() == drawing.svg


@pytest.fixture(scope="module")
def gpu():
    """A GPU, in software where there is no other."""
    try:
        return attache.GpuDelegate(software=True)
    except ValueError as error:
        pytest.skip(f"there is no GPU, not even in software: {error}")


def test_gpu(gpu):
    assert gpu.adapter in repr(gpu)
    value = np.array([[-1, 2, 3]], np.float32)
    compiled = attache.Model(samples.chain()).compile(gpu)
    assert compiled.run(value).tolist() == [[0, 4, 9]]
    assert {operator.partition for operator in compiled.placement.operators} == {0}
    assert compiled.run(np.ones([5, 3], np.float32)).shape == (5, 3)
    assert compiled.profile(value).steps
    compiled = attache.Model(samples.chain()).compile("gpu", software=True, precision="f16", require_delegation=True)
    assert compiled.run(value).tolist() == [[0, 4, 9]]


def test_gpu_as_delegate(gpu):
    value = np.array([[-1, 2, 3]], np.float32)
    interpreter = attache.Interpreter(model_content=samples.chain(), experimental_delegates=[gpu])
    interpreter.allocate_tensors()
    for factor in [1, 2]:
        interpreter.set_tensor(0, value * factor)
        interpreter.invoke()
        assert interpreter.get_tensor(3).tolist() == [[0, 4 * factor, 9 * factor]]
        assert interpreter.get_tensor(0).tolist() == (value * factor).tolist()
    interpreter.tensor(0)()[:] = 7
    interpreter.invoke()
    assert interpreter.tensor(3)().tolist() == [[7, 14, 21]]
    details = interpreter._get_ops_details()
    assert [detail["op_name"] for detail in details] == ["RELU", "MUL", "DELEGATE"]
    assert details[2]["outputs"].tolist() == [3]
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones([2, 3], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(3).shape == (2, 3)


@pytest.mark.parametrize("options", [
    {"is_precision_loss_allowed": True}, {"is_precision_loss_allowed": -1, "inference_priority1": 2},
    {"inference_preference": 1}, {"inference_preference": "balanced"}, {"max_delegated_partitions": 1},
    {"experimental_flags": 1}, {"quantized": "exact"}, {"min_nodes_per_partition": 1, "model_token": "a"},
])
def test_gpu_options(gpu, options):
    compiled = attache.Model(samples.chain()).compile("gpu", software=True, **options)
    assert compiled.run(np.ones([1, 3], np.float32)).tolist() == [[1, 2, 3]]


def test_adapters():
    assert all(isinstance(api, str) and isinstance(name, str) for api, name in attache.adapters())
