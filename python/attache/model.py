"""The short way to run a model: `Model`, and `CompiledModel` for more than one run."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import os
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from attache import _attache, drawing
from attache.interpreter import GpuDelegate, prepare

__all__ = ["CompiledModel", "Model", "PlacedOperator", "Placement", "Profile", "ProfiledStep", "TensorInfo"]

# One array, or a dictionary of arrays by their names. Which of them depends on the model, which a type checker does not see.
Arrays = Any


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input or an output: its name, its shape, with -1 for extents that the caller decides, and its type of elements.

    Of a quantized tensor, an element is worth `scales × (element − zero_points)`; otherwise both are empty.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    index: int


@dataclasses.dataclass(frozen=True)
class PlacedOperator:
    """An operator, and where it runs: on the "CPU", on a delegate by its name, or nowhere ("folded into …")."""

    index: int
    name: str
    place: str
    partition: Optional[int]
    reason: Optional[str]


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where each operator runs, and why."""

    operators: tuple[PlacedOperator, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class ProfiledStep:
    """Something that ran: an operator on the CPU, or a kernel on a device, with the operators that it computes."""

    kernel: str
    operators: tuple[str, ...]
    milliseconds: float


@dataclasses.dataclass(frozen=True)
class Profile:
    """Times of the operators in one run, in the order in which they ran."""

    steps: tuple[ProfiledStep, ...]

    @property
    def milliseconds(self) -> float:
        """The sum of the steps."""
        return sum(step.milliseconds for step in self.steps)

    def __str__(self) -> str:
        total = self.milliseconds or 1.0
        lines = [f"{'ms':>9} {'part':>6}  kernel / operators"]
        for step in sorted(self.steps, key=lambda step: -step.milliseconds):
            part = step.milliseconds / total
            lines.append(f"{step.milliseconds:9.4f} {part:6.1%}  {step.kernel}: {', '.join(step.operators)}")
        return "\n".join([*lines, f"{self.milliseconds:9.4f} ms in all"])


class Model:
    """A model file.

    `Model("model.tflite").run(x)` runs it once on the CPU. `compile` chooses the device and is for more than one run.
    """

    def __init__(self, source: Union[str, os.PathLike[str], bytes]) -> None:
        """Opens the file at a path, or takes the bytes of one.

        Raises `OSError` if the file cannot be read, and `ValueError` if it is no model.
        """
        if isinstance(source, bytes):
            self._native = _attache.NativeModel.from_content(source)
        else:
            self._native = _attache.NativeModel.from_path(os.fspath(source))
        self._compiled: Optional[CompiledModel] = None

    @classmethod
    def zoo(cls, name: str) -> Model:
        """Returns a model that is built in; `attache.zoo_names()` has the names. Its weights are synthetic.

        Raises `ValueError` if there is none of that name.
        """
        model = cls.__new__(cls)
        model._native = _attache.NativeModel.zoo(name)
        model._compiled = None
        return model

    @property
    def description(self) -> str:
        """The description in the file."""
        return self._native.description()

    @property
    def signatures(self) -> list[str]:
        """The keys of the model's signatures."""
        return self._native.signatures()

    def content(self) -> bytes:
        """Returns the bytes of the file."""
        return self._native.content()

    def compile(
        self,
        device: Union[str, GpuDelegate] = "cpu",
        *,
        threads: Optional[int] = None,
        signature: Optional[str] = None,
        require_delegation: bool = False,
        cpu_fallback: bool = False,
        cache: Optional[Union[str, os.PathLike[str]]] = None,
        **options: Any,
    ) -> CompiledModel:
        """Prepares the model for a device.

        `device` is "cpu", "gpu" or an opened `GpuDelegate`; with "gpu", `options` are those of `GpuDelegate`. Operators that
        the GPU does not take run on the CPU, on `threads` threads (by default up to four), unless `require_delegation`.
        `signature` chooses a signature, `cpu_fallback` lets the CPU take over if the GPU fails, and `cache` is a folder for
        what later starts need not make again.

        Raises `ValueError` for wrong arguments or if there is no GPU, and `RuntimeError` if the model cannot be prepared.
        """
        if threads is not None:
            threads = _count("threads", threads)
        if signature is not None and signature not in self.signatures:
            raise ValueError(f"there is no signature {signature!r}; the model has {self.signatures}")
        gpu = _open(device, options, cache)
        arguments: dict[str, Any] = {
            "threads": threads, "signature": signature, "require_delegation": require_delegation,
            "cpu_fallback": cpu_fallback, "cache": None if cache is None else os.fspath(cache),
        }
        return CompiledModel(self, [gpu._native] if gpu else [], arguments)

    def run(self, *inputs: Any, dequantize: bool = False, **named: Any) -> Arrays:
        """Runs the model on the CPU, as `CompiledModel.run`. The first run compiles it."""
        if self._compiled is None:
            self._compiled = self.compile()
        return self._compiled.run(*inputs, dequantize=dequantize, **named)

    def __repr__(self) -> str:
        return f"Model({self.description!r})"


def _count(name: str, value: Any) -> int:
    """Returns an argument that is a whole number, 1 or more, also one of NumPy's."""
    number = operator.index(value) if hasattr(type(value), "__index__") and not isinstance(value, bool) else 0
    if not 1 <= number < 2**31:
        raise ValueError(f"{name} is {value!r}; it has to be a whole number of 32 bits, 1 or more")
    return number


def _open(device: Any, options: dict[str, Any], cache: Any) -> Optional[GpuDelegate]:
    """Returns the GPU that `compile` was asked for."""
    if isinstance(device, GpuDelegate) or device == "cpu":
        if options:
            raise TypeError(f"{', '.join(options)}: these options belong to device=\"gpu\"")
        return device if isinstance(device, GpuDelegate) else None
    if device != "gpu":
        raise ValueError(f'device is {device!r}; it can be "cpu", "gpu" or a GpuDelegate')
    if cache is not None:
        options = {"cache": os.fspath(cache), **options}
    return GpuDelegate(**options)


class CompiledModel:
    """A model that is ready to run on a device. `Model.compile` makes it.

    Any thread may call its methods. Runs of several threads use an interpreter each, which share the weights.
    """

    def __init__(self, model: Model, delegates: list[Any], arguments: dict[str, Any]) -> None:
        self._model, self._delegates, self._arguments = model, delegates, arguments
        self._native = model._native.compile(delegates, **arguments)
        first = self._native.interpreter()
        self._subgraph = first.main()
        # Interpreters that no thread uses now. Lists are changed by one thread at a time.
        self._idle = [first]
        self.inputs = self._infos(first, first.inputs(self._subgraph), 0)
        """The inputs, in the order of positional arguments of `run`. Their names are unique, as those of `outputs` are."""
        self.outputs = self._infos(first, first.outputs(self._subgraph), 1)
        """The outputs, in the order of the file."""

    def _infos(self, native: Any, tensors: list[int], kind: int) -> tuple[TensorInfo, ...]:
        """Describes inputs or outputs, by the names of the signature if there is one, which may name a tensor twice."""
        details = {tensor: native.details(tensor, self._subgraph) for tensor in tensors}
        key = self._arguments["signature"]
        names = self._model._native.signature_names(key) if key is not None else None
        if names:
            named = sorted((pair for pair in names[kind] if pair[1] in details), key=lambda pair: tensors.index(pair[1]))
        else:
            named = list(zip(_unique([details[tensor]["name"] for tensor in tensors]), tensors))
        return tuple(_info(name, tensor, details[tensor]) for name, tensor in named)

    def run(self, *inputs: Any, dequantize: bool = False, **named: Any) -> Arrays:
        """Runs the model on arrays, given in the order of `inputs` or by their names, or as one dictionary by names.

        Arrays have the types of the inputs, or types that NumPy converts without changing their kind (`same_kind`). Floats
        for a quantized input are quantized. Inputs take the shapes of the arrays where the model allows it.

        Returns the output, or a dictionary of outputs by their names if there are several. With `dequantize`, quantized
        outputs are floats.

        Raises `ValueError` for inputs that do not fit, `TypeError` for ones that are missing, and `RuntimeError` if the run
        fails.
        """
        native = self._take()
        try:
            self._set(native, self._values(inputs, named))
            native.invoke(self._subgraph)
            read = native.dequantize if dequantize else None
            results = [
                read(info.index) if read and info.scales else native.get(info.index, self._subgraph)
                for info in self.outputs
            ]
        finally:
            self._idle.append(native)
        if len(results) == 1:
            return results[0]
        return {info.name: result for info, result in zip(self.outputs, results)}

    def _take(self) -> Any:
        """Returns an interpreter that no other thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._native.interpreter()

    def _values(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Returns a value for each input, in their order."""
        if len(inputs) == 1 and isinstance(inputs[0], dict) and not named:
            named, inputs = inputs[0], ()
        names = [info.name for info in self.inputs]
        if len(inputs) > len(names):
            raise TypeError(f"{len(inputs)} inputs for a model that has {len(names)}")
        values: dict[str, Any] = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names:
                raise ValueError(f"there is no input {name!r}; there is {', '.join(map(repr, names))}")
            if name in values:
                raise TypeError(f"input {name!r} is given twice")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise TypeError(f"inputs are missing: {', '.join(map(repr, missing))}")
        return [values[name] for name in names]

    def _set(self, native: Any, values: list[Any]) -> None:
        """Writes values to the inputs of an interpreter, which take their shapes."""
        arrays = [_converted(value, info) for value, info in zip(values, self.inputs)]
        for array, info in zip(arrays, self.inputs):
            if array.ndim != len(info.shape):
                raise ValueError(f"input {info.name!r} has the shape {info.shape}, not {array.shape}")
        prepare(native, self._subgraph, {info.index: array.shape for array, info in zip(arrays, self.inputs)})
        for array, info in zip(arrays, self.inputs):
            if info.scales and array.dtype != info.dtype:
                native.quantize(info.index, array)
            else:
                native.set(info.index, array, self._subgraph)

    @property
    def placement(self) -> Placement:
        """Where each operator runs, and why."""
        rows = self._native.placement()
        operators = (
            PlacedOperator(index, name, place, partition if partition >= 0 else None, reason)
            for index, name, place, partition, reason in rows
        )
        return Placement(tuple(operators), self._native.placement_text())

    def profile(self, *inputs: Any, runs: int = 5, **named: Any) -> Profile:
        """Returns the time of each operator: the median of several runs, after one that is not counted.

        Without inputs, zeros are used. The model is compiled once more, so that the runs are measured.
        """
        runs = _count("runs", runs)
        native = self._model._native.compile(self._delegates, profile=True, **self._arguments).interpreter()
        if inputs or named:
            self._set(native, self._values(inputs, named))
        native.invoke(self._subgraph)
        measured = []
        for _ in range(runs):
            native.invoke(self._subgraph)
            measured.append(native.profile())
        steps = []
        for index, (kernel, operators, _) in enumerate(measured[0]):
            times = [run[index][2] for run in measured if len(run) > index]
            names = tuple(f"{place} {name}" for place, name in operators)
            steps.append(ProfiledStep(kernel, names, float(np.median(times))))
        return Profile(tuple(steps))

    def draw(self, path: Optional[Union[str, os.PathLike[str]]] = None) -> drawing.Drawing:
        """Draws the operators and what flows between them, in a colour for each place, as SVG.

        Notebooks show the result. With `path`, it is written to that file too.
        """
        picture = drawing.draw(self.placement.operators, self._native.wiring())
        if path is not None:
            picture.save(path)
        return picture

    def __repr__(self) -> str:
        places = sorted({operator.place.split(" into ")[0] for operator in self.placement.operators})
        return f"CompiledModel({len(self.placement.operators)} operators: {', '.join(places)})"


def _info(name: str, tensor: int, details: dict[str, Any]) -> TensorInfo:
    parameters = details["quantization_parameters"]
    return TensorInfo(
        name, tuple(details["shape_signature"].tolist()), np.dtype(details["dtype"]), tuple(parameters["scales"].tolist()),
        tuple(parameters["zero_points"].tolist()), tensor,
    )


def _unique(names: list[str]) -> list[str]:
    """Returns names with ":1", ":2" and so on behind those that are there already."""
    unique: list[str] = []
    for name in names:
        others = (f"{name}:{number}" for number in itertools.count(1))
        unique.append(next(other for other in itertools.chain([name], others) if other not in unique))
    return unique


def _converted(value: Any, info: TensorInfo) -> NDArray[Any]:
    """Returns a value as an array of the input's type, of strings in any form, or of 32-bit floats for a quantized input."""
    if info.dtype.kind == "S" and not isinstance(value, np.ndarray):
        # NumPy's own strings would lose zero bytes at their ends.
        return np.array(value, dtype=object)
    array: NDArray[Any] = np.asarray(value)
    if array.dtype == info.dtype or (info.dtype.kind == "S" and array.dtype.kind in "SUOT"):
        return array
    if info.scales and array.dtype.kind == "f":
        return np.asarray(array, np.float32, order="C")
    # Python's own numbers have the widest types.
    plain = not isinstance(value, (np.ndarray, np.generic))
    if plain and array.dtype.kind in "iu" and info.dtype.kind in "iuf":
        if info.dtype.kind == "f" or np.array_equal(array, array.astype(info.dtype)):
            return array.astype(info.dtype)
    if not np.can_cast(array.dtype, info.dtype, "same_kind"):
        raise ValueError(f"input {info.name!r} is of type {info.dtype}, not {array.dtype}")
    if array.dtype.kind in "iu" and not np.array_equal(array, array.astype(info.dtype)):
        raise ValueError(f"input {info.name!r} is of type {info.dtype}, which cannot hold all of the values")
    return array.astype(info.dtype)
