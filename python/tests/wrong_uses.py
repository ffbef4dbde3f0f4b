"""Wrong uses of the interpreter, each a function of a module with `Interpreter` and of a folder for files.

`USES` has them by name. The tests hold that each raises the class of exception that LiteRT raises (`EXPECTED`), and, where
LiteRT is installed, that `EXPECTED` is what it raises.
"""

import pathlib

import numpy as np

import samples

USES, EXPECTED = {}, {}


def use(expected):
    """Registers a wrong use with the class of its exception; `None` where there is none."""
    def register(function):
        USES[function.__name__], EXPECTED[function.__name__] = function, expected
        return function
    return register


def ready(tflite, content=None, **options):
    """An interpreter whose tensors are allocated."""
    interpreter = tflite.Interpreter(model_content=content or samples.chain(), **options)
    interpreter.allocate_tensors()
    return interpreter


@use(ValueError)
def no_model(tflite, folder):
    tflite.Interpreter()


@use(ValueError)
def empty_content(tflite, folder):
    tflite.Interpreter(model_content=b"")


@use(ValueError)
def empty_path(tflite, folder):
    tflite.Interpreter(model_path="")


@use(ValueError)
def path_and_content(tflite, folder):
    tflite.Interpreter(model_path="a.tflite", model_content=samples.relu())


@use(ValueError)
def missing_file(tflite, folder):
    tflite.Interpreter(model_path=str(folder / "missing.tflite"))


@use(ValueError)
def missing_file_as_path(tflite, folder):
    tflite.Interpreter(model_path=folder / "missing.tflite")


@use(ValueError)
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


@use(ValueError)
def garbage_content(tflite, folder):
    tflite.Interpreter(model_content=b"garbage")


@use(ValueError)
def long_garbage_content(tflite, folder):
    tflite.Interpreter(model_content=b"garbage" * 100)


@use(ValueError)
def truncated_content(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()[:200])


@use(ValueError)
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


@use(ValueError)
def zero_threads(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=0)


@use(ValueError)
def negative_threads(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=-1)


@use(ValueError)
def threads_are_text(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads="4")


@use(ValueError)
def threads_are_float(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), num_threads=4.0)


@use(ValueError)
def resolver_is_text(tflite, folder):
    tflite.Interpreter(model_content=samples.relu(), experimental_op_resolver_type="BUILTIN")


@use(ValueError)
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


@use(RuntimeError)
def custom_operator(tflite, folder):
    tflite.Interpreter(model_content=samples.custom()).allocate_tensors()


@use(ValueError)
def registerer_that_does_not_exist(tflite, folder):
    tflite.InterpreterWithCustomOps(model_content=samples.custom(), custom_op_registerers=["no_such_symbol"])


@use(RuntimeError)
def invoke_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).invoke()


@use(RuntimeError)
def invoke_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.invoke()


@use(ValueError)
def set_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).set_tensor(0, np.ones([2, 3], np.float32))


@use(ValueError)
def get_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).get_tensor(0)


@use(ValueError)
def set_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.set_tensor(0, np.ones([2, 3], np.float32))


@use(ValueError)
def get_after_resize(tflite, folder):
    interpreter = ready(tflite)
    interpreter.resize_tensor_input(0, [2, 3])
    interpreter.get_tensor(0)


@use(ValueError)
def view_before_allocation(tflite, folder):
    tflite.Interpreter(model_content=samples.relu()).tensor(0)()


@use(ValueError)
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


@use(ValueError)
def set_other_rank(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([3], np.float32))


@use(ValueError)
def set_other_extent(tflite, folder):
    ready(tflite).set_tensor(0, np.ones([1, 4], np.float32))


@use(ValueError)
def set_scalar(tflite, folder):
    ready(tflite).set_tensor(0, np.float32(1))


@use(ValueError)
def set_none(tflite, folder):
    ready(tflite).set_tensor(0, None)


@use(ValueError)
def set_text(tflite, folder):
    ready(tflite).set_tensor(0, "text")


@use(ValueError)
def set_ragged_list(tflite, folder):
    ready(tflite).set_tensor(0, [[1.0], [2.0, 3.0]])


@use(ValueError)
def set_index_too_large(tflite, folder):
    ready(tflite).set_tensor(9, np.ones([1, 3], np.float32))


@use(ValueError)
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


@use(ValueError)
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


@use(ValueError)
def get_of_missing_subgraph(tflite, folder):
    ready(tflite).get_tensor(0, 7)


@use(ValueError)
def get_of_negative_subgraph(tflite, folder):
    ready(tflite).get_tensor(0, -1)


@use(ValueError)
def get_of_other_subgraph_before_allocation(tflite, folder):
    ready(tflite, samples.signatures()).get_tensor(0, 1)


@use(ValueError)
def view_index_too_large(tflite, folder):
    ready(tflite).tensor(99)()


@use(ValueError)
def view_negative_index(tflite, folder):
    ready(tflite).tensor(-1)()


@use(TypeError)
def view_index_is_text(tflite, folder):
    ready(tflite).tensor("a")()


@use(RuntimeError)
def invoke_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.invoke()
    del view


@use(RuntimeError)
def allocate_with_view(tflite, folder):
    interpreter = ready(tflite)
    view = interpreter.tensor(0)()
    interpreter.allocate_tensors()
    del view


@use(RuntimeError)
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


@use(RuntimeError)
def strict_resize_of_fixed_extent(tflite, folder):
    ready(tflite).resize_tensor_input(0, [1, 4], strict=True)


@use(RuntimeError)
def strict_resize_to_other_rank(tflite, folder):
    ready(tflite).resize_tensor_input(0, [1, 3, 1], strict=True)


@use(RuntimeError)
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


@use(ValueError)
def details_of_missing_subgraph(tflite, folder):
    ready(tflite).get_tensor_details(1)


@use(ValueError)
def details_of_negative_subgraph(tflite, folder):
    ready(tflite).get_tensor_details(-1)


@use(TypeError)
def details_of_subgraph_of_text(tflite, folder):
    ready(tflite).get_tensor_details("main")


@use(ValueError)
def details_of_missing_tensor(tflite, folder):
    ready(tflite)._get_tensor_details(99, 0)


@use(ValueError)
def details_of_negative_tensor(tflite, folder):
    ready(tflite)._get_tensor_details(-1, 0)


@use(ValueError)
def details_of_missing_operator(tflite, folder):
    ready(tflite, samples.relu(), experimental_op_resolver_type=tflite.OpResolverType.BUILTIN_REF)._get_op_details(7)


@use(ValueError)
def runner_of_missing_signature(tflite, folder):
    ready(tflite).get_signature_runner("missing")


@use(ValueError)
def runner_of_empty_key(tflite, folder):
    ready(tflite).get_signature_runner("")


@use(ValueError)
def runner_without_signatures(tflite, folder):
    ready(tflite, samples.relu()).get_signature_runner()


@use(ValueError)
def runner_of_several_without_key(tflite, folder):
    ready(tflite, samples.signatures()).get_signature_runner()


@use(ValueError)
def runner_key_is_number(tflite, folder):
    ready(tflite).get_signature_runner(5)


@use(ValueError)
def runner_without_inputs(tflite, folder):
    ready(tflite).get_signature_runner()()


@use(ValueError)
def runner_with_other_name(tflite, folder):
    ready(tflite).get_signature_runner()(out=np.ones([1, 3], np.float32))


@use(ValueError)
def runner_with_too_many(tflite, folder):
    ready(tflite).get_signature_runner()(**{"in": np.ones([1, 3], np.float32), "more": np.ones(1)})


@use(TypeError)
def runner_with_positional(tflite, folder):
    ready(tflite).get_signature_runner()(np.ones([1, 3], np.float32))


@use(ValueError)
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
