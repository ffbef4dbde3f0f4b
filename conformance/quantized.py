"""Runs real quantized models with LiteRT, and writes golden cases for `attache check` and `quantized_report.py`.

    pip install ai-edge-litert numpy pillow
    python quantized.py OUT_DIR [--models DIR] [--pictures FILE...] [--seeds N...] [--only NAME...]

DIR contains the files of `MODELS` (default: the folder `models` of $ATTACHE_SHARED, or else of `../shared` beside the
project); they are not part of the project.

OUT_DIR/reference/MODEL/INPUT/ is a case: the model, its inputs and the outputs of LiteRT's reference kernels.
OUT_DIR/xnnpack/MODEL/INPUT/out_K.npy are the outputs of LiteRT's default kernels (XNNPACK's if they apply) for the same
inputs. INPUT is the name of a picture, or `seed_N` for random values from the input's whole range. The range of a float
input is that of its quantized form in the model, or else -1 to 1. A picture is resized bilinearly to the input's height
and width, and its values, 0 to 255, are scaled to that range. A model that ends in TFLite_Detection_PostProcess has two
sets of cases: unchanged, and as MODEL_before without that operator.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from PIL import Image

from model_writer import invoke, pack, parse, schema

# All models except the last two compute only in integers.
MODELS = ("mlperf_tiny_resnet8_int8", "mobilenet_v1_0.25_224_quant", "mobilenet_v2_1.0_224_quant",
          "mobilenet_v2_1.0_224_ptq_int8", "posenet_mobilenet_v1_100_257_integer_quant", "ssd_mobilenet_v1_coco_quant",
          "deeplabv3_mnv2_dm05_pascal_quant", "mlperf_tiny_kws_float", "style_transfer_dynamic_range",
          "edsr_f32b5_full_int8")
PICTURES = ("burger.jpg", "sunflower.png", "cats_and_dogs.jpg")
POST_PROCESSING = b"TFLite_Detection_PostProcess"
STORED = {schema.TensorType.INT8: np.int8, schema.TensorType.UINT8: np.uint8}


def cut(model):
    """Removes the detection operator, so that its inputs become outputs. Returns whether there was one."""
    graph = model.subgraphs[0]
    last = graph.operators[-1]
    if model.operatorCodes[last.opcodeIndex].customCode != POST_PROCESSING:
        return False
    graph.operators.pop()
    graph.outputs = [index for index in last.inputs if model.buffers[graph.tensors[index].buffer].data is None]
    model.signatureDefs = []
    return True


def for_reference_kernels(model):
    """The same model without a version that LiteRT's reference kernels do not support: version 2 of DEPTH_TO_SPACE is
    replaced by version 1, which has the same meaning.
    """
    for code in model.operatorCodes:
        if max(code.builtinCode, code.deprecatedBuiltinCode) == schema.BuiltinOperator.DEPTH_TO_SPACE:
            code.version = 1
    return pack(model)


def span(graph, index, dtype):
    """The minimum and the maximum value of an input."""
    if dtype != np.float32:
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    for operator in graph.operators:
        made = graph.tensors[operator.outputs[0]]
        if list(operator.inputs) == [index] and made.type in STORED and made.quantization.scale is not None:
            limits = np.iinfo(STORED[made.type])
            stored = np.array([limits.min, limits.max]) - made.quantization.zeroPoint[0]
            return tuple(stored * made.quantization.scale[0])
    return -1, 1


def pixels(picture, shape, dtype, low, high):
    """A picture as an input."""
    _, height, width, channels = shape
    stretched = Image.open(picture).convert("L" if channels == 1 else "RGB").resize((width, height), Image.BILINEAR)
    return (np.asarray(stretched, np.float64).reshape(shape) / 255 * (high - low) + low).astype(dtype)


def noise(shape, dtype, low, high, generator):
    """A random input."""
    if dtype == np.float32:
        return generator.uniform(low, high, shape).astype(dtype)
    return generator.randint(low, high + 1, shape, dtype=dtype)


def inputs(model, picture, seed):
    """A value for each input. Inputs that are not pictures are random."""
    generator, graph = np.random.RandomState(seed), model.subgraphs[0]
    for index in graph.inputs:
        tensor = graph.tensors[index]
        shape, dtype = tuple(tensor.shape), STORED.get(tensor.type, np.float32)
        low, high = span(graph, index, dtype)
        is_image = len(shape) == 4 and shape[1] * shape[2] > 1
        yield pixels(picture, shape, dtype, low, high) if picture and is_image else noise(shape, dtype, low, high, generator)


def compute(file, values, kernels, folder):
    """Writes the outputs of a set of kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    interpreter = invoke(file, values, kernels)
    for index, detail in enumerate(interpreter.get_output_details()):
        np.save(folder / f"out_{index}.npy", interpreter.get_tensor(detail["index"]))


def cases(name, model, file, out, sources):
    """Writes the cases of one model, given as tables and as a file."""
    portable = for_reference_kernels(model)
    for source, (picture, seed) in sources.items():
        folder = out / "reference" / name / source
        values = list(inputs(model, picture, seed))
        compute(portable, values, "reference", folder)
        compute(file, values, "default", out / "xnnpack" / name / source)
        (folder / "model.tflite").write_bytes(file)
        for index, value in enumerate(values):
            np.save(folder / f"in_{index}.npy", value)
        print(name, source, flush=True)


def main():
    here = Path(__file__).resolve().parent
    shared = Path(os.environ.get("ATTACHE_SHARED", here.parent.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, default=shared / "models")
    parser.add_argument("--pictures", type=Path, nargs="*", default=[shared / "images" / name for name in PICTURES])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=MODELS)
    chosen = parser.parse_args()
    sources = {f"seed_{seed}": (None, seed) for seed in chosen.seeds}
    sources |= {picture.stem: (picture, 1) for picture in chosen.pictures}
    for name in chosen.only:
        file = (chosen.models / f"{name}.tflite").read_bytes()
        cases(name, parse(file), file, chosen.out, sources)
        shortened = parse(file)
        if cut(shortened):
            cases(f"{name}_before", shortened, pack(shortened), chosen.out, sources)


if __name__ == "__main__":
    main()
