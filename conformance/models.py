"""Writes samples of the results of real models with the default kernels of LiteRT's CPU.

    pip install ai-edge-litert numpy
    python models.py [MODELS_DIR [OUT_DIR]]

MODELS_DIR contains the files (default: the folder `models` of $ATTACHE_SHARED, or else of `../shared` beside the
project); they are not part of the project. OUT_DIR is by default the folder `models` beside this file.

Element i of input k is ((7919 i + 104729 k) mod 2003) / 1001 - 1, in float64 and then rounded to float32.
OUT_DIR/NAME.json contains

    {"inputs":  [{"shape", "hash"}, ...],
     "outputs": [{"shape", "largest", "samples": [[place, value], ...]}, ...]}

hash is the sum of (i + 1) times the bit pattern of element i, modulo 2^64, in hexadecimal digits. It serves to check that
inputs that are computed elsewhere are the same. largest is the largest magnitude of all elements, to which errors are
relative. The places are spread evenly, once over all elements and once over those that are not 0.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

NAMES = ("blazeface_short_range", "deeplabv3_257_mv_gpu", "edsr_f32b5_fp32", "face_landmark", "hair_segmentation",
         "mlperf_tiny_resnet8_float", "mlperf_tiny_vww_float", "mnist_lstm_float",
         "mobilenet_v1_0.25_224_float", "style_transfer_f16_384")
SAMPLES = 64  # places in one spread, where there are as many


def ramp(shape, index):
    """Input number `index`."""
    places = np.arange(np.prod(shape, dtype=np.int64), dtype=np.int64)
    values = (places * 7919 + index * 104729) % 2003 / 1001 - 1
    return values.astype(np.float32).reshape(shape)


def bits_hash(values):
    """The hash of an input."""
    bits = values.reshape(-1).view(np.uint32).astype(np.uint64)
    weights = np.arange(1, bits.size + 1, dtype=np.uint64)
    return f"{int((bits * weights).sum(dtype=np.uint64)):016x}"


def spread(places):
    """Some of the places, from the first to the last."""
    return places[np.linspace(0, places.size - 1, min(SAMPLES, places.size)).round().astype(np.int64)]


def sampled(values):
    """The samples of an output."""
    flat = values.reshape(-1)
    places = np.union1d(spread(np.arange(flat.size)), spread(np.flatnonzero(flat)))
    return {"shape": list(values.shape), "largest": short(np.abs(flat).max()),
            "samples": [[int(place), short(flat[place])] for place in places]}


def short(value):
    """The shortest decimal number that is parsed as the same float32."""
    return float(np.format_float_scientific(value))


def samples(path):
    """Runs a model once."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    inputs = []
    for index, detail in enumerate(interpreter.get_input_details()):
        if detail["dtype"] != np.float32:
            raise ValueError(f"{path}: input {index} is not of type float32")
        values = ramp(tuple(int(extent) for extent in detail["shape"]), index)
        interpreter.set_tensor(detail["index"], values)
        inputs.append({"shape": list(values.shape), "hash": bits_hash(values)})
    interpreter.invoke()
    outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    if not all(np.isfinite(values).all() for values in outputs):
        raise ValueError(f"{path}: an output is not finite")
    return {"inputs": inputs, "outputs": [sampled(values) for values in outputs]}


def main():
    here = Path(__file__).resolve().parent
    shared = Path(os.environ.get("ATTACHE_SHARED", here.parent.parent / "shared"))
    models = Path(sys.argv[1]) if len(sys.argv) > 1 else shared / "models"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else here / "models"
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        record = samples(models / f"{name}.tflite")
        (folder / f"{name}.json").write_text(json.dumps(record) + "\n")
        print(name, [(output["shape"], output["largest"]) for output in record["outputs"]])


if __name__ == "__main__":
    main()
