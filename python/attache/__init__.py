"""Runs TensorFlow Lite models on the CPU and on any GPU.

`Model` is the short way: `attache.Model("model.tflite").run(x)`, or `.compile(device="gpu")` for more than one run.
`Interpreter` is the interpreter of `tflite_runtime` and `ai_edge_litert`; `attache.tflite` has everything of theirs.
"""

from attache._attache import __version__, adapters, zoo_names
from attache.interpreter import (
    Delegate,
    GpuDelegate,
    Interpreter,
    InterpreterWithCustomOps,
    OpResolverType,
    SignatureRunner,
    load_delegate,
)
from attache.model import CompiledModel, Model, Placement, PlacedOperator, Profile, ProfiledStep, TensorInfo

__all__ = [
    "CompiledModel",
    "Delegate",
    "GpuDelegate",
    "Interpreter",
    "InterpreterWithCustomOps",
    "Model",
    "OpResolverType",
    "PlacedOperator",
    "Placement",
    "Profile",
    "ProfiledStep",
    "SignatureRunner",
    "TensorInfo",
    "__version__",
    "adapters",
    "load_delegate",
    "zoo_names",
]
