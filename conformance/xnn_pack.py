"""Writes cases of quantized operators with the outputs of LiteRT's default interpreter, and checks the command with them.

    pip install ai-edge-litert numpy
    python xnn_pack.py OUT_DIR [--count 300] [--seed 1] [--different] [--command target/release/attache]

LiteRT's default interpreter runs XNNPACK, whose results differ from those of the reference kernels in the last bit of some
elements. Each case is a folder OUT_DIR/KIND_OPERATOR_NNN/ with the files that `goldens.py` describes; there are `--count`
cases of each of CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, ADD and MUL, for the kinds i8 and u8. In a third of them all
scales are powers of two, so that many results are halfway between two numbers. With `--different`, only cases are counted
in which the reference kernels give another result. With `--command`, `attache check --rounding xnnpack` compares its bits
with all cases, and prints how many agree. The same seed and options give the same cases.

    python xnn_pack.py xnn_pack --count 4 --different        (writes the cases that the tests of the project use)
"""

import argparse
import json
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np

from forms_quantized import TYPES, scaled
from model_writer import Activation, Model, Padding, options, run

KINDS = ("i8", "u8")
ACTIVATIONS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
EXTENTS = (1, 2, 3, 4, 5, 8, 12, 16, 19, 33)


class Draw:
    """The random choices of one case."""
    def __init__(self, name, kind):
        self.generator, self.kind = np.random.RandomState(zlib.crc32(name.encode())), kind
        self.powers = self.generator.rand() < 1 / 3

    def one_of(self, *choices):
        """One of these values."""
        return choices[self.generator.randint(len(choices))]

    def holds(self, probability):
        """Whether something with this probability is so."""
        return self.generator.rand() < probability

    def elements(self, *shape):
        """A tensor of the case's type."""
        limits = np.iinfo(TYPES[self.kind])
        return self.generator.randint(limits.min, limits.max + 1, shape).astype(TYPES[self.kind])

    def scale(self, near, spread=2.0):
        """A scale that lies within this factor of a value, or is the power of two nearest to it."""
        scale = near * np.exp(self.generator.uniform(-np.log(spread), np.log(spread)))
        return float(np.float32(2.0 ** np.round(np.log2(scale)) if self.powers else scale))

    def zero_point(self):
        """A zero point in the middle of the type's range."""
        return int(self.generator.randint(-40, 40)) + (128 if self.kind == "u8" else 0)

    def activation(self):
        """The fields of an options table with a fused activation."""
        return {"fusedActivationFunction": self.one_of(*ACTIVATIONS)}

    def window(self):
        """The fields of an options table for a window that moves over an image."""
        dilates = self.holds(0.25)
        return {
            "padding": self.one_of(Padding.SAME, Padding.VALID),
            "strideH": 1 if dilates else self.one_of(1, 1, 2, 3), "strideW": 1 if dilates else self.one_of(1, 1, 2, 3),
            "dilationHFactor": self.one_of(1, 2) if dilates else 1, "dilationWFactor": self.one_of(1, 2, 3) if dilates else 1,
        } | self.activation()


def weights(model, draw, shape, axis, unit, has_bias):
    """Adds constant weights and a bias for activations with this scale; returns both and the largest scale of a sum."""
    outputs = shape[axis]
    per_channel = draw.kind == "i8" and draw.holds(0.7)
    scales = np.float32([draw.scale(0.01) for _ in range(outputs if per_channel else 1)])
    point = 0 if draw.kind == "i8" else draw.zero_point()
    filters = scaled(model, model.constant(draw.elements(*shape)), scales, [point] * len(scales), axis if per_channel else 0)
    if not has_bias:
        return [filters], unit * scales.max()
    bias = draw.generator.randint(-20000, 20000, outputs).astype(np.int32)
    sums = np.float32(unit) * scales
    return [filters, scaled(model, model.constant(bias), sums, [0] * len(sums))], unit * scales.max()


def contraction(model, draw, operator, image, shape, axis, depth, table, has_bias=True, **fields):
    """A convolution or matrix product. `depth` is the number of products in a sum."""
    unit = draw.scale(0.05)
    data = scaled(model, model.input(draw.elements(*image)), unit, draw.zero_point())
    constants, largest = weights(model, draw, shape, axis, unit, has_bias)
    result = model.operator(operator, [data, *constants], options(table, **fields), 3 if len(image) == 4 else 4,
                            dtype=TYPES[draw.kind])
    # The sums of uniform numbers have a deviation of 74² √depth. With a finer scale, more of the results are halves.
    finer = draw.one_of(1, 4, 16) if draw.powers else 1
    return scaled(model, result, draw.scale(largest * 5500 * np.sqrt(depth) / 64 / finer), draw.zero_point())


def reached(window, taps):
    """The extents of an image that holds some positions of a window."""
    return [(count - 1) * window[f"dilation{axis}Factor"] + 1 for axis, count in zip("HW", taps)]


def convolution(model, draw):
    taps, window = (draw.one_of(1, 1, 2, 3, 3, 5), draw.one_of(1, 1, 2, 3, 3, 5)), draw.window()
    height, width = (least + draw.one_of(*EXTENTS[:7]) for least in reached(window, taps))
    groups = draw.one_of(1, 1, 1, 1, 2, 3)
    inputs, outputs = draw.one_of(*EXTENTS), draw.one_of(*EXTENTS) * groups
    return contraction(model, draw, "CONV_2D", (draw.one_of(1, 1, 2), height, width, inputs * groups),
                       (outputs, *taps, inputs), 0, inputs * taps[0] * taps[1], "Conv2DOptions", **window)


def depthwise(model, draw):
    taps, window = (draw.one_of(1, 2, 3, 3, 5), draw.one_of(1, 2, 3, 3, 5)), draw.window()
    window["strideW"] = window["strideH"]
    height, width = (least + draw.one_of(*EXTENTS[:7]) for least in reached(window, taps))
    channels, multiplier = draw.one_of(*EXTENTS), draw.one_of(1, 1, 1, 2, 4)
    return contraction(model, draw, "DEPTHWISE_CONV_2D", (draw.one_of(1, 1, 2), height, width, channels),
                       (1, *taps, channels * multiplier), 3, taps[0] * taps[1], "DepthwiseConv2DOptions",
                       depthMultiplier=multiplier, **window)


def fully_connected(model, draw):
    depth, outputs, keeps = draw.one_of(1, 3, 8, 17, 64, 130), draw.one_of(*EXTENTS, 64), draw.holds(0.3)
    rows = (draw.one_of(1, 2, 5), draw.one_of(1, 3)) if keeps else (draw.one_of(1, 1, 2, 5, 16),)
    return contraction(model, draw, "FULLY_CONNECTED", (*rows, depth), (outputs, depth), 0, depth, "FullyConnectedOptions",
                       has_bias=draw.holds(0.8), keepNumDims=keeps, **draw.activation())


def pair(model, draw, operator, table, result_scale):
    """A function of two tensors, one of which may be broadcast or constant."""
    batches, height, width, channels = draw.one_of(1, 2), draw.one_of(2, 5, 8), draw.one_of(3, 7, 8), draw.one_of(*EXTENTS)
    image = (batches, height, width, channels)
    shapes = [image, draw.one_of(image, image, image, (channels,), (1, 1, 1, channels), (1,), (), (batches, height, width, 1),
                                 (width, channels), (batches, 1, width, 1))]
    values = [draw.elements(*shape) for shape in shapes]
    constant = draw.one_of(None, None, None, 0, 1)
    units = [draw.scale(0.05, 6.0) for _ in values]
    places = [model.constant(value) if index == constant else model.input(value) for index, value in enumerate(values)]
    operands = [scaled(model, place, unit, draw.zero_point()) for place, unit in zip(places, units)]
    if draw.holds(0.4):
        operands.reverse()
    result = model.operator(operator, operands, options(table, **draw.activation()), 2, dtype=TYPES[draw.kind])
    return scaled(model, result, draw.scale(result_scale(*units)), draw.zero_point())


def add(model, draw):
    return pair(model, draw, "ADD", "AddOptions", lambda left, right: max(left, right) * 1.2)


def mul(model, draw):
    return pair(model, draw, "MUL", "MulOptions", lambda left, right: left * right * 50)


OPERATORS = {"CONV_2D": convolution, "DEPTHWISE_CONV_2D": depthwise, "FULLY_CONNECTED": fully_connected, "ADD": add, "MUL": mul}


def case(folder, operator, kind, name):
    """Draws one case. Returns whether LiteRT's reference kernels give another result, and what writes the case."""
    model, draw = Model(), Draw(name, kind)
    outputs = [OPERATORS[operator](model, draw)]
    model.settle_shapes(outputs)
    file = model.to_bytes(outputs)
    [expected], [other] = run(file, model.values, "default"), run(file, model.values)

    def write(number):
        place = folder / f"{kind}_{operator}_{number:03}"
        place.mkdir(parents=True)
        (place / "model.tflite").write_bytes(file)
        record = {"op": operator, "kind": kind, "version": model.codes[-1].version, "form": name,
                  "scale": float(np.abs(expected.astype(float)).max()) or 1.0}
        (place / "case.json").write_text(json.dumps(record, sort_keys=True) + "\n")
        for index, value in enumerate(model.values):
            np.save(place / f"in_{index}.npy", value)
        np.save(place / "out_0.npy", expected)

    return not np.array_equal(expected, other), write


def write_cases(folder, operator, kind, chosen):
    """Writes the cases of one operator and kind; returns in how many the reference kernels give another result."""
    written = differing = drawn = 0
    while written < chosen.count:
        differs, write = case(folder, operator, kind, f"{chosen.seed}_{operator}_{kind}_{drawn}")
        drawn += 1
        if differs or not chosen.different:
            write(written)
            written, differing = written + 1, differing + differs
    return differing


def agreeing(command, folder, operator, kind):
    """How many of the written cases of one operator and kind the command agrees with."""
    line = [command, "check", str(folder), "--filter", f"/{kind}_{operator}_", "--delegate", "cpu", "--rounding", "xnnpack",
            "--json"]
    answer = json.loads(subprocess.run(line, capture_output=True, text=True, check=False).stdout)
    for failure in answer.get("failures", [])[:3]:
        print(" ", failure["case"], failure["message"])
    return answer["passed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--different", action="store_true")
    parser.add_argument("--command")
    chosen = parser.parse_args()
    for stale in chosen.out.glob("*/case.json"):
        shutil.rmtree(stale.parent)
    wrong = 0
    for kind in KINDS:
        for operator in OPERATORS:
            differing = write_cases(chosen.out, operator, kind, chosen)
            line = f"{kind} {operator}: {chosen.count} cases, {differing} unlike the reference kernels"
            if chosen.command:
                passed = agreeing(chosen.command, chosen.out, operator, kind)
                line, wrong = f"{line}, {passed} agree", wrong + chosen.count - passed
            print(line, flush=True)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
