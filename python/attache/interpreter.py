"""TensorFlow Lite's interpreter, with the names, dictionaries and exceptions of its packages for Python."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import platform
import warnings
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attache import _attache

__all__ = [
    "Delegate", "GpuDelegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner",
    "load_delegate",
]

Details = dict[str, Any]


@enum.unique
class OpResolverType(enum.Enum):
    """The kernels that LiteRT chooses between.

    Attaché has one set, whose integers are those of `BUILTIN_REF`. All values are accepted and mean the same.
    """

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Delegate:
    """A delegate that others built: a library with `tflite_plugin_create_delegate` and `tflite_plugin_destroy_delegate`.

    The code of the library runs in this process. Load only what you trust.
    """

    def __init__(self, library: str, options: Optional[dict[Any, Any]] = None) -> None:
        """Loads `library` and has it make a delegate with `options`, whose keys and values become texts.

        Raises `OSError` if the library cannot be loaded, `AttributeError` if it is no delegate, and `ValueError` with the
        reason of the library if that makes none.
        """
        if platform.python_implementation() != "CPython":
            raise RuntimeError("delegates of others need CPython, where objects end as soon as nothing refers to them")
        self._plugin = _Plugin(library)
        # The name that programs for LiteRT know.
        self._library = self._plugin.loaded
        self._address: Optional[int] = self._plugin.create(options or {})

    def __del__(self) -> None:
        # There is no address where the constructor failed.
        address, self._address = getattr(self, "_address", None), None
        if address is not None:
            self._plugin.destroy(address)

    def _get_native_delegate_pointer(self) -> Optional[int]:
        """Returns the address of the `TfLiteDelegate`, which this object destroys at its end."""
        return self._address


# What a delegate's library calls to say why it makes none, and its two functions. Python's lock is kept while they run.
_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_TEXTS = ctypes.POINTER(ctypes.c_char_p)
_CREATE = ctypes.PYFUNCTYPE(ctypes.c_void_p, _TEXTS, _TEXTS, ctypes.c_size_t, _REPORT)
_DESTROY = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Plugin:
    """The library of a delegate."""

    def __init__(self, library: str) -> None:
        _export_functions()
        self.loaded = ctypes.CDLL(library)
        self._create = _CREATE(("tflite_plugin_create_delegate", self.loaded))
        self._destroy = _DESTROY(("tflite_plugin_destroy_delegate", self.loaded))
        self._name = library

    def create(self, options: dict[Any, Any]) -> int:
        """Makes a delegate and returns its address."""
        reasons: list[Optional[bytes]] = []
        texts = [str(text).encode() for text in [*options, *options.values()]]
        array_of_texts = ctypes.c_char_p * len(options)
        keys, values = array_of_texts(*texts[:len(options)]), array_of_texts(*texts[len(options):])
        address: Optional[int] = self._create(keys, values, len(options), _REPORT(reasons.append))
        if address is None:
            reason = b" ".join(filter(None, reasons)).decode(errors="replace").strip() or "the library gives no reason"
            raise ValueError(f"{self._name} made no delegate of the options {options}: {reason}")
        return address

    def destroy(self, address: int) -> None:
        """Ends a delegate that `create` made."""
        self._destroy(address)


def _export_functions() -> None:
    """Lets libraries that are loaded later find the functions of TensorFlow Lite that opaque delegates call."""
    mode = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_GLOBAL", 0)
    if mode:
        ctypes.CDLL(_attache.__file__, mode=mode)


def load_delegate(library: str, options: Optional[dict[Any, Any]] = None) -> Delegate:
    """Loads a delegate that others built, as `Delegate(library, options)`, and names the library where it makes none."""
    try:
        return Delegate(library, options)
    except ValueError as error:
        raise ValueError(f"Failed to load delegate from {library}\n{error}") from error


class GpuDelegate:
    """Attaché's GPU delegate, for `experimental_delegates` of `Interpreter`.

    `options` are those of the command: `precision` ("f32", "f32_f16" or "f16"), `quantized` ("auto", "view" or "exact"),
    `backend` ("vulkan", "metal", "dx12" or "gl"), `adapter` (a part of the GPU's name), `software` (whether a GPU in software
    will do), `cache` (a folder), `min_nodes_per_partition`; and those of TensorFlow Lite's GPU delegate, by number or by name:
    `is_precision_loss_allowed`, `inference_preference`, `inference_priority1` to `3`, `max_delegated_partitions`,
    `experimental_flags`, `serialization_dir`, `model_token`.

    Raises `ValueError` if there is no GPU, and `TypeError` for an unknown option.
    """

    def __init__(self, **options: Any) -> None:
        self._native = _attache.NativeGpuDelegate(options)

    @property
    def adapter(self) -> str:
        """The name of the GPU."""
        return self._native.adapter()

    def __repr__(self) -> str:
        return f"GpuDelegate({self.adapter!r})"


def _native_delegate(delegate: Any) -> Any:
    """Returns what the native part takes for a delegate."""
    if isinstance(delegate, GpuDelegate):
        return delegate._native
    pointer = delegate._get_native_delegate_pointer()
    return (pointer, type(delegate).__name__, delegate)


class SignatureRunner:
    """Runs a signature of a model, by the names of its inputs and outputs. `Interpreter.get_signature_runner` makes it."""

    def __init__(self, interpreter: Optional[Interpreter] = None, signature_key: Optional[str] = None) -> None:
        if not interpreter:
            raise ValueError("None interpreter provided. A SignatureRunner needs one, and the key of a signature")
        if not signature_key:
            raise ValueError("None signature_key provided. A SignatureRunner needs the key of a signature")
        self._native = interpreter._interpreter
        signatures = self._native.signatures()
        if signature_key not in signatures:
            raise ValueError(f'Invalid signature_key provided: "{signature_key}". The model has {_listed(signatures)}')
        self._takes, self._gives = signatures[signature_key]["inputs"], signatures[signature_key]["outputs"]
        self._subgraph = self._native.signature_subgraph(signature_key)

    def __call__(self, **kwargs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Runs the signature on arrays by the names of the inputs, and returns arrays by the names of the outputs.

        Inputs take the shapes of the arrays. Raises `ValueError` for wrong names or types, and `RuntimeError` if the model
        cannot run with these shapes.
        """
        if len(kwargs) != len(self._takes):
            raise ValueError(
                f"Invalid number of inputs provided for running a SignatureDef, expected {len(self._takes)} vs provided "
                f"{len(kwargs)}: the inputs are {_listed(self._takes)}; given are {_listed(kwargs)}"
            )
        for name in kwargs.keys() - self._takes.keys():
            raise ValueError(f"Invalid Input name ({name}) for SignatureDef: the inputs are {_listed(self._takes)}")
        for name, value in kwargs.items():
            if not hasattr(value, "shape"):
                raise AttributeError(f"input {name!r} is a {type(value).__name__}; it has to be an array of NumPy")
        prepare(self._native, self._subgraph, {self._takes[name]: value.shape for name, value in kwargs.items()})
        for name, tensor in self._takes.items():
            self._native.set(tensor, kwargs[name], self._subgraph)
        self._native.invoke(self._subgraph)
        return {name: _read(self._native, tensor, self._subgraph) for name, tensor in self._gives.items()}

    def get_input_details(self) -> dict[str, Details]:
        """Returns the details of the inputs' tensors by the inputs' names, as `Interpreter.get_input_details`."""
        return self._details(self._takes)

    def get_output_details(self) -> dict[str, Details]:
        """Returns the details of the outputs' tensors by the outputs' names."""
        return self._details(self._gives)

    def _details(self, tensors: dict[str, int]) -> dict[str, Details]:
        return {name: self._native.details(tensor, self._subgraph) for name, tensor in tensors.items()}


def prepare(native: _attache.NativeInterpreter, subgraph: int, shapes: Mapping[int, Sequence[int]]) -> None:
    """Prepares a subgraph for shapes of its inputs, given by the indices of their tensors."""
    for tensor, shape in shapes.items():
        native.resize(tensor, shape, False, subgraph)
    native.allocate(subgraph)


def _read(native: _attache.NativeInterpreter, tensor: int, subgraph: int) -> NDArray[Any]:
    """Returns a copy of a tensor: as in LiteRT, NumPy's scalar for one without axes, unless it has strings."""
    value = native.get(tensor, subgraph)
    if value.shape or value.dtype.hasobject:
        return value
    scalar: NDArray[Any] = value[()]
    return scalar


def _listed(names: Iterable[str]) -> str:
    """Returns names as a text for messages."""
    return ", ".join(map(repr, names)) or "none"


class Interpreter:
    """Runs a TensorFlow Lite model: set inputs, `invoke`, get outputs.

    The methods and the order in which they are called are those of `tflite_runtime.interpreter.Interpreter` and
    `ai_edge_litert.interpreter.Interpreter`. Methods of one interpreter wait for each other if several threads call them; to
    run at the same time, threads have interpreters of their own.
    """

    def __init__(
        self,
        model_path: Optional[Union[str, bytes, os.PathLike[str]]] = None,
        model_content: Optional[bytes] = None,
        experimental_delegates: Optional[Sequence[Any]] = None,
        num_threads: Optional[int] = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
    ) -> None:
        """Opens the model at `model_path`, or with the bytes `model_content`.

        `experimental_delegates` are `GpuDelegate`s and what `load_delegate` returns, asked in this order.
        `experimental_preserve_all_tensors` keeps intermediate tensors for `get_tensor`. The other experimental options
        choose between things of LiteRT's that are not different here.

        Raises `ValueError` if an argument or the model is wrong, and `RuntimeError` if a delegate fails.
        """
        resolver = experimental_op_resolver_type
        # That of another package means the same.
        if type(resolver).__name__ != "OpResolverType":
            raise ValueError(f"Unrecognized passed in op resolver type: {resolver}. It has to be one of OpResolverType")
        _check_threads(num_threads)
        if model_path and model_content:
            raise ValueError("Can't both provide `model_path` and `model_content`: they may be different models")
        if not (model_path or model_content):
            raise ValueError("`model_path` or `model_content` must be specified. Neither is given, or it is empty")
        self._experimental_compress_quantization_zero_points = experimental_compress_quantization_zero_points
        self._delegates = list(experimental_delegates or ())
        delegates = [_native_delegate(delegate) for delegate in self._delegates]
        preserves = bool(experimental_preserve_all_tensors)
        if preserves and resolver.name in ("AUTO", "BUILTIN"):
            warnings.warn(
                "Enabling `experimental_preserve_all_tensors` with the BUILTIN or AUTO op resolver is intended for debugging: it "
                "takes memory for all intermediate tensors", stacklevel=2,
            )
        if model_content:
            make = _attache.NativeInterpreter.from_content
            self._interpreter = make(model_content, num_threads, preserves, delegates)
        elif model_path:
            make_from = _attache.NativeInterpreter.from_path
            self._interpreter = make_from(os.fsdecode(model_path), num_threads, preserves, delegates)

    def allocate_tensors(self) -> None:
        """Prepares the model for the shapes of its inputs. To be called first, and after each `resize_tensor_input`.

        Raises `RuntimeError` if the model cannot run with these shapes, or while arrays refer to memory of tensors.
        """
        self._interpreter.allocate()

    def invoke(self) -> None:
        """Runs the model on the values of its inputs. Python's interpreter lock is released meanwhile.

        Raises `RuntimeError` if the run fails, if tensors are not allocated, or while arrays refer to memory of tensors.
        """
        self._interpreter.invoke()

    def set_tensor(self, tensor_index: int, value: ArrayLike) -> None:
        """Copies an array into an input. It has to have the input's type and shape.

        Raises `ValueError` if it has not, if there is no such input, or if tensors are not allocated.
        """
        self._interpreter.set(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> NDArray[Any]:
        """Returns a copy of an output of the last run, of an input, of a constant, or of a tensor that was preserved.

        A tensor without axes is a scalar of NumPy's, or an array without axes if it has strings.

        Raises `ValueError` if there is no such tensor, or if it has no value.
        """
        return _read(self._interpreter, tensor_index, subgraph_index)

    def tensor(self, tensor_index: int) -> Callable[[], NDArray[Any]]:
        """Returns a function that returns an array of the memory of a tensor, without a copy of inputs.

        What is written to an input is what the next run reads. An array of an output is a copy that stands for the output, in
        `get_tensor` too, until the next run; constants are read-only.

        As long as such an array or a slice of it exists, `allocate_tensors`, `resize_tensor_input` and `invoke` raise
        `RuntimeError`. The function can be kept.
        """
        return lambda: self._interpreter.view(tensor_index)

    def resize_tensor_input(self, input_index: int, tensor_size: Any, strict: Any = False) -> None:
        """Sets the shape of an input, from the next `allocate_tensors` on.

        With `strict`, only extents that are -1 in the input's `shape_signature` may change. Raises `ValueError` if
        `tensor_size` is no list of whole numbers, and `RuntimeError` if the input cannot have that shape.
        """
        if not hasattr(type(strict), "__bool__"):
            raise TypeError(f"strict is {strict!r}; it has to be True or False")
        self._ensure_safe()
        shape = np.array(tensor_size, dtype=np.int32)
        if shape.ndim != 1:
            raise ValueError(f"tensor_size is {tensor_size!r}; it has to be a list of an input's extents")
        self._interpreter.resize(input_index, shape.tolist(), bool(strict))

    def reset_all_variables(self) -> None:
        """Sets variable tensors to their state before the first run. Resource variables, such as trained weights, stay."""
        self._interpreter.reset_variables()

    def get_input_details(self) -> list[Details]:
        """Returns a dictionary for each input.

        `name`, `index` (for `set_tensor`), `shape`, `shape_signature` (with -1 for extents that the caller decides), `dtype`,
        `quantization` (scale and zero point, (0.0, 0) if there are none or several), `quantization_parameters` (`scales`,
        `zero_points`, `quantized_dimension`, `block_size`) and `sparsity_parameters`.
        """
        native = self._interpreter
        return [native.details(tensor, 0) for tensor in native.inputs()]

    def get_output_details(self) -> list[Details]:
        """Returns a dictionary for each output, as `get_input_details`."""
        native = self._interpreter
        return [native.details(tensor, 0) for tensor in native.outputs()]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[Details]:
        """Returns a dictionary for each tensor of a subgraph, as `get_input_details`, in the order of the file.

        Tensors of types that NumPy does not have are left out. Raises `ValueError` if there is no such subgraph.
        """
        native, count = self._interpreter, self.num_subgraphs()
        if not 0 <= subgraph_index < count:
            raise ValueError(
                f"subgraph_index is out of range: {subgraph_index} for the model, which has {count} subgraphs, counted from 0"
            )

        def described() -> Iterator[Details]:
            for tensor in range(native.tensor_count(subgraph_index)):
                with contextlib.suppress(ValueError):
                    yield native.details(tensor, subgraph_index)

        return list(described())

    def num_subgraphs(self) -> int:
        """Returns the number of subgraphs of the model."""
        return self._interpreter.subgraph_count()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns the signatures of the model by their keys, each with the names of its `inputs` and `outputs`."""
        signatures = self._interpreter.signatures()
        return {
            key: {kind: list(names) for kind, names in signature.items()} for key, signature in signatures.items()
        }

    def get_signature_runner(self, signature_key: Optional[str] = None) -> SignatureRunner:
        """Returns what runs a signature. The key may be left out if the model has one signature.

        Raises `ValueError` if there is no such signature.
        """
        if signature_key is None:
            keys = list(self._interpreter.signatures())
            if len(keys) != 1:
                raise ValueError(
                    f"SignatureDef signature_key is None and model has {len(keys)} Signatures. None is only allowed when the "
                    f"model has 1 SignatureDef. It has {_listed(keys)}"
                )
            signature_key = keys[0]
        return SignatureRunner(self, signature_key)

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """What the constructor was given; it has no effect."""
        return self._experimental_compress_quantization_zero_points

    def _safe_to_run(self) -> bool:
        """Whether no array refers to memory of tensors."""
        return self._interpreter.is_safe()

    def _ensure_safe(self) -> None:
        """Raises `RuntimeError` while arrays refer to memory of tensors."""
        if not self._interpreter.is_safe():
            raise RuntimeError(
                "There is at least 1 reference to internal data in the interpreter in the form of a numpy array or slice. "
                "Keep the function that tensor() returns, and delete its arrays and their slices first."
            )

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        """Returns the dictionary of a tensor. Raises `ValueError` if there is no such tensor."""
        return self._interpreter.details(int(tensor_index), int(subgraph_index))

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        """Returns the signatures with the indices of the tensors."""
        return self._interpreter.signatures()

    def _get_ops_details(self) -> list[Details]:
        """Returns a dictionary for each operator, and for each partition that a delegate runs."""
        return [self._get_op_details(index) for index in range(self._interpreter.node_count())]

    def _get_op_details(self, op_index: int) -> Details:
        """Returns the dictionary of an operator: its name, and the indices and types of its inputs and outputs."""
        name, *ends = self._interpreter.node(op_index)
        # Optional inputs that are not given are -1, and have no type.
        kinds = [[self._get_tensor_details(tensor, 0)["dtype"] for tensor in end if tensor >= 0] for end in ends]
        return {
            "index": int(op_index), "op_name": name, "inputs": ends[0], "outputs": ends[1], "operand_types": kinds[0],
            "result_types": kinds[1],
        }


class InterpreterWithCustomOps(Interpreter):
    """The interpreter of LiteRT's that registers custom operators. Without registerers, it is `Interpreter`."""

    def __init__(self, custom_op_registerers: Optional[Sequence[Any]] = None, **kwargs: Any) -> None:
        """Raises `ValueError` if there are registerers: they register kernels in an interpreter of LiteRT's."""
        if custom_op_registerers:
            name = next((name for name in custom_op_registerers if isinstance(name, str)), None)
            looked_up = "" if name is None else f"Looking up symbol '{name}' failed: "
            raise ValueError(
                f"{looked_up}custom_op_registerers register kernels in an interpreter of LiteRT's, which this is not. Attaché "
                "takes custom operators in Rust (attache::OpResolver) and in C (TfLiteInterpreterOptionsAddRegistrationExternal)."
            )
        super().__init__(**kwargs)


def _check_threads(threads: Any) -> None:
    """Checks a number of threads. As in LiteRT, one that no `int` of C holds is of a wrong type."""
    if threads is None:
        return
    if not isinstance(threads, int):
        raise ValueError(f"type of num_threads should be int; it is {threads!r}")
    if threads < 1:
        raise ValueError(f"num_threads should >= 1; it is {threads!r}")
    if threads >= 2**31:
        raise TypeError(f"num_threads is {threads}; it has to be an int of 32 bits")
