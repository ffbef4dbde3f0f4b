"""Writes cases of dynamic range models whose weights are replaced by floats.

    pip install ai-edge-litert numpy
    python dequantized.py CASES_DIR OUT_DIR

TensorFlow Lite's CPU quantizes at run time the activations that are combined with 8-bit weights. A device that keeps
them as floats is closer to the trained model. For each folder at or below CASES_DIR with a model.tflite, the script
writes a case below OUT_DIR: the same model and inputs, with the outputs of LiteRT's reference kernels for the model
in which each constant of 2, 4 or 8 bits with a scale is replaced by its dequantized float32 elements. A model of another
kind is an error.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

from model_writer import pack, parse, run, schema

STORED = {getattr(schema.TensorType, name): dtype for name, dtype in
          (("INT2", np.int8), ("INT4", np.int8), ("INT8", np.int8), ("UINT8", np.uint8), ("INT16", np.int16))}


# Operators whose kernels read 8-bit weights as signed, also those that are declared as UINT8.
SIGNED = {getattr(schema.BuiltinOperator, name) for name in (
    "CONV_2D", "FULLY_CONNECTED", "LSTM", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN")}


def unpacked(data, bits, count):
    """Unpacks integers of 4 or 2 bits. The lowest bits of a byte come first."""
    highest = np.stack([data << (8 - bits - place) for place in range(0, 8, bits)], axis=1).reshape(-1)[:count]
    return highest.view(np.int8) >> (8 - bits)


def reals(tensor, data, block_scales=None):
    """The dequantized elements of a constant, which may have a scale for each block of a row."""
    count = int(np.prod(tensor.shape, dtype=np.int64))
    bits = {schema.TensorType.INT4: 4, schema.TensorType.INT2: 2}.get(tensor.type, 8)
    values = unpacked(data, bits, count) if bits < 8 else data.view(STORED[tensor.type])[:count]
    if block_scales is not None:
        return (values.reshape(block_scales.size, -1) * block_scales[:, None]).reshape(tensor.shape)
    extents = [1] * len(tensor.shape)
    scale = np.asarray(tensor.quantization.scale, np.float32)
    if scale.size > 1:
        extents[tensor.quantization.quantizedDimension] = scale.size
    points = tensor.quantization.zeroPoint
    points = np.zeros(scale.size) if points is None else np.broadcast_to(points, scale.size)
    centred = values.reshape(tensor.shape).astype(np.float32) - points.astype(np.float32).reshape(extents)
    return centred * scale.reshape(extents)


def is_by_blocks(tensor):
    """Whether a tensor has a scale for each block of a row."""
    return tensor.quantization is not None and isinstance(tensor.quantization.details, schema.BlockwiseQuantizationT)


def is_stored(tensor):
    """Whether a tensor is quantized."""
    scale = tensor.quantization.scale if tensor.quantization is not None else None
    return tensor.type in STORED and (is_by_blocks(tensor) or scale is not None and len(scale) > 0)


def dequantized(file):
    """The model file with dequantized weights; None if the model is of another kind."""
    model = parse(file)
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    dequantize = [index for index, code in enumerate(codes) if code == schema.BuiltinOperator.DEQUANTIZE]
    replaced = 0
    for graph in model.subgraphs:
        readers = (operator for operator in graph.operators if operator.opcodeIndex in dequantize)
        stays = {index for operator in readers for index in operator.inputs}
        readers = (operator for operator in graph.operators if codes[operator.opcodeIndex] in SIGNED)
        signed = {index for operator in readers for index in operator.inputs}
        for index, tensor in enumerate(graph.tensors):
            if index in stays or not is_stored(tensor):
                continue
            data = model.buffers[tensor.buffer].data
            if data is None:
                return None
            if index in signed and tensor.type == schema.TensorType.UINT8:
                tensor.type, tensor.quantization.zeroPoint = schema.TensorType.INT8, np.zeros(1, np.int64)
            block_scales = None
            if is_by_blocks(tensor):
                scales = model.buffers[graph.tensors[tensor.quantization.details.scales].buffer].data
                block_scales = np.asarray(scales, np.uint8).view(np.float16).astype(np.float32)
            buffer = schema.BufferT()
            values = reals(tensor, np.asarray(data, np.uint8), block_scales)
            buffer.data = np.frombuffer(values.tobytes(), np.uint8)
            model.buffers.append(buffer)
            tensor.type, tensor.buffer, tensor.quantization = schema.TensorType.FLOAT32, len(model.buffers) - 1, None
            replaced += 1
    return pack(model) if replaced else None


def arrays(folder, stem):
    """The arrays stem_0.npy, stem_1.npy and so on."""
    return [np.load(folder / f"{stem}_{index}.npy") for index in range(len(list(folder.glob(f"{stem}_*.npy"))))]


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = sorted(source.rglob("model.tflite"))
    for file in files:
        floats = dequantized(file.read_bytes())
        if floats is None:
            raise ValueError(f"{file}: this is no model with 8-bit weights and float activations")
        folder = out / file.parent.relative_to(source)
        shutil.copytree(file.parent, folder, dirs_exist_ok=True)
        for index, value in enumerate(run(floats, arrays(folder, "in"))):
            np.save(folder / f"out_{index}.npy", value)
    print(f"{len(files)} cases")


if __name__ == "__main__":
    main()
