"""Draws the graph of a model as SVG."""

from __future__ import annotations

import dataclasses
import html
import os
from typing import Any, Sequence, Union

__all__ = ["Drawing", "draw"]

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 190, 26, 16, 18, 12
COLOURS = ["#7fb3d5", "#f5b041", "#82e0aa", "#d2a8e0", "#f1948a", "#85c1b9"]
CPU, NOWHERE = "#e5e7e9", "#fbfcfc"


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A picture as the text of an SVG file."""

    svg: str

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the picture to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg


def draw(operators: Sequence[Any], wiring: Sequence[tuple[list[int], list[int]]]) -> Drawing:
    """Draws operators from top to bottom, each below those whose tensors it reads."""
    makers = {tensor: index for index, (_, outputs) in enumerate(wiring) for tensor in outputs}
    edges = [
        (makers[tensor], index) for index, (inputs, _) in enumerate(wiring) for tensor in inputs if tensor in makers
    ]
    places = _places(len(operators), edges)
    colours = _colours(operators)
    parts = []
    for above, below in edges:
        (x1, y1), (x2, y2) = places[above], places[below]
        start, end = (x1 + WIDTH / 2, y1 + HEIGHT), (x2 + WIDTH / 2, y2)
        bend = (start[1] + end[1]) / 2
        parts.append(
            f'<path d="M{start[0]:g} {start[1]:g}C{start[0]:g} {bend:g} {end[0]:g} {bend:g} {end[0]:g} {end[1]:g}"/>'
        )
    for operator, (x, y) in zip(operators, places):
        where = f"{operator.place}: {operator.reason}" if operator.reason else operator.place
        parts.append(
            f'<g><title>{html.escape(where)}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
            f'fill="{colours[operator.place]}"/><text x="{x + WIDTH / 2:g}" y="{y + 17}">'
            f"{operator.index} {html.escape(operator.name[:24])}</text></g>"
        )
    width = max((x for x, _ in places), default=0) + WIDTH + MARGIN
    bottom = max((y for _, y in places), default=0) + HEIGHT + GAP_Y
    legend, height = _legend(colours, bottom)
    width = max(width, WIDTH * 2)
    return Drawing(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        "<style>path{fill:none;stroke:#888}rect{stroke:#555}text{font:12px sans-serif;text-anchor:middle}"
        ".l{text-anchor:start}</style>"
        f'<rect width="{width}" height="{height}" fill="white" stroke="none"/>' + "".join(parts) + legend + "</svg>\n"
    )


def _places(count: int, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns where each operator stands: in the row below the lowest one that it reads from."""
    before: list[list[int]] = [[] for _ in range(count)]
    for above, below in edges:
        before[below].append(above)
    rows: list[int] = []
    for index in range(count):
        # Files list operators in the order in which they run.
        rows.append(1 + max((rows[above] for above in before[index] if above < index), default=-1))
    filled: dict[int, int] = {}
    places = []
    for row in rows:
        column = filled[row] = filled.get(row, -1) + 1
        places.append((MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)))
    return places


def _colours(operators: Sequence[Any]) -> dict[str, str]:
    """Returns a colour for each place."""
    colours: dict[str, str] = {}
    delegates = 0
    for operator in operators:
        if operator.place in colours:
            continue
        if operator.place == "CPU":
            colours["CPU"] = CPU
        elif operator.place.startswith("folded"):
            colours[operator.place] = NOWHERE
        else:
            colours[operator.place] = COLOURS[delegates % len(COLOURS)]
            delegates += 1
    return colours


def _legend(colours: dict[str, str], top: int) -> tuple[str, int]:
    """Returns the meaning of the colours, and where it ends."""
    rows = []
    for place, colour in colours.items():
        rows.append(
            f'<rect x="{MARGIN}" y="{top}" width="14" height="14" fill="{colour}"/>'
            f'<text class="l" x="{MARGIN + 20}" y="{top + 12}">{html.escape(place)}</text>'
        )
        top += 20
    return "".join(rows), top + MARGIN
