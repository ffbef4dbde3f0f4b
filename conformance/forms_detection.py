"""The last operator of detectors: decoding boxes with anchors, and non-maximum suppression with both algorithms.

TensorFlow Lite leaves unused elements of the outputs undefined. A case with such elements gathers the used ones, and has
them as its outputs.
"""

import numpy as np
from flatbuffers import flexbuffers

from forms import int32
from model_writer import options, run, schema

NAME = "TFLite_Detection_PostProcess"
STANDARD = {
    "max_detections": 5, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.2,
    "nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}


def flexible(entries):
    """A FlexBuffer map."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in entries.items():
            builder.Key(name)
            if isinstance(value, bool):
                builder.Bool(value)
            elif isinstance(value, int):
                builder.Int(value)
            else:
                builder.Float(value, 4)
    return bytes(builder.Finish())


def anchors(draw, count):
    """Anchors whose boxes partly overlap."""
    return np.concatenate([draw(count, 2, low=0, high=2), draw(count, 2, low=0.4, high=1.2)], 1)


def stored(model, values, scale, zero_point, add=None):
    """A quantized 8-bit tensor."""
    index = (add or model.input)(values)
    quantization = schema.QuantizationParametersT()
    quantization.scale, quantization.zeroPoint = [scale], [zero_point]
    model.tensors[index].quantization = quantization
    return index


def filled(count, settings):
    """The indices of the outputs' elements that this many detections use."""
    if settings.get("use_regular_nms"):
        return range(settings["max_detections"])  # the free ones are zeros
    each = settings["max_classes_per_detection"]
    classes = min(each, settings["num_classes"])
    return [place * each + column for place in range(count) for column in range(classes)]


def detected(model, inputs, settings):
    """The four outputs."""
    results = model.operator(NAME, inputs, custom=flexible(settings), results=4)
    places = settings["max_detections"] * settings["max_classes_per_detection"]
    kept = int32(*filled(int(run(model.to_bytes(results), model.values)[3][0]), settings))
    if len(kept) == places:
        return results
    gather = lambda result: model.operator("GATHER", [result, model.constant(kept)], options("GatherOptions", axis=1))
    return [*map(gather, results[:3]), results[3]]


def detections(suite):
    def case(form, count=12, background=1, columns=4, size=3.0, scores=None, boxes=None, **settings):
        settings = {**STANDARD, **settings}

        def build(model, draw):
            encodings = draw(1, count, columns, low=-size, high=size)
            table = draw(1, count, settings["num_classes"] + background, low=0, high=1)
            table = table if scores is None else np.float32(scores)[None]
            table[:, :, :background] = 1
            places = anchors(draw, count) if boxes is None else np.float32(boxes)
            return detected(model, [model.input(encodings), model.input(table), model.constant(places)], settings)

        suite.case(NAME, form, build)

    regular = {"use_regular_nms": True}
    level = np.float32([[0, .5, .5, .25], [0, .5, .25, .5], [0, .75, .75, .75], [0, .5, .5, .5], [0, 0, .2, .1]])
    apart = [[3.0 * place, 0.5, 1, 1] for place in range(5)]
    halves = [[.5, .5, 1, 1], [.5, 1, 1, 2], [4, .5, 1, 1], [4, .5, 1, 1.5], [9, 9, 1, 1]]
    flat = {"count": 5, "scores": level, "size": 0.0}

    case("plain")
    case("no_background", background=0)
    case("more_columns", columns=7)
    case("classes_of_a_box", max_classes_per_detection=2)
    case("more_places_than_classes", max_classes_per_detection=4, max_detections=3)
    case("few", max_detections=20, nms_score_threshold=0.8)
    case("none", max_detections=4, nms_score_threshold=1.5)
    case("ties", boxes=apart, **flat)
    case("ties_of_classes", boxes=apart, max_classes_per_detection=3, **flat)
    case("thresholds_are_met", boxes=halves, nms_score_threshold=0.5, nms_iou_threshold=0.5, **flat)
    case("all_overlaps", nms_iou_threshold=1.0, max_detections=9)
    case("extreme_boxes", size=60.0, max_detections=9, nms_score_threshold=0.0)
    case("one_class", num_classes=1, background=0, nms_score_threshold=0.0)
    case("scales", y_scale=3.0, x_scale=7.0, h_scale=2.0, w_scale=4.0, size=1.0)
    case("whole_scales", y_scale=3, x_scale=7, h_scale=2, w_scale=4, nms_iou_threshold=1)
    case("regular", **regular)
    case("regular_no_background", background=0, max_detections=9, **regular)
    case("regular_few", max_detections=20, nms_score_threshold=0.8, **regular)
    case("regular_none", nms_score_threshold=1.5, **regular)
    case("regular_per_class", detections_per_class=2, max_detections=9, **regular)
    case("regular_ties", boxes=apart, max_detections=7, **regular, **flat)
    case("regular_thresholds_are_met", boxes=halves, nms_score_threshold=0.5, nms_iou_threshold=0.5, max_detections=15,
         **regular, **flat)
    case("not_regular", use_regular_nms=False, detections_per_class=1)
    case("many", count=150, max_detections=30, num_classes=7, max_classes_per_detection=2)
    case("regular_many", count=150, max_detections=30, num_classes=7, detections_per_class=11, **regular)


def stored_detections(suite):
    """Boxes and anchors, scores, or all of them as bytes."""
    def case(form, boxes, scores, **settings):
        settings = {**STANDARD, **settings}

        def build(model, draw):
            byte = lambda *shape: draw(*shape, low=0, high=256).astype(np.uint8)
            if boxes:
                first = stored(model, byte(1, 9, 4), 0.07, 119)
            else:
                first = model.input(draw(1, 9, 4))
            if scores:
                second = stored(model, byte(1, 9, 4), 1 / 256, 0)
            else:
                second = model.input(draw(1, 9, 4, low=0, high=1))
            if boxes:
                third = stored(model, draw(9, 4, low=30, high=200).astype(np.uint8), 0.0065, 5, model.constant)
            else:
                third = model.constant(anchors(draw, 9))
            return detected(model, [first, second, third], settings)

        suite.case(NAME, form, build)

    case("bytes", True, True)
    case("bytes_regular", True, True, use_regular_nms=True)
    case("bytes_of_boxes", True, False)
    case("bytes_of_scores", False, True)


def decoded(model, draw, image, size, step):
    """Boxes `[1, boxes, 4]` and scores `[1, boxes, classes]` of one scale of a YOLO-like head: a convolution makes a
    center, an extent, whether there is an object, and its class, for three anchors at each position."""
    anchors, classes = 3, 4
    fields = options("Conv2DOptions", padding=0, strideH=step, strideW=step, dilationHFactor=1, dilationWFactor=1)
    weights = [model.constant(draw(anchors * (5 + classes), step, step, 8) / (step * 2)), model.constant(draw(27))]
    made = model.operator("CONV_2D", [image, *weights], fields)
    count = size * size * anchors
    made = model.operator("RESHAPE", [made, model.constant(int32(1, count, 5 + classes))], options("ReshapeOptions"))
    made = model.operator("LOGISTIC", [made])
    part = lambda begin, extent: model.operator(
        "SLICE", [made, model.constant(int32(0, 0, begin)), model.constant(int32(1, count, extent))], options("SliceOptions"))
    scaled = lambda value, by: model.operator("MUL", [value, model.constant(np.float32(by))], options("MulOptions"))
    moved = lambda value, by: model.operator("ADD", [value, model.constant(np.float32(by))], options("AddOptions"))
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), -1).reshape(1, -1, 1, 2)
    grid = np.broadcast_to(grid, (1, size * size, anchors, 2)).reshape(1, count, 2)
    center = scaled(moved(scaled(part(0, 2), 2), grid - 0.5), step)
    extent = scaled(part(2, 2), 2)
    extent = model.operator("MUL", [extent, extent], options("MulOptions"))
    half = scaled(extent, np.tile(np.float32([[1, 1], [2, 1], [1, 2.5]]) * step, (size * size, 1))[None] / 2)
    corners = [model.operator(name, [center, half], options(table)) for name, table in
               (("SUB", "SubOptions"), ("ADD", "AddOptions"))]
    boxes = model.operator("CONCATENATION", corners, options("ConcatenationOptions", axis=2))
    scores = model.operator("MUL", [part(5, classes), part(4, 1)], options("MulOptions"))
    return boxes, scores


def heads(suite):
    """YOLO-like heads of two scales. Boxes of other classes are moved apart, so that one suppression serves all classes."""
    def head(version):
        def build(model, draw):
            image = model.input(draw(1, 16, 16, 8))
            scales = [decoded(model, draw, image, size, step) for size, step in ((4, 4), (2, 8))]
            join = lambda values: model.operator("CONCATENATION", list(values), options("ConcatenationOptions", axis=1))
            boxes, scores = map(join, zip(*scales))
            count, last = 3 * (16 + 4), model.constant(int32(2))
            best = model.operator("REDUCE_MAX", [scores, last], options("ReducerOptions"))
            best = model.operator("RESHAPE", [best, model.constant(int32(count))], options("ReshapeOptions"))
            classes = model.operator("ARG_MAX", [scores, last], options("ArgMaxOptions", outputType=2), dtype=np.int32)
            flat = model.operator("RESHAPE", [boxes, model.constant(int32(count, 4))], options("ReshapeOptions"))
            names = model.operator("CAST", [classes], options("CastOptions", inDataType=2, outDataType=0))
            names = model.operator("RESHAPE", [names, model.constant(int32(count, 1))], options("ReshapeOptions"))
            apart = model.operator("MUL", [names, model.constant(np.float32(100))], options("MulOptions"))
            apart = model.operator("ADD", [flat, apart], options("AddOptions"))
            least = 0.4 if version == 4 else 0.85  # more objects than places, and fewer
            limits = [model.constant(np.array(8, np.int32)), *(model.constant(np.float32(limit)) for limit in (0.45, least))]
            if version == 5:
                limits.append(model.constant(np.float32(0)))
            found = model.operator(f"NON_MAX_SUPPRESSION_V{version}", [apart, best, *limits],
                                   options(f"NonMaxSuppressionV{version}Options"), results=version - 2, dtype=np.int32)
            if version == 5:
                model.tensors[found[1]].type = schema.TensorType.FLOAT32
            gather = lambda value, axis=0, dtype=np.float32: model.operator(
                "GATHER", [value, found[0]], options("GatherOptions", axis=axis), dtype=dtype)
            return [gather(flat), gather(best), gather(classes, 1, np.int32), *found[1:]]

        return build

    suite.case("GRAPH", "yolo_head", head(4))
    suite.case("GRAPH", "yolo_head_with_scores", head(5))


FAMILIES = (detections, stored_detections, heads)
