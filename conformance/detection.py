"""Makes conformance/detection: random sets of boxes, and the metrics that pycocotools computes of them.

Needs numpy and pycocotools. Run it from the root of the repository; the same seed gives the same file.
"""

import contextlib
import io
import json
import pathlib

import numpy
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SETS = 200
OUT = pathlib.Path(__file__).resolve().parent / "detection" / "sets.json"


def edges(random):
    """A box on an image of 640 x 480 pixels; sizes cover all of COCO's ranges of areas."""
    side = float(random.choice([12, 24, 32, 60, 96, 200]))
    width, height = side * random.uniform(0.5, 1.5, 2)
    left, top = random.uniform(0, 640 - width), random.uniform(0, 480 - height)
    return [round(float(value), 1) for value in (left, top, width, height)]


def one_set(seed):
    """Annotations and detections with crowds, equal scores, empty classes and images, and unequal counts."""
    random = numpy.random.default_rng(seed)
    images = [int(number) for number in random.choice(60, random.integers(1, 6), replace=False)]
    categories = list(range(1, int(random.integers(2, 6))))
    truth, found = [], []
    for image in images:
        for _ in range(random.integers(0, 7)):
            box = edges(random)
            crowd = bool(random.random() < 0.15)
            area = round(box[2] * box[3] * float(random.uniform(0.5, 1)), 1)
            category = int(random.choice(categories))
            truth.append([len(truth) + 1, image, category, box, area, int(crowd)])
            for _ in range(random.integers(0, 3)):
                moved = [round(value + float(random.normal(0, box[2] * 0.08)), 1) for value in box]
                moved[2:] = [max(1.0, value) for value in moved[2:]]
                same = category if random.random() < 0.85 else int(random.choice(categories))
                # Few different scores, so that many are equal.
                found.append([image, same, moved, round(float(random.random()), 1)])
        for _ in range(random.integers(0, 4)):
            found.append([image, int(random.choice(categories)), edges(random), round(float(random.random()), 2)])
    # Some sets have more detections of a category and image than count.
    if seed % 10 == 0 and truth:
        one = truth[0]
        for index in range(130):
            box = [round(value + float(random.normal(0, 5)), 1) for value in one[3][:2]] + one[3][2:]
            found.append([one[1], one[2], box, round(index / 130, 3)])
    random.shuffle(found)
    return {"images": images, "categories": categories, "truth": truth, "found": found}


def metrics(data):
    """The twelve metrics of pycocotools."""
    coco = COCO()
    coco.dataset = {
        "info": {},
        "images": [{"id": number} for number in data["images"]],
        "categories": [{"id": number} for number in data["categories"]],
        "annotations": [
            {"id": id, "image_id": image, "category_id": category, "bbox": box, "area": area, "iscrowd": crowd}
            for id, image, category, box, area, crowd in data["truth"]
        ],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        if data["found"]:
            rows = [
                {"image_id": image, "category_id": category, "bbox": box, "score": score}
                for image, category, box, score in data["found"]
            ]
            results = coco.loadRes(rows)
        else:
            results = COCO()
            results.dataset = {**coco.dataset, "annotations": []}
            results.createIndex()
        evaluation = COCOeval(coco, results, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(value) for value in evaluation.stats]


def main():
    sets = []
    for seed in range(SETS):
        data = one_set(seed)
        data["metrics"] = metrics(data)
        sets.append(data)
    OUT.parent.mkdir(exist_ok=True)
    rows = ",\n".join(json.dumps(data, separators=(",", ":")) for data in sets)
    OUT.write_text(f"[\n{rows}\n]\n")
    print(f"{SETS} sets, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
