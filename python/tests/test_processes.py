"""Interpreters in processes that are forked, as `multiprocessing` makes them."""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")

# A child of a fork uses interpreters of its parent's, and makes others. What fails there is printed, and the status tells.
PROGRAM = """
import os, sys, traceback
sys.path.insert(0, {tests!r})
import attache, numpy, samples

def make():
    return [attache.Interpreter(model_content=samples.relu(), num_threads=4) for _ in range(20)]

def use(interpreter):
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, numpy.float32([[-1, 2, -3], [4, -5, 6]]))
    interpreter.invoke()
    return interpreter.get_tensor(1).tolist()

{body}
child = os.fork()
if child == 0:
    status = 1
    try:
        in_child()
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)
_, status = os.waitpid(child, 0)
assert status == 0, status
"""


def run(body):
    program = PROGRAM.format(tests=str(pathlib.Path(__file__).parent), body=body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_process_uses_and_drops_interpreters_of_its_parent():
    run("""
parents = make()
expected = [use(one) for one in parents]

def in_child():
    global parents
    assert [use(one) for one in parents] == expected
    parents = make()
    assert [use(one) for one in parents] == expected
""")


def test_a_forked_process_is_told_that_the_device_is_its_parents():
    run("""
parent = attache.Interpreter(
    model_content=samples.relu(), experimental_delegates=[attache.GpuDelegate(software=True)])
use(parent)

def in_child():
    try:
        use(parent)
    except RuntimeError as error:
        assert "forked" in str(error), error
        return
    raise AssertionError("a run on the parent's device was started")
""")
