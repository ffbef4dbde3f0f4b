"""Wrong uses raise the class of exception that LiteRT raises."""

import warnings

import pytest

import attache.tflite
import wrong_uses


def outcome(tflite, name, folder):
    """The class of the exception that a wrong use raises; `None` if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wrong_uses.USES[name](tflite, folder)
        except Exception as error:
            return type(error)
    return None


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
