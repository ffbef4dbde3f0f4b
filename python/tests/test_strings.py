"""Tensors of strings are arrays of bytes, as in LiteRT."""

import gc

import numpy as np
import pytest

import attache
import samples
import writer
from writer import Operator, Subgraph, Tensor

TEXTS = [[b"a", b"", b"zero \0 byte\0"], ["\u00e4".encode(), b"\xff\xfe", b"x" * 1000]]


def ready(content, **options):
    interpreter = attache.Interpreter(model_content=content, **options)
    interpreter.allocate_tensors()
    return interpreter


def gather():
    """The texts at some places."""
    tensors = [Tensor("texts", [2, 3], "string"), Tensor("places", [2], "int32"), Tensor("y", [2, 3], "string")]
    return writer.model([Subgraph(tensors, [Operator(writer.GATHER, [0, 1], [2])], [0, 1], [2])])


def of_texts():
    return np.array(TEXTS, dtype=object)


def test_they_are_any_bytes():
    interpreter = ready(gather())
    detail = interpreter.get_input_details()[0]
    assert (detail["dtype"], detail["shape"].tolist(), detail["quantization"]) == (np.bytes_, [2, 3], (0.0, 0))
    assert interpreter.get_tensor(0).tolist() == [[b"", b"", b""], [b"", b"", b""]]
    interpreter.set_tensor(0, of_texts())
    interpreter.set_tensor(1, np.array([1, 0], np.int32))
    interpreter.invoke()
    for tensor, wanted in [(0, TEXTS), (2, TEXTS[::-1])]:
        result = interpreter.get_tensor(tensor)
        assert result.dtype == object and result.tolist() == wanted


@pytest.mark.parametrize("value, wanted", [
    (np.array([["a", "bc", "\u00e4"]] * 2), [[b"a", b"bc", b"\xc3\xa4"]] * 2),
    (np.array([["a", "bc", "\u00e4"]] * 2, dtype=object), [[b"a", b"bc", b"\xc3\xa4"]] * 2),
    (np.asfortranarray([[b"a", b"bc", b"d"], [b"e", b"f", b"g"]]), [[b"a", b"bc", b"d"], [b"e", b"f", b"g"]]),
    ([[b"a", "b", b"c\0"]] * 2, [[b"a", b"b", b"c\0"]] * 2),
])
def test_forms_of_strings(value, wanted):
    interpreter = ready(samples.passed("string"))
    interpreter.set_tensor(0, value)
    assert interpreter.get_tensor(0).tolist() == wanted


@pytest.mark.parametrize("value", [
    np.zeros([2, 3], np.float32), np.array([b"a"] * 6), np.array([[b"a"] * 2] * 3), [[b"a", b"b", 3]] * 2,
    [[b"a", None, b"c"]] * 2, [[b"a"], [b"b", b"c"]], b"a", [["\ud800", "b", "c"]] * 2, None,
])
def test_what_is_no_array_of_strings_of_the_shape(value):
    interpreter = ready(samples.passed("string"))
    interpreter.set_tensor(0, of_texts())
    with pytest.raises(ValueError):
        interpreter.set_tensor(0, value)
    assert interpreter.get_tensor(0).tolist() == TEXTS


def test_one_string_keeps_all_its_bytes():
    interpreter = ready(samples.passed("string", ()))
    for text in [b"abcd" + bytes(16), b"", b"a"]:
        interpreter.set_tensor(0, np.array(text, f"S{max(len(text), 1)}"))
        read = interpreter.get_tensor(0)
        assert isinstance(read, np.ndarray) and read.shape == () and read.item(0) == (text or b"\0")


def test_they_may_be_set_before_tensors_are_allocated():
    interpreter = attache.Interpreter(model_content=gather())
    interpreter.set_tensor(0, of_texts())
    assert interpreter.get_tensor(0).tolist() == TEXTS
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).tolist() == TEXTS
    interpreter.set_tensor(1, np.array([1, 0], np.int32))
    interpreter.invoke()
    assert interpreter.get_tensor(2).tolist() == TEXTS[::-1]
    # Those of another shape wait for the next allocation, and are lost with a resize.
    interpreter.resize_tensor_input(0, [1, 3])
    with pytest.raises(ValueError, match="Dimension mismatch"):
        interpreter.set_tensor(0, of_texts())
    interpreter.set_tensor(0, of_texts()[:1])
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).tolist() == TEXTS[:1]
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.set_tensor(0, of_texts())
    interpreter.resize_tensor_input(0, [3, 3])
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).tolist() == [[b""] * 3] * 3


def test_resized_and_run_again():
    interpreter = ready(gather())
    for rows in [5, 1, 3]:
        interpreter.resize_tensor_input(0, [rows, 3])
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array([[b"%d" % row] * 3 for row in range(rows)]))
        interpreter.set_tensor(1, np.array([rows - 1, 0], np.int32))
        interpreter.invoke()
        assert interpreter.get_tensor(2).tolist() == [[b"%d" % (rows - 1)] * 3, [b"0"] * 3]


def test_their_memory_has_no_array():
    interpreter = ready(samples.passed("string"))
    with pytest.raises(ValueError, match="get_tensor"):
        interpreter.tensor(0)()
    gc.collect()
    interpreter.allocate_tensors()


def test_nothing_before_a_run():
    interpreter = ready(gather())
    with pytest.raises(ValueError, match="first run"):
        interpreter.get_tensor(2)


def test_model_takes_and_returns_them():
    model = attache.Model(gather())
    result = model.run(TEXTS, [1, 0])
    assert result.dtype == object and result.tolist() == TEXTS[::-1]
    assert model.run(texts=np.array([["a", "b", "c"]] * 2), places=[0, 0]).tolist() == [[b"a", b"b", b"c"]] * 2
    with pytest.raises(ValueError):
        model.run([[1, 2, 3]] * 2, [0, 0])
