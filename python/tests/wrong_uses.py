"""Wrong uses of the interpreter, each a function of a module with `Interpreter` and of a folder for files.

`USES` has them by name. The tests hold that each raises the class of exception that LiteRT raises (`EXPECTED`), and, where
LiteRT is installed, that `EXPECTED` is what it raises. `SAYS` has words that both say: programs look for them.
"""

import pathlib

import numpy as np

import samples

USES, EXPECTED, SAYS = {}, {}, {}


def use(expected, says=None):
    """Registers a wrong use with the class of its exception, `None` where there is none, and what its text has to say."""
    def register(function):
        USES[function.__name__], EXPECTED[function.__name__] = function, expected
        if says:
            SAYS[function.__name__] = says
        return function
    return register


def ready(tflite, content=None, **options):
    """An interpreter whose tensors are allocated."""
    interpreter = tflite.Interpreter(model_content=content or samples.chain(), **options)
    interpreter.allocate_tensors()
    return interpreter


@use(ValueError, "`model_path` or `model_content` must be specified.")
def no_model(tflite, folder):
    tflite.Interpreter()


@use(ValueError, "`model_path` or `model_content` must be specified.")
def empty_content(tflite, folder):
    tflite.Interpreter(model_content=b"")


@use(ValueError)
def empty_path(tflite, folder):
    tflite.Interpreter(model_path="")


@use(ValueError, "Can't both provide `model_path` and `model_content`")
def path_and_content(tflite, folder):
    tflite.Interpreter(model_path="a.tflite", model_content=samples.relu())


@use(ValueError, "Could not open '")
def missing_file(tflite, folder):
    tflite.Interpreter(model_path=str(folder / "missing.tflite"))


@use(ValueError, "Could not open '")
def missing_file_as_path(tflite, folder):
    tflite.Interpreter(model_path=folder / "missing.tflite")


@use(ValueError, "The model is not a valid Flatbuffer buffer")
def file_of_garbage(tflite, folder):
    path = pathlib.Path(folder) / "garbage.tflite"
    path.write_bytes(b"garbage" * 100)
    tflite.Interpreter(model_path=str(path))


@use(ValueError)
def empty_file(tflite, folder):
    path = pathlib.Path(folder) / "empty.tflite"
    path.write_bytes(b"")
    tflite.Interpreter(model_path=str(path))


@use(ValueError)
def folder_as_path(tflite, folder):
    tflite.Interpreter(model_path=str(folder))


@use(ValueError, "The model is not a valid Flatbuffer buffer")
def garbage_content(tflite, folder):
    tflite.Interpreter(model_content=b"garbage")


@use(ValueError)
def long_garbage_content(tflite, folder):
    tflite.Interpreter(model_content=b"garbage" * 100)


@use(ValueError, "The model is not a valid Flatbuffer buffer")
def truncated_content(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()[:200])


@use(ValueError, "The model is not a valid Flatbuffer buffer")
def other_identifier(tflite, folder):
    content = bytearray(samples.relu())
    content[4:8] = b"TFL9"
    tflite.Interpreter(model_content=bytes(content))


@use(TypeError)
def path_is_number(tflite, folder):
    tflite.Interpreter(model_path=5)


@use(TypeError)
def path_is_list(tflite, folder):
    tflite.Interpreter(model_path=["a.tflite"])


@use(TypeError)
def content_is_number(tflite, folder):
    tflite.Interpreter(model_content=5)


@use(TypeError)
def content_is_text(tflite, folder):
    tflite.Interpreter(model_content="text")


@use(TypeError)
def content_is_list(tflite, folder):
    tflite.Interpreter(model_content=[1, 2])


@use(TypeError)
def content_is_bytearray(tflite, folder):
    tflite.Interpreter(model_content=bytearray(samples.relu()))


@use(TypeError)
def content_is_memoryview(tflite, folder):
    tflite.Interpreter(model_content=memoryview(samples.relu()))


@use(TypeError)
def unknown_argument(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), speed=1)


@use(ValueError, "num_threads should >= 1")
def zero_threads(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=0)


@use(ValueError, "num_threads should >= 1")
def negative_threads(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=-1)


@use(ValueError, "type of num_threads should be int")
def threads_are_text(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads="4")


@use(ValueError, "type of num_threads should be int")
def threads_are_float(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=4.0)


@use(ValueError, "Unrecognized passed in op resolver type: BUILTIN")
def resolver_is_text(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_op_resolver_type="BUILTIN")


@use(ValueError, "Unrecognized passed in op resolver type: 1")
def resolver_is_number(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_op_resolver_type=1)


@use(AttributeError)
def delegate_is_number(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_delegates=[5])


@use(TypeError)
def delegates_are_number(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_delegates=5)


@use(OSError)
def missing_delegate(tflite, folder):
    tflite.load_delegate(str(folder / "missing.so"))


@use(OSError)
def delegate_is_no_library(tflite, folder):
    path = pathlib.Path(folder) / "text.so"
    path.write_text("text")
    tflite.load_delegate(str(path))


@use(AttributeError)
def library_without_delegate(tflite, folder):
    tflite.load_delegate("libc.so.6")


@use(ValueError)
def unknown_operator_version(tflite, folder):
    tflite.Interpreter(model_content=samples.unknown())


@use(RuntimeError, "Encountered unresolved custom op: Unheard.")
def custom_operator(tflite, folder):
    tflite.Interpreter(model_content=samples.custom()).allocate_tensors()


@use(ValueError, "Looking up symbol 'no_such_symbol' failed")
def registerer_that_does_not_exist(tflite, folder):
    tflite.InterpreterWithCustomOps(model_content=samples.custom(), custom_op_registerers=["no_such_symbol"])


@use(RuntimeError, "Invoke called on model that is not ready")
def invoke_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).invoke()


@use(RuntimeError, "Invoke called on model that is not ready")
def invoke_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.invoke()


@use(ValueError, "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first")
def set_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).set_tensor(0, np.ones([2, 3], np.float32))


@use(ValueError, "Tensor data is null. Run allocate_tensors() first")
def get_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).get_tensor(0)


@use(ValueError, "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first")
def set_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.set_tensor(0, np.ones([2, 3], np.float32))


@use(ValueError, "Tensor data is null. Run allocate_tensors() first")
def get_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.get_tensor(0)


@use(ValueError, "Tensor data is null. Run allocate_tensors() first")
def view_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).tensor(0)()


@use(ValueError, "Cannot set tensor: Got value of type FLOAT64 but expected type FLOAT32 for input 0, name: a")
def set_other_type(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([1, 3], np.float64))


@use(ValueError)
def set_integers(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([1, 3], np.int32))


@use(ValueError)
def set_list_of_integers(tflite, folder):
    ready(tflite).set_tensor(0, [[1, 2, 3]])


@use(ValueError)
def set_list_of_floats(tflite, folder):
    ready(tflite).set_tensor(0, [[1.0, 2.0, 3.0]])


@use(ValueError, "Cannot set tensor: Dimension mismatch. Got 1 but expected 2 for input 0.")
def set_other_rank(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([3], np.float32))


@use(ValueError, "Cannot set tensor: Dimension mismatch. Got 4 but expected 3 for dimension 1 of input 0.")
def set_other_extent(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([1, 4], np.float32))


@use(ValueError, "Cannot set tensor: Dimension mismatch. Got 0 but expected 2 for input 0.")
def set_scalar(tflite, folder):
    ready(tflite).set_tensor(0, np.float32(1))


@use(ValueError, "Cannot set tensor: Got value of type STRING but expected type FLOAT32 for input 0, name: a")
def set_none(tflite, folder):
    ready(tflite).set_tensor(0, None)


@use(ValueError)
def set_text(tflite, folder):
    ready(tflite).set_tensor(0, "text")


@use(ValueError)
def set_ragged_list(tflite, folder):
    ready(tflite).set_tensor(0, [[1.0], [2.0, 3.0]])


@use(ValueError, "Invalid tensor index 9 exceeds max tensor index 4")
def set_index_too_large(tflite, folder):
    ready(tflite).set_tensor(9, np.ones([1, 3], np.float32))


@use(ValueError, "Invalid tensor index -1 exceeds max tensor index 4")
def set_negative_index(tflite, folder):
    ready(tflite).set_tensor(-1, np.ones([1, 3], np.float32))


@use(TypeError)
def set_index_is_text(tflite, folder):
    ready(tflite).set_tensor("a", np.ones([1, 3], np.float32))


@use(TypeError)
def set_index_is_float(tflite, folder):
    ready(tflite).set_tensor(0.5, np.ones([1, 3], np.float32))


@use(TypeError)
def set_index_is_none(tflite, folder):
    ready(tflite).set_tensor(None, np.ones([1, 3], np.float32))


@use(TypeError)
def set_without_value(tflite, folder):
    ready(tflite).set_tensor(0)


@use(ValueError, "Invalid tensor index 99 exceeds max tensor index 4")
def get_index_too_large(tflite, folder):
    ready(tflite).get_tensor(99)


@use(ValueError)
def get_negative_index(tflite, folder):
    ready(tflite).get_tensor(-1)


@use(TypeError)
def get_index_is_text(tflite, folder):
    ready(tflite).get_tensor("a")


@use(TypeError)
def get_index_is_none(tflite, folder):
    ready(tflite).get_tensor(None)


@use(ValueError, "Invalid subgraph index 7 exceeds max subgraph index 1")
def get_of_missing_subgraph(tflite, folder):
    ready(tflite).get_tensor(0, 7)


@use(ValueError)
def get_of_negative_subgraph(tflite, folder):
    ready(tflite).get_tensor(0, -1)


@use(ValueError, "Tensor data is null. Run allocate_tensors() first")
def get_of_other_subgraph_before_allocation(tflite, folder):
    ready(tflite, samples.signatures()).get_tensor(0, 1)


@use(ValueError, "Invalid tensor index 99 exceeds max tensor index 4")
def view_index_too_large(tflite, folder):
    ready(tflite).tensor(99)()


@use(ValueError)
def view_negative_index(tflite, folder):
    ready(tflite).tensor(-1)()


@use(TypeError)
def view_index_is_text(tflite, folder):
    ready(tflite).tensor("a")()


@use(RuntimeError, "There is at least 1 reference to internal data")
def invoke_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.invoke()
    del view


@use(RuntimeError, "There is at least 1 reference to internal data")
def allocate_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.allocate_tensors()
    del view


@use(RuntimeError, "There is at least 1 reference to internal data")
def resize_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.resize_tensor_input(0, [2, 3])
    del view


@use(RuntimeError)
def invoke_with_slice_of_view(tflite, folder):
    interpreter = ready(tflite)
    part = interpreter.tensor(0)()[0, 1:]
    interpreter.invoke()
    del part


@use(RuntimeError)
def resize_index_too_large(tflite, folder):
    ready(tflite).resize_tensor_input(99, [1, 3])


@use(RuntimeError)
def resize_negative_index(tflite, folder):
    ready(tflite).resize_tensor_input(-1, [1, 3])


@use(TypeError)
def resize_index_is_text(tflite, folder):
    ready(tflite).resize_tensor_input("a", [1, 3])


@use(RuntimeError)
def resize_to_negative(tflite, folder):
    ready(tflite).resize_tensor_input(0, [-1, 3])


@use(ValueError)
def resize_to_scalar_size(tflite, folder):
    ready(tflite).resize_tensor_input(0, 5)


@use(ValueError)
def resize_to_table(tflite, folder):
    ready(tflite).resize_tensor_input(0, [[1, 3]])


@use(ValueError)
def resize_to_text(tflite, folder):
    ready(tflite).resize_tensor_input(0, "ab")


@use(TypeError)
def resize_to_none(tflite, folder):
    ready(tflite).resize_tensor_input(0, None)


@use(None)
def resize_to_floats(tflite, folder):
    ready(tflite).resize_tensor_input(0, [2.0, 3.0])


@use(
    RuntimeError,
    "Attempting to resize dimension 1 of tensor 0 with value 3 "
    "to 4. ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1.",
)
def strict_resize_of_fixed_extent(tflite, folder):
    ready(tflite).resize_tensor_input(0, [1, 4], strict=True)


@use(RuntimeError)
def strict_resize_to_other_rank(tflite, folder):
    ready(tflite).resize_tensor_input(0, [1, 3, 1], strict=True)


@use(
    RuntimeError,
    "Attempting to resize dimension 0 of tensor 0 with value 2 "
    "to 4. ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1.",
)
def strict_resize_without_signature(tflite, folder):
    ready(tflite, samples.relu()).resize_tensor_input(0, [4, 3], strict=True)


@use(None)
def strict_resize_of_open_extent(tflite, folder):
    ready(tflite).resize_tensor_input(0, [4, 3], strict=True)


@use(RuntimeError)
def resize_to_what_operators_refuse(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [1, 5])
    interpreter.allocate_tensors()


@use(RuntimeError)
def failing_run(tflite, folder):
    interpreter = ready(tflite, samples.lookup())
    interpreter.set_tensor(1, np.array([0, 9], np.int32))
    interpreter.invoke()


@use(ValueError, "subgraph_index is out of range")
def details_of_missing_subgraph(tflite, folder):
    ready(tflite).get_tensor_details(1)


@use(ValueError, "subgraph_index is out of range")
def details_of_negative_subgraph(tflite, folder):
    ready(tflite).get_tensor_details(-1)


@use(TypeError)
def details_of_subgraph_of_text(tflite, folder):
    ready(tflite).get_tensor_details("main")


@use(ValueError, "Invalid tensor index 99 exceeds max tensor index 4")
def details_of_missing_tensor(tflite, folder):
    ready(tflite)._get_tensor_details(99, 0)


@use(ValueError)
def details_of_negative_tensor(tflite, folder):
    ready(tflite)._get_tensor_details(-1, 0)


@use(ValueError, "Invalid node index")
def details_of_missing_operator(tflite, folder):
    ready(tflite, samples.relu(), experimental_op_resolver_type=tflite.OpResolverType.BUILTIN_REF)._get_op_details(7)


@use(ValueError, 'Invalid signature_key provided: "missing".')
def runner_of_missing_signature(tflite, folder):
    ready(tflite).get_signature_runner("missing")


@use(ValueError, "None signature_key provided.")
def runner_of_empty_key(tflite, folder):
    ready(tflite).get_signature_runner("")


@use(
    ValueError,
    "SignatureDef signature_key is None and model has 0 Signatures. "
    "None is only allowed when the model has 1 SignatureDef",
)
def runner_without_signatures(tflite, folder):
    ready(tflite, samples.relu()).get_signature_runner()


@use(
    ValueError,
    "SignatureDef signature_key is None and model has 2 Signatures. "
    "None is only allowed when the model has 1 SignatureDef",
)
def runner_of_several_without_key(tflite, folder):
    ready(tflite, samples.signatures()).get_signature_runner()


@use(ValueError)
def runner_key_is_number(tflite, folder):
    ready(tflite).get_signature_runner(5)


@use(ValueError, "Invalid number of inputs provided for running a SignatureDef, expected 1 vs provided 0")
def runner_without_inputs(tflite, folder):
    ready(tflite).get_signature_runner()()


@use(ValueError, "Invalid Input name (out) for SignatureDef")
def runner_with_other_name(tflite, folder):
    ready(tflite).get_signature_runner()(out=np.ones([1, 3], np.float32))


@use(ValueError, "Invalid number of inputs provided for running a SignatureDef, expected 1 vs provided 2")
def runner_with_too_many(tflite, folder):
    ready(tflite).get_signature_runner()(**{"in": np.ones([1, 3], np.float32), "more": np.ones(1)})


@use(TypeError)
def runner_with_positional(tflite, folder):
    ready(tflite).get_signature_runner()(np.ones([1, 3], np.float32))


@use(ValueError, "Cannot set tensor: Got value of type FLOAT64 but expected type FLOAT32 for input 0, name: a")
def runner_with_other_type(tflite, folder):
    ready(tflite).get_signature_runner()(**{"in": np.ones([1, 3], np.float64)})


@use(AttributeError)
def runner_with_list(tflite, folder):
    ready(tflite).get_signature_runner()(**{"in": [[1.0, 2.0, 3.0]]})


@use(RuntimeError)
def runner_with_refused_shape(tflite, folder):
    ready(tflite).get_signature_runner()(**{"in": np.ones([1, 5], np.float32)})


@use(TypeError)
def allocate_with_argument(tflite, folder):
    ready(tflite).allocate_tensors(1)


@use(TypeError)
def invoke_with_argument(tflite, folder):
    ready(tflite).invoke(1)


@use(None)
def numpy_integer_as_index(tflite, folder):
    interpreter = ready(tflite)
    interpreter.set_tensor(np.int64(0), np.ones([1, 3], np.float32))
    interpreter.get_tensor(np.int32(3))


@use(None)
def transposed_value(tflite, folder):
    ready(tflite, samples.relu()).set_tensor(0, np.ones([3, 2], np.float32).T)


@use(None)
def set_of_output(tflite, folder):
    ready(tflite).set_tensor(3, np.ones([1, 3], np.float32))


@use(None)
def path_of_bytes(tflite, folder):
    path = pathlib.Path(folder) / "relu.tflite"
    path.write_bytes(samples.relu())
    tflite.Interpreter(model_path=str(path).encode())


@use(TypeError)
def threads_beyond_32_bits(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=2**40)


@use(TypeError)
def threads_beyond_64_bits(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=2**70)


@use(RuntimeError)
def delegate_at_zero(tflite, folder):
    class Nothing:
        def _get_native_delegate_pointer(self):
            return 0

    tflite.Interpreter(model_content=samples.relu(), experimental_delegates=[Nothing()])


@use(None)
def delegates_are_an_empty_tuple(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_delegates=())


@use(None)
def strict_is_number(tflite, folder):
    ready(tflite).resize_tensor_input(0, [4, 3], 1)


@use(None)
def strict_is_none(tflite, folder):
    ready(tflite).resize_tensor_input(0, [1, 4], None)


@use(TypeError)
def strict_is_text(tflite, folder):
    ready(tflite).resize_tensor_input(0, [4, 3], strict="yes")


@use(TypeError)
def strict_is_list(tflite, folder):
    ready(tflite).resize_tensor_input(0, [4, 3], strict=[1])


@use(TypeError)
def get_index_beyond_32_bits(tflite, folder):
    ready(tflite).get_tensor(2**40)


@use(TypeError)
def get_index_beyond_64_bits(tflite, folder):
    ready(tflite).get_tensor(2**70)


@use(TypeError)
def set_index_beyond_64_bits(tflite, folder):
    ready(tflite).set_tensor(-(2**70), np.ones([1, 3], np.float32))


@use(TypeError)
def view_index_beyond_64_bits(tflite, folder):
    ready(tflite).tensor(2**70)()


@use(TypeError)
def resize_index_beyond_64_bits(tflite, folder):
    ready(tflite).resize_tensor_input(2**70, [1, 3])


@use(None)
def whole_numpy_float_as_index(tflite, folder):
    ready(tflite).get_tensor(np.float32(0))


@use(TypeError)
def wide_numpy_float_as_index(tflite, folder):
    ready(tflite).get_tensor(np.float64(0))


@use(None)
def details_of_numbers_as_texts(tflite, folder):
    ready(tflite)._get_tensor_details("0", "0")


@use(None)
def reset_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.reset_all_variables()
    del view


@use(None)
def write_to_view_of_output(tflite, folder):
    interpreter = ready(tflite)
    interpreter.invoke()
    view = interpreter.tensor(3)()
    view *= 2


@use(None)
def preserved_tensor_before_a_run(tflite, folder):
    ready(tflite, experimental_preserve_all_tensors=True).get_tensor(1)


@use(ValueError, "None interpreter provided.")
def runner_without_interpreter(tflite, folder):
    tflite.SignatureRunner()


@use(
    RuntimeError,
    "Select TensorFlow op(s), included in the given model, is(are) not supported by this interpreter",
)
def operator_of_tensorflow(tflite, folder):
    tflite.Interpreter(model_content=samples.custom("FlexUnheard")).allocate_tensors()
