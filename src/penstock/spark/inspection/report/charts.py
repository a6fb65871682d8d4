"""Charts as inline SVG: columns over time or classes, horizontal bars, the Lorenz curve.

Shapes are SVG and stretch with the page; words stay HTML beside them, so they are as large on a
phone as on a wall. Every shape says its number in a title. Not what is drawn: `report.sections`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.spark.inspection.report.html import Html, element, join


class Column(NamedTuple):
    """One column of a chart: its height, and what it says of itself."""

    value: float
    title: str


class Bar(NamedTuple):
    """One horizontal bar: its label, its length from 0 to 1, its number, and what it says."""

    label: str
    length: float
    value: str
    title: str
    tone: str = ""


Labels = Sequence[tuple[float, str]]
"""Words under a chart: where from 0 to 1, and the text."""


def figure(title: str, subtitle: str, *content: Html, wide: bool = False) -> Html:
    """A chart with its heading."""
    caption = element(
        "figcaption", None, element("b", None, title), element("span", None, subtitle)
    )
    return element("figure", {"class": "chart wide" if wide else "chart"}, caption, *content)


def columns(
    values: Sequence[Column],
    labels: Labels,
    say: Callable[[float], str],
    *,
    name: str,
    look: str = "",
    tone: str = "",
    base: int = 10,
) -> Html:
    """Columns that stand side by side, from 0 up."""
    top = nice_top(max((column.value for column in values), default=0.0), base)
    width = 100 / max(len(values), 1)
    gap = min(0.25 * width, 0.4)
    bars = [
        element(
            "rect",
            {
                "class": f"bar {tone}".strip(),
                "x": f"{index * width + gap / 2:.3f}%",
                "y": f"{100 - 100 * column.value / top:.3f}%",
                "width": f"{width - gap:.3f}%",
                "height": f"{100 * column.value / top:.3f}%",
                "rx": 1.5,
            },
            element("title", None, column.title),
        )
        for index, column in enumerate(values)
        if column.value > 0
    ]
    return _plot(join([*_grid(), *bars]), _heights(top, say), labels, name=name, look=look)


def curve(points: Sequence[tuple[float, float]], labels: Labels, *, name: str) -> Html:
    """A line from (0, 0) to (1, 1) beside the diagonal."""
    path = " ".join(f"{100 * x:.2f},{100 - 100 * y:.2f}" for x, y in points)
    inner = element(
        "svg",
        {
            "viewBox": "0 0 100 100",
            "preserveAspectRatio": "none",
            "width": "100%",
            "height": "100%",
        },
        element("path", {"class": "area", "d": f"M 0,100 L {path} Z"}),
        element("line", {"class": "diagonal", "x1": 0, "y1": 100, "x2": 100, "y2": 0}),
        element("path", {"class": "curve", "d": f"M {path}"}),
    )
    heights = [f"{percent} %" for percent in (0, 50, 100)]
    return _plot(join([*_grid(), inner]), heights, labels, name=name, look="tall")


def bars(rows: Sequence[Bar]) -> Html:
    """Bars under one another, with a label before and a number behind each."""
    cells = []
    for row in rows:
        length = 0.0 if row.length <= 0 else max(0.8, 100 * min(row.length, 1.0))
        drawn = element(
            "svg",
            {"role": "img", "aria-label": row.title},
            element("title", None, row.title),
            element("rect", {"class": "track", "width": "100%", "height": "100%", "rx": 3}),
            element(
                "rect",
                {
                    "class": "toned" if row.tone else "bar",
                    "width": f"{length:.2f}%",
                    "height": "100%",
                    "rx": 3,
                },
            ),
        )
        cells += [
            element("span", {"class": "label", "title": row.label}, row.label),
            element("span", {"class": row.tone or None}, drawn),
            element("span", {"class": "value"}, row.value),
        ]
    return element("div", {"class": "bars"}, *cells)


def nice_top(value: float, base: int = 10) -> float:
    """The end of an axis: the next number that people like; with 1024, of bytes in their unit."""
    if value < 1e-9:
        return 1.0
    if base == 1024 and value >= base:
        unit = 1024.0 ** int(math.log2(value) / 10)
        return unit * nice_top(value / unit)
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if value <= step * power * 1.0001
    )


def _heights(top: float, say: Callable[[float], str]) -> list[str]:
    return [say(0), say(top / 2), say(top)]


def _grid() -> list[Html]:
    return [
        element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y})
        for y in ("0%", "50%", "100%")
    ]


def _plot(shapes: Html, heights: Sequence[str], labels: Labels, *, name: str, look: str) -> Html:
    words = [
        element(
            "span",
            {
                "style": f"left:{100 * at:.2f}%",
                "class": "start" if at <= 0.01 else "end" if at >= 0.99 else None,
            },
            text,
        )
        for at, text in labels
    ]
    return element(
        "div",
        {"class": f"plot {look}".strip()},
        element("div", {"class": "ys"}, *(element("span", None, text) for text in heights)),
        element("svg", {"role": "img", "aria-label": name}, shapes),
        element("div", {"class": "xs"}, *words),
    )
