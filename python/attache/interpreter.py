"""TensorFlow Lite's interpreter, with the names, dictionaries and exceptions of its packages for Python."""

from __future__ import annotations

import ctypes
import enum
import os
import platform
from typing import Any, Callable, Optional, Union

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
        self._library: Any = None
        if platform.python_implementation() != "CPython":
            raise RuntimeError("delegates of others need CPython, which destroys them in time")
        _export_functions()
        loaded = ctypes.PyDLL(library)
        report_type = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        texts = ctypes.POINTER(ctypes.c_char_p)
        loaded.tflite_plugin_create_delegate.argtypes = [texts, texts, ctypes.c_size_t, report_type]
        loaded.tflite_plugin_create_delegate.restype = ctypes.c_void_p
        loaded.tflite_plugin_destroy_delegate.argtypes = [ctypes.c_void_p]
        loaded.tflite_plugin_destroy_delegate.restype = None
        given = options or {}
        keys = (ctypes.c_char_p * len(given))(*(str(key).encode() for key in given))
        values = (ctypes.c_char_p * len(given))(*(str(value).encode() for value in given.values()))
        reasons: list[str] = []
        report = report_type(lambda text: reasons.append(text.decode(errors="replace")))
        self._delegate_ptr = loaded.tflite_plugin_create_delegate(keys, values, len(given), report)
        if self._delegate_ptr is None:
            raise ValueError("".join(reasons))
        self._library = loaded

    def __del__(self) -> None:
        library, self._library = getattr(self, "_library", None), None
        if library is not None:
            library.tflite_plugin_destroy_delegate(self._delegate_ptr)

    def _get_native_delegate_pointer(self) -> int:
        """Returns the address of the `TfLiteDelegate`, which this object destroys at its end."""
        pointer: int = self._delegate_ptr
        return pointer


def _export_functions() -> None:
    """Lets libraries that are loaded later find the functions of TensorFlow Lite that opaque delegates call."""
    mode = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_GLOBAL", 0)
    if mode:
        ctypes.CDLL(_attache.__file__, mode=mode)


def load_delegate(library: str, options: Optional[dict[Any, Any]] = None) -> Delegate:
    """Loads a delegate that others built, as `Delegate` does.

    Raises `ValueError`, with the name of the library and its reason, if the library makes no delegate.
    """
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
            raise ValueError("None interpreter provided.")
        if not signature_key:
            raise ValueError("None signature_key provided.")
        signatures = interpreter._get_full_signature_list()
        if signature_key not in signatures:
            known = ", ".join(f'"{key}"' for key in signatures) or "none"
            raise ValueError(f'Invalid signature_key provided: "{signature_key}". The model has {known}.')
        self._interpreter = interpreter
        self._interpreter_wrapper = interpreter._interpreter
        self._signature_key = signature_key
        self._signature_def = signatures[signature_key]
        self._inputs = self._signature_def["inputs"]
        self._outputs = self._signature_def["outputs"].items()
        self._subgraph_index = self._interpreter_wrapper.signature_subgraph(signature_key)

    def __call__(self, **kwargs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Runs the signature on arrays by the names of the inputs, and returns arrays by the names of the outputs.

        Inputs take the shapes of the arrays. Raises `ValueError` for wrong names or types, and `RuntimeError` if the model
        cannot run with these shapes.
        """
        if len(kwargs) != len(self._inputs):
            raise ValueError(
                f"Invalid number of inputs provided for running a SignatureDef, expected {len(self._inputs)} vs provided "
                f"{len(kwargs)}"
            )
        native, subgraph = self._interpreter_wrapper, self._subgraph_index
        for name, value in kwargs.items():
            if name not in self._inputs:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef; it has {', '.join(self._inputs)}")
            native.resize(self._inputs[name], value.shape, False, subgraph)
        native.allocate(subgraph)
        for name, value in kwargs.items():
            native.set(self._inputs[name], value, subgraph)
        native.invoke(subgraph)
        return {name: native.get(tensor, subgraph) for name, tensor in self._outputs}

    def get_input_details(self) -> dict[str, Details]:
        """Returns the details of the inputs' tensors by the inputs' names, as `Interpreter.get_input_details`."""
        native, subgraph = self._interpreter_wrapper, self._subgraph_index
        return {name: native.details(tensor, subgraph) for name, tensor in self._inputs.items()}

    def get_output_details(self) -> dict[str, Details]:
        """Returns the details of the outputs' tensors by the outputs' names."""
        native, subgraph = self._interpreter_wrapper, self._subgraph_index
        return {name: native.details(tensor, subgraph) for name, tensor in self._outputs}


class Interpreter:
    """Runs a TensorFlow Lite model: set inputs, `invoke`, get outputs.

    The methods and the order in which they are called are those of `tflite_runtime.interpreter.Interpreter` and
    `ai_edge_litert.interpreter.Interpreter`. Methods of one interpreter wait for each other if several threads call them; to
    run at the same time, threads have interpreters of their own.
    """

    def __init__(
        self,
        model_path: Optional[Union[str, os.PathLike[str]]] = None,
        model_content: Optional[bytes] = None,
        experimental_delegates: Optional[list[Any]] = None,
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
        kinds = [kind for kind in OpResolverType if experimental_op_resolver_type == kind]
        if not kinds and getattr(type(experimental_op_resolver_type), "__name__", "") != "OpResolverType":
            raise ValueError(f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}")
        if num_threads is not None:
            if not isinstance(num_threads, int):
                raise ValueError("type of num_threads should be int")
            if num_threads < 1:
                raise ValueError("num_threads should >= 1")
        if not hasattr(self, "_custom_op_registerers"):
            self._custom_op_registerers: list[Any] = []
        self._experimental_compress_quantization_zero_points = experimental_compress_quantization_zero_points
        if not model_path and not model_content:
            raise ValueError("`model_path` or `model_content` must be specified.")
        if model_path and model_content:
            raise ValueError("Can't both provide `model_path` and `model_content`")
        if self._custom_op_registerers:
            raise ValueError(
                "custom_op_registerers register kernels in an interpreter of LiteRT's, which this is not. Attaché takes custom "
                "operators in Rust (attache::OpResolver) and in C (TfLiteInterpreterOptionsAddRegistrationExternal)."
            )
        self._delegates = experimental_delegates or []
        delegates = [_native_delegate(delegate) for delegate in self._delegates]
        preserves = bool(experimental_preserve_all_tensors)
        if model_path:
            path = os.fspath(model_path)
            self._interpreter = _attache.NativeInterpreter.from_path(path, num_threads, preserves, delegates)
        elif model_content:
            self._interpreter = _attache.NativeInterpreter.from_content(
                model_content, num_threads, preserves, delegates
            )
        self._signature_defs = self.get_signature_list()

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

        Raises `ValueError` if there is no such tensor, or if it has no value.
        """
        return self._interpreter.get(tensor_index, subgraph_index)

    def tensor(self, tensor_index: int) -> Callable[[], NDArray[Any]]:
        """Returns a function that returns an array of the memory of a tensor, without a copy. Outputs are read-only.

        As long as such an array or a slice of it exists, `allocate_tensors`, `resize_tensor_input` and `invoke` raise
        `RuntimeError`. The function can be kept.
        """
        return lambda: self._interpreter.view(tensor_index)

    def resize_tensor_input(self, input_index: int, tensor_size: Any, strict: bool = False) -> None:
        """Sets the shape of an input, from the next `allocate_tensors` on.

        With `strict`, only extents that are -1 in the input's `shape_signature` may change. Raises `ValueError` if
        `tensor_size` is no list of whole numbers, and `RuntimeError` if the input cannot have that shape.
        """
        self._ensure_safe()
        shape = np.array(tensor_size, dtype=np.int32)
        if shape.ndim != 1:
            raise ValueError(f"Shape should be 1D instead of {shape.ndim}.")
        self._interpreter.resize(input_index, shape.tolist(), strict)

    def reset_all_variables(self) -> None:
        """Sets variables to their state before the first run."""
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
        count = self.num_subgraphs()
        if subgraph_index < 0 or subgraph_index >= count:
            raise ValueError(f"subgraph_index is out of range: {subgraph_index}; the model has {count} subgraphs")
        details = []
        for tensor in range(self._interpreter.tensor_count(subgraph_index)):
            try:
                details.append(self._interpreter.details(tensor, subgraph_index))
            except ValueError:
                pass
        return details

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
            if len(self._signature_defs) != 1:
                count = len(self._signature_defs)
                raise ValueError(f"signature_key is None, and the model has {count} signatures rather than one")
            signature_key = next(iter(self._signature_defs))
        return SignatureRunner(interpreter=self, signature_key=signature_key)

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
                "Keep the function that tensor() returns, and drop the arrays that it returns."
            )

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        """Returns the dictionary of a tensor. Raises `ValueError` if there is no such tensor."""
        return self._interpreter.details(int(tensor_index), subgraph_index)

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        """Returns the signatures with the indices of the tensors."""
        return self._interpreter.signatures()

    def _get_ops_details(self) -> list[Details]:
        """Returns a dictionary for each operator, and for each partition that a delegate runs."""
        return [self._get_op_details(index) for index in range(self._interpreter.node_count())]

    def _get_op_details(self, op_index: int) -> Details:
        """Returns the dictionary of an operator: its name, and the indices and types of its inputs and outputs."""
        name, inputs, outputs = self._interpreter.node(op_index)

        def types(tensors: NDArray[np.int32]) -> list[Any]:
            return [self._interpreter.details(int(tensor), 0)["dtype"] for tensor in tensors if tensor != -1]

        return {
            "index": int(op_index), "op_name": name, "inputs": inputs, "outputs": outputs,
            "operand_types": types(inputs), "result_types": types(outputs),
        }


class InterpreterWithCustomOps(Interpreter):
    """The interpreter of LiteRT's that registers custom operators. Without registerers, it is `Interpreter`."""

    def __init__(self, custom_op_registerers: Optional[list[Any]] = None, **kwargs: Any) -> None:
        """Raises `ValueError` if there are registerers: they register kernels in an interpreter of LiteRT's."""
        self._custom_op_registerers = custom_op_registerers or []
        super().__init__(**kwargs)
