"""Small charts as inline SVG: a course of usage with lines over it, bars, and points. Face. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools
from agent.core.recommender.simulation.trace import Floats32

WIDTH: Final = 380
HEIGHT: Final = 150
_LEFT: Final = 58
_RIGHT: Final = 8
_TOP: Final = 8
_BOTTOM: Final = 20
_ROOM_X: Final = WIDTH - _LEFT - _RIGHT
_ROOM_Y: Final = HEIGHT - _TOP - _BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis goes up to, and its marks."""

    end: float
    """Above 0."""
    marks: tuple[tuple[float, str], ...]
    """Places from 0 to ``end`` and what stands at them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line in steps; where it is 0 there is none."""

    values: Floats32
    style: str
    """Its class in the style sheet."""


def value_axis(largest: float, text: Callable[[float], str], *, binary: bool = False) -> Axis:
    """Make an axis from 0 to a bit above the largest value, with two to five marks at round places."""
    largest = max(largest, 1e-9)
    base = 1.0
    if binary:
        while base * 1024 <= largest:
            base *= 1024
    scaled = largest / base
    power = 10.0 ** int(np.floor(np.log10(scaled / 4)))
    step = next(step for step in (1, 2, 2.5, 5, 10) if scaled / (step * power) <= 4.5) * power * base
    count = int(largest / step)
    return Axis(end=largest * 1.05, marks=tuple((step * index, text(step * index)) for index in range(count + 1)))


def time_axis(start_unix_minute: int, minutes: int, text: Callable[[int], str]) -> Axis:
    """Make an axis of minutes with up to five marks at round times of UTC."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080)
    step = next((step for step in steps if minutes / step <= 5), -(-minutes // (5 * 1440)) * 1440)
    first = -(-start_unix_minute // step) * step
    return Axis(
        end=float(minutes),
        marks=tuple(
            (float(minute - start_unix_minute), text(minute))
            for minute in range(first, start_unix_minute + minutes, step)
        ),
    )


def area_path(values: Floats32, has: Bools, stretch: float, x: Axis, y: Axis) -> str:
    """Return the path of a filled course, shape ``(b,)``, a value per stretch of the x axis; a gap is a gap."""
    parts: list[str] = []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], has, [False])).astype(np.int8)))
    for begin, after in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        parts.append(f"M{_x(begin * stretch, x)} {_y(0, y)}")
        parts += [
            f"L{_x(index * stretch, x)} {_y(float(values[index]), y)}H{_x((index + 1) * stretch, x)}"
            for index in range(begin, after)
        ]
        parts.append(f"V{_y(0, y)}Z")
    return "".join(parts)


def line_path(values: Floats32, stretch: float, x: Axis, y: Axis) -> str:
    """Return the path of a curve in steps; it is broken where it is 0."""
    parts: list[str] = []
    before = 0.0
    for index, value in enumerate(values.tolist()):
        if value != before:
            at = _x(index * stretch, x)
            if before:
                parts.append(f"H{at}")
            if value:
                parts.append(f"V{_y(value, y)}" if before else f"M{at} {_y(value, y)}")
            before = value
    if before:
        parts.append(f"H{_x(values.size * stretch, x)}")
    return "".join(parts)


def chart(title: str, area: str, curves: Sequence[Curve], stretch: float, x: Axis, y: Axis) -> str:
    """Return one chart: ``title`` for those who cannot see it, ``area`` drawn first, the curves over it."""
    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(at, y)}" y2="{_y(at, y)}"/>'
        f'<text class="mark" text-anchor="end" x="{_LEFT - 5}" y="{_y(at, y)}" dy="3.5">{escape(text)}</text>'
        for at, text in y.marks
    ]
    lines += [
        f'<line class="grid" x1="{_x(at, x)}" x2="{_x(at, x)}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 3}"/>'
        f'<text class="mark" text-anchor="middle" x="{_x(at, x)}" y="{HEIGHT - 5}">{escape(text)}</text>'
        for at, text in x.marks
        if at / x.end < 0.97  # or its text would be cut
    ]
    lines.append(area)
    lines += [f'<path class="{curve.style}" d="{line_path(curve.values, stretch, x, y)}"/>' for curve in curves]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(lines)}</svg>"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """One bar of parts side by side."""

    label: str
    parts: tuple[tuple[float, str], ...]
    """Lengths and their classes in the style sheet."""
    text: str
    """To the right of it."""


def bars(title: str, rows: Sequence[ChartBar]) -> str:
    """Draw bars below each other, all to one scale."""
    left, room, high, text_room = 70, 330, 24, 320
    longest = max([sum(length for length, _ in row.parts) for row in rows] + [1e-9])
    lines: list[str] = []
    for index, row in enumerate(rows):
        top = index * high
        lines.append(f'<text class="label" x="{left - 8}" y="{top + 16}" text-anchor="end">{escape(row.label)}</text>')
        at = float(left)
        for length, style in row.parts:
            wide = room * length / longest
            lines.append(f'<rect class="{style}" x="{at:.1f}" y="{top + 4}" width="{wide:.1f}" height="{high - 8}"/>')
            at += wide
        lines.append(f'<text class="mark" x="{at + 8:.1f}" y="{top + 16}">{escape(row.text)}</text>')
    width, height = left + room + text_room, high * len(rows)
    return (
        f'<svg class="bars" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(lines)}</svg>"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """One point of a picture of two figures."""

    label: str
    x: float
    y: float
    style: str
    """Its class in the style sheet."""
    is_front: bool
    """It belongs to the line that joins the best."""


def points(title: str, rows: Sequence[ChartPoint], x: Axis, y: Axis, names: tuple[str, str]) -> str:
    """Draw points in the plane of two figures; those of the front are joined by a line in steps.

    ``names`` are those of the axes. A step is what can be had between two points of the front: the worse of each.
    """
    wide, high, left, bottom = 640, 300, 64, 40
    room_x, room_y = wide - left - 150, high - bottom - 12

    def at(point: ChartPoint) -> tuple[str, str]:
        return _short(left + room_x * point.x / x.end), _short(12 + room_y * (1 - point.y / y.end))

    lines = []
    for value, text in x.marks:
        place = _short(left + room_x * value / x.end)
        lines.append(f'<line class="grid" x1="{place}" x2="{place}" y1="12" y2="{12 + room_y}"/>')
        lines.append(f'<text class="mark" text-anchor="middle" x="{place}" y="{high - 24}">{escape(text)}</text>')
    for value, text in y.marks:
        place = _short(12 + room_y * (1 - value / y.end))
        lines.append(f'<line class="grid" x1="{left}" x2="{left + room_x}" y1="{place}" y2="{place}"/>')
        lines.append(f'<text class="mark" text-anchor="end" x="{left - 6}" y="{place}" dy="3.5">{escape(text)}</text>')
    lines.append(f'<text class="mark" text-anchor="middle" x="{left + room_x / 2}" y="{high - 6}">{names[0]}</text>')
    lines.append(f'<text class="mark" x="4" y="9">{names[1]}</text>')
    front = [at(point) for point in sorted(rows, key=lambda point: (point.x, -point.y)) if point.is_front]
    if front:
        path = f"M{front[0][0]} {front[0][1]}" + "".join(f"H{right}V{down}" for right, down in front[1:])
        lines.append(f'<path class="front" d="{path}"/>')
    for point in rows:
        right, down = at(point)
        lines.append(f'<circle class="{point.style}" cx="{right}" cy="{down}" r="{5 if point.is_front else 3.5}"/>')
        lines.append(f'<text class="label" x="{right}" y="{down}" dx="9" dy="4">{escape(point.label)}</text>')
    return (
        f'<svg class="bars" viewBox="0 0 {wide} {high}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(lines)}</svg>"
    )


def _x(value: float, axis: Axis) -> str:
    return _short(_LEFT + _ROOM_X * value / axis.end)


def _y(value: float, axis: Axis) -> str:
    return _short(_TOP + _ROOM_Y * (1 - value / axis.end))


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
