"""Wrong uses raise the class of exception that LiteRT raises."""

import warnings

import pytest

import attache
import attache.tflite
import wrong_uses


def error_of(tflite, name, folder):
    """The exception that a wrong use raises; `None` if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wrong_uses.USES[name](tflite, folder)
        except Exception as error:
            return error
    return None


def outcome(tflite, name, folder):
    """The class of the exception that a wrong use raises; `None` if there is none."""
    error = error_of(tflite, name, folder)
    return None if error is None else type(error)


def test_there_are_enough():
    assert sum(expected is not None for expected in wrong_uses.EXPECTED.values()) >= 60


@pytest.mark.parametrize("name", wrong_uses.USES)
def test_exception(name, tmp_path):
    assert outcome(attache.tflite, name, tmp_path) is wrong_uses.EXPECTED[name]


@pytest.mark.parametrize("name", wrong_uses.USES)
def test_exception_of_litert(name, tmp_path, litert):
    assert outcome(litert, name, tmp_path) is wrong_uses.EXPECTED[name]


@pytest.mark.parametrize("name", [name for name, expected in wrong_uses.EXPECTED.items() if expected is not None])
def test_exceptions_say_something(name, tmp_path):
    with pytest.raises(wrong_uses.EXPECTED[name]) as raised:
        wrong_uses.USES[name](attache.tflite, tmp_path)
    assert str(raised.value).strip()


@pytest.mark.parametrize("name", wrong_uses.SAYS)
def test_exceptions_say_what_programs_look_for(name, tmp_path):
    assert wrong_uses.SAYS[name] in str(error_of(attache.tflite, name, tmp_path))


@pytest.mark.parametrize("name", wrong_uses.SAYS)
def test_exceptions_of_litert_say_it_too(name, tmp_path, litert):
    assert wrong_uses.SAYS[name] in str(error_of(litert, name, tmp_path))


def test_a_file_that_cannot_be_opened_is_named_once(tmp_path):
    path = str(tmp_path / "missing.tflite")
    for make, expected in [(attache.tflite.Interpreter, ValueError), (attache.Model, OSError)]:
        with pytest.raises(expected) as raised:
            make(path)
        assert str(raised.value).count(path) == 1
