"""The names of `tflite_runtime.interpreter`, `ai_edge_litert.interpreter` and `tensorflow.lite`, by Attaché.

    import attache.tflite as tflite

    interpreter = tflite.Interpreter("model.tflite")

For programs that cannot be changed, `install` makes their imports find this module.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Iterable

from attache.interpreter import (
    Delegate,
    GpuDelegate,
    Interpreter,
    InterpreterWithCustomOps,
    OpResolverType,
    SignatureRunner,
    load_delegate,
)

__all__ = [
    "Delegate", "GpuDelegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner",
    "experimental", "install", "load_delegate", "uninstall",
]

# The versions whose interpreter this is. Programs read them to choose between ways to write the same.
VERSIONS = {"tflite_runtime": "2.14.0", "ai_edge_litert": "2.3.0", "tensorflow": "2.19.0"}

PACKAGES = tuple(VERSIONS)
"""The packages whose names `install` can take."""

# What was imported under these names before `install`, by package.
_replaced: dict[str, dict[str, types.ModuleType]] = {}

# `tf.lite.experimental`.
experimental = types.ModuleType("attache.tflite.experimental", "Names of `tensorflow.lite.experimental`.")
vars(experimental).update(load_delegate=load_delegate, OpResolverType=OpResolverType)


def install(packages: Iterable[str] = PACKAGES, *, force: bool = False) -> list[str]:
    """Makes imports of other packages' interpreters find Attaché's, in this process, and returns the packages.

    Afterwards `import tflite_runtime.interpreter`, `from ai_edge_litert.interpreter import Interpreter` and
    `import tensorflow as tf; tf.lite.Interpreter` work without these packages. A package that is imported already, or that is
    installed, is left as it is unless `force`. `__version__` of each is that of a release with this interpreter.

    Of `tensorflow` there is `lite` alone, which may mislead other packages that look whether there is a TensorFlow. A program
    that uses such packages names those that it needs: `install(["tflite_runtime", "ai_edge_litert"])`.

    Raises `ValueError` for other packages than those in `PACKAGES`.
    """
    installed = []
    for package in _known(packages):
        if not force and not _is_ours(package) and _exists(package):
            continue
        before = _taken_out(lambda name: name == package or name.startswith(package + "."))
        if not getattr(before.get(package), "__attache__", False):
            _replaced[package] = before
        sys.modules.update(_modules(package))
        installed.append(package)
    return installed


def uninstall(packages: Iterable[str] = PACKAGES) -> None:
    """Takes back what `install` did: imports find again what they found before. Names that programs have imported stay theirs.

    Raises `ValueError` for other packages than those in `PACKAGES`.
    """
    for package in _known(packages):
        if _is_ours(package):
            _taken_out(set(_modules(package)).__contains__)
            sys.modules.update(_replaced.pop(package, {}))


def _known(packages: Iterable[str]) -> list[str]:
    """Returns the packages that a program names, one or several."""
    wanted = [packages] if isinstance(packages, str) else list(packages)
    unknown = [package for package in wanted if package not in PACKAGES]
    if unknown:
        raise ValueError(f"{', '.join(map(str, unknown))}: there are only {', '.join(PACKAGES)}")
    return wanted


def _taken_out(is_meant: Callable[[str], bool]) -> dict[str, types.ModuleType]:
    """Takes modules out of those that are imported, and returns them by their names."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if is_meant(name)}


def _exists(package: str) -> bool:
    """Whether a package is imported or installed."""
    import importlib.util

    if package in sys.modules:
        return True
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _is_ours(package: str) -> bool:
    return getattr(sys.modules.get(package), "__attache__", False) is True


def _modules(package: str) -> dict[str, types.ModuleType]:
    """Returns the modules of a package by their full names."""
    root = _module(package, {"__version__": VERSIONS[package], "__attache__": True}, is_package=True)
    if package != "tensorflow":
        interpreter = _module(package + ".interpreter", _names())
        vars(root)["interpreter"] = interpreter
        return {package: root, package + ".interpreter": interpreter}
    lite = _module("tensorflow.lite", {**_names(), "experimental": experimental}, is_package=True)
    python = _module("tensorflow.lite.python", {}, is_package=True)
    interpreter = _module("tensorflow.lite.python.interpreter", _names())
    vars(root)["lite"], vars(lite)["python"], vars(python)["interpreter"] = lite, python, interpreter
    modules = [root, lite, python, interpreter]
    return {**{module.__name__: module for module in modules}, "tensorflow.lite.experimental": experimental}


def _names() -> dict[str, Any]:
    return {
        "Delegate": Delegate, "Interpreter": Interpreter, "InterpreterWithCustomOps": InterpreterWithCustomOps,
        "OpResolverType": OpResolverType, "SignatureRunner": SignatureRunner, "load_delegate": load_delegate,
    }


def _module(name: str, names: dict[str, Any], is_package: bool = False) -> types.ModuleType:
    """Makes a module that imports find, with an empty path if it is a package."""
    import importlib.machinery

    module = types.ModuleType(name, f"The names of `{name}`, by Attaché (`attache.tflite.install`).")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=is_package)
    if is_package:
        module.__path__ = []
    vars(module).update(names)

    def missing(attribute: str) -> Any:
        text = f"module '{name}' has no attribute '{attribute}': Attaché stands in for it, with the interpreter alone"
        raise AttributeError(f"{text} (attache.tflite.install). Install the package itself for the rest")

    vars(module)["__getattr__"] = missing
    return module
