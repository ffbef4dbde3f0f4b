"""Programs written for other packages find Attaché under their names."""

import importlib.metadata
import re
import subprocess
import sys

import pytest

import attache
import samples
from conftest import ROOT


def python(program, *arguments):
    """Runs a program in a process of its own, and returns what it prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


USE = """
interpreter = {interpreter}
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones([1, 3], np.float32))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist())
"""


@pytest.mark.parametrize(("imports", "interpreter"), [
    ("import attache.tflite as tflite", "tflite.Interpreter(model_path=sys.argv[1])"),
    ("import tflite_runtime.interpreter as tflite", "tflite.Interpreter(model_path=sys.argv[1], num_threads=2)"),
    ("from tflite_runtime.interpreter import Interpreter, load_delegate", "Interpreter(sys.argv[1])"),
    ("from ai_edge_litert.interpreter import Interpreter, OpResolverType", "Interpreter(model_path=sys.argv[1])"),
    ("import tensorflow as tf", "tf.lite.Interpreter(model_content=open(sys.argv[1], 'rb').read())"),
    ("import tensorflow.lite as tflite", "tflite.Interpreter(sys.argv[1])"),
    ("from tensorflow import lite", "lite.Interpreter(sys.argv[1])"),
    ("from tensorflow.lite.python.interpreter import Interpreter", "Interpreter(sys.argv[1])"),
    ("import tensorflow as tf; tf.lite.experimental.load_delegate", "tf.lite.Interpreter(sys.argv[1])"),
])
def test_names(imports, interpreter, tmp_path):
    path = tmp_path / "chain.tflite"
    path.write_bytes(samples.chain())
    start = "import sys, numpy as np, attache.tflite\nattache.tflite.install(force=True)\n"
    program = start + imports + USE.format(interpreter=interpreter)
    assert python(program, path) == "[[1.0, 2.0, 3.0]]"


def test_what_is_installed_stays():
    program = """
import sys, types, attache.tflite
sys.modules["tflite_runtime"] = mine = types.ModuleType("tflite_runtime")
assert "tflite_runtime" not in attache.tflite.install()
assert sys.modules["tflite_runtime"] is mine
assert attache.tflite.install("tflite_runtime", force=True) == ["tflite_runtime"]
assert sys.modules["tflite_runtime"] is not mine
# What was imported comes back, also after several calls.
attache.tflite.install("tflite_runtime", force=True)
attache.tflite.uninstall("tflite_runtime")
assert sys.modules["tflite_runtime"] is mine
attache.tflite.uninstall()
assert sys.modules["tflite_runtime"] is mine
del sys.modules["tflite_runtime"]
attache.tflite.install(("tflite_runtime", "tensorflow"), force=True)
import tensorflow, tflite_runtime.interpreter
attache.tflite.uninstall(["tensorflow", "tflite_runtime"])
assert not any(name.startswith(("tensorflow", "tflite_runtime")) for name in sys.modules)
try:
    attache.tflite.uninstall("tensor")
    raise SystemExit("a package that there is not")
except ValueError as error:
    assert str(error).startswith("tensor: ")
try:
    attache.tflite.install(["torch"])
except ValueError as error:
    print(error)
"""
    assert python(program).startswith("torch: there are only tflite_runtime")


def test_packages_have_versions_of_their_own():
    program = """
import attache.tflite
attache.tflite.install(force=True)
import ai_edge_litert, tensorflow as tf, tflite_runtime
for package in (tf, ai_edge_litert, tflite_runtime):
    assert tuple(map(int, package.__version__.split("."))) >= (2, 0, 0), package
print(tflite_runtime.__version__)
"""
    assert python(program) == "2.14.0"


def test_the_version_is_that_of_the_package():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", attache.__version__)
    try:
        assert importlib.metadata.version("attache") == attache.__version__
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


def test_the_package_has_its_licenses():
    try:
        files = importlib.metadata.files("attache") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")
    texts = {file.name: file.read_text() for file in files if file.name.startswith("LICENSE")}
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        assert texts[name] == (ROOT / name).read_text()


def test_what_is_not_there_is_an_error():
    program = """
import attache.tflite
attache.tflite.install(force=True)
import tensorflow as tf
try:
    tf.keras
except AttributeError as error:
    print(error)
"""
    said = python(program)
    assert "'keras'" in said and "Attaché" in said


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "attache", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_the_command(tmp_path):
    assert "Exit status" in command("--help").stdout
    path = tmp_path / "relu.tflite"
    path.write_bytes(samples.relu())
    done = command("inspect", path)
    assert done.returncode == 0 and "RELU" in done.stdout
    assert command("no-such-command").returncode == 2
    path.write_bytes(b"garbage")
    assert command("inspect", path).returncode == 3
