"""Delegates that others built, loaded from libraries that are compiled for the tests."""

import ctypes
import gc
import shutil
import subprocess

import numpy as np
import pytest

import attache
import samples
from conftest import ROOT

SOURCES = ROOT / "crates/attache-external/tests/c"


@pytest.fixture(scope="session", params=["arithmetic", "opaque"])
def library(request, tmp_path_factory):
    """A delegate that takes ADD and MUL: a classic one, and one that calls the functions of the opaque interface."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("delegates") / f"{request.param}.so"
    command = ["cc", "-std=c11", "-O1", "-fPIC", "-shared", str(SOURCES / f"{request.param}.c"), "-o", str(path)]
    subprocess.run(command, check=True)
    return str(path)


def run(interpreter):
    """The sum of two arrays."""
    for tensor, value in enumerate([[1, 2], [3, 5]]):
        interpreter.set_tensor(tensor, np.array(value, np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(2).tolist()


def test_a_delegate_of_a_library(library):
    delegate = attache.load_delegate(library)
    interpreter = attache.Interpreter(model_content=samples.signatures(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    assert run(interpreter) == [4, 7]
    names = [detail["op_name"] for detail in interpreter._get_ops_details()]
    assert names == ["ADD", "DELEGATE"]
    # In whichever order they end.
    del delegate
    gc.collect()
    assert run(interpreter) == [4, 7]
    view = interpreter.tensor(2)()
    del interpreter
    gc.collect()
    assert view.tolist() == [4, 7]


def test_a_delegate_may_not_use_the_interpreter_that_runs_it(library):
    if not library.endswith("arithmetic.so"):
        pytest.skip("this delegate calls nothing")
    interpreter = attache.Interpreter(
        model_content=samples.signatures(), experimental_delegates=[attache.load_delegate(library)]
    )
    interpreter.allocate_tensors()
    said = []

    def call():
        for method in (lambda: interpreter.get_tensor(2), interpreter.invoke, interpreter.reset_all_variables):
            try:
                method()
            except (RuntimeError, ValueError) as error:
                said.append(str(error))

    callback = ctypes.CFUNCTYPE(None)(call)
    called = ctypes.c_void_p.in_dll(ctypes.CDLL(library), "arithmetic_called")
    called.value = ctypes.cast(callback, ctypes.c_void_p).value
    try:
        assert run(interpreter) == [4, 7]
    finally:
        called.value = None
    assert len(said) == 3 and all("this interpreter runs" in text for text in said)
    assert run(interpreter) == [4, 7]


def test_several_interpreters_share_a_delegate(library):
    delegate = attache.load_delegate(library)
    for _ in range(3):
        interpreter = attache.Interpreter(model_content=samples.signatures(), experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        assert run(interpreter) == [4, 7]


def test_an_unknown_option_is_an_error(library):
    if "opaque" in library:
        pytest.skip("this delegate takes any options")
    reason = "arithmetic.so made no delegate of the options .*speed.*: .*unknown"
    for load, said in [(attache.Delegate, reason), (attache.load_delegate, f"^Failed to load delegate from .*\n.*{reason}")]:
        with pytest.raises(ValueError, match=said):
            load(library, {"speed": 1})


def test_delegates_and_their_library_have_the_names_that_programs_know(library):
    delegate = attache.load_delegate(library)
    interpreter = attache.Interpreter(model_content=samples.signatures(), experimental_delegates=[delegate])
    assert interpreter._delegates == [delegate] and delegate._library.tflite_plugin_create_delegate
    assert attache.Interpreter(model_content=samples.signatures())._delegates == []


def test_a_delegate_that_fails_is_an_error(library):
    if "opaque" in library:
        pytest.skip("this delegate does not fail")
    delegate = attache.load_delegate(library, {"fault": "prepare"})
    with pytest.raises(RuntimeError):
        attache.Interpreter(model_content=samples.signatures(), experimental_delegates=[delegate])


def test_a_delegate_of_the_program_itself(library):
    loaded = attache.load_delegate(library)

    class Own:
        def _get_native_delegate_pointer(self):
            return loaded._get_native_delegate_pointer()

    interpreter = attache.Interpreter(model_content=samples.signatures(), experimental_delegates=[Own()])
    interpreter.allocate_tensors()
    assert run(interpreter) == [4, 7]
