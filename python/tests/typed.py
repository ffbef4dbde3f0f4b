"""A program that mypy checks: the types that users see. It is not run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import attache
import attache.tflite as tflite

interpreter: tflite.Interpreter = tflite.Interpreter(
    model_path="model.tflite", num_threads=2, experimental_delegates=(attache.GpuDelegate(precision="f16"),)
)
interpreter.allocate_tensors()
index: int = interpreter.get_input_details()[0]["index"]
interpreter.set_tensor(index, np.zeros([1, 3], np.float32))
result: NDArray[Any] = interpreter.get_tensor(index)
view: NDArray[Any] = interpreter.tensor(index)()
outputs: dict[str, NDArray[Any]] = interpreter.get_signature_runner("serving_default")(x=result)

compiled: attache.CompiledModel = attache.Model("model.tflite").compile(device="gpu", threads=2)
best: int = attache.Model("model.tflite").run(result).argmax()
answer: NDArray[Any] = compiled.run(result, dequantize=True)
answers: dict[str, NDArray[Any]] = compiled.run({"x": result})
shape: tuple[int, ...] = answer.shape
name: str = compiled.inputs[0].name
places: list[str] = [operator.place for operator in compiled.placement.operators]
milliseconds: float = compiled.profile(result).milliseconds
compiled.draw("graph.svg")
