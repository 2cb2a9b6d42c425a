"""Charts as inline SVG: stacked bars, spans on a logarithmic scale, horizontal bars. The page has
the colours (`page.css`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from router.core.legible import shorten

WIDE, HALF, HIGH = 1036, 480, 290  # as wide as the page shows them, so that text keeps its size
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 10, 26
# of horizontal bars: room for names, the height of a row, characters of a name
NAMES, ROW, LETTERS = 130, 30, 18
X_LABELS = 16
MAX_BAR = 96  # of a bar, if there are few


def draw_stacked_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Draw the cost by day and tenant: a stack for each label, a colour for each series in their
    order. A tooltip shows the figures.
    """
    # what is below 0 has no bar
    tops = [
        sum(max(value, 0.0) for value in values) for values in zip(*series.values(), strict=True)
    ]
    ticks = choose_ticks(max(tops, default=0.0))
    high = HIGH - TOP - BOTTOM
    step = (WIDE - LEFT - RIGHT) / max(1, len(labels))
    wide = min(step * 0.72, MAX_BAR)
    parts = [_draw_grid(ticks, high)]
    for place, label in enumerate(labels):
        middle, floor_ = LEFT + (place + 0.5) * step, float(TOP + high)
        for colour, (name, values) in enumerate(series.items()):
            if (size := values[place] / ticks[-1] * high) > 0:
                floor_ -= size
                tip = f"{label}, {shorten(name)}: {format_number(values[place])}"
                parts.append(
                    _draw_rect(
                        (middle - wide / 2, floor_), wide, max(size - 0.75, 0.4), f"c{colour}", tip
                    )
                )
        if place % ceil(len(labels) / X_LABELS) == 0:
            parts.append(_draw_text(middle, HIGH - 8, label[5:] or label, "middle"))
    return _draw_svg(WIDE, HIGH, "cost by day and tenant", parts)


def draw_spans(rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw the latency by provider: p50, p95 and p99 of each name, milliseconds, as three dots on a
    line; the scale is logarithmic.
    """
    values = [max(value, 1.0) for _, three in rows for value in three] or [1.0]
    low, top = (
        floor(log10(min(values))),
        max(ceil(log10(max(values))), floor(log10(min(values))) + 1),
    )
    wide, high = WIDE - NAMES - 24, len(rows) * ROW

    def scale(value: float) -> float:
        return NAMES + (log10(max(value, 1.0)) - low) / (top - low) * wide

    parts = [
        _draw_line(scale(10.0**power), 4, scale(10.0**power), high + 4, "grid")
        for power in range(low, top + 1)
    ]
    parts += [
        _draw_text(scale(10.0**power), high + 20, format_ms(10.0**power), "middle")
        for power in range(low, top + 1)
    ]
    for place, (name, three) in enumerate(rows):
        y = place * ROW + ROW / 2 + 4
        parts += [
            _draw_name(y + 4, name),
            _draw_line(scale(three[0]), y, scale(three[-1]), y, "span"),
        ]
        parts += [
            _draw_dot(scale(value), y, f"d{dot}", f"{shorten(name)} {title}: {format_ms(value)}")
            for dot, (value, title) in enumerate(_pair_titles(three))
        ]
    return _draw_svg(WIDE, high + 28, "latency by provider", parts)


def draw_horizontal_bars(rows: Sequence[tuple[str, float, str]], what: str, colour: str) -> str:
    """Draw a bar for each (name, value, label at its end); half a page wide."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    parts = []
    for place, (name, value, label) in enumerate(rows):
        y, size = place * ROW + 6, value / most * (HALF - NAMES - 70)
        parts += [
            _draw_name(y + 14, name),
            _draw_rect((NAMES, y), max(size, 1.5), ROW - 12, colour, f"{shorten(name)}: {label}"),
        ]
        parts.append(_draw_text(NAMES + size + 8, y + 14, label, "start"))
    return _draw_svg(HALF, len(rows) * ROW + 4, what, parts)


def choose_ticks(most: float) -> list[float]:
    """Return ticks from 0 to at least `most` in about five steps of 1, 2 or 5."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 5
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * count for count in range(ceil(most / step - 1e-9) + 1)]


def format_number(value: float) -> str:
    """Write a number short, for axes and tooltips."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):,.4g} {letter}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def format_ms(value: float | None) -> str:
    """Write a latency short; a group without outcomes has none."""
    if value is None:
        return "–"
    return f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def _pair_titles(three: Sequence[float]) -> Iterator[tuple[float, str]]:
    return zip(three, ("p50", "p95", "p99"), strict=True)


def _draw_grid(ticks: Sequence[float], high: float) -> str:
    places = [(tick, TOP + high - tick / ticks[-1] * high) for tick in ticks]
    return "".join(
        _draw_line(LEFT, y, WIDE - RIGHT, y, "grid")
        + _draw_text(LEFT - 8, y + 4, format_number(tick), "end")
        for tick, y in places
    )


def _draw_name(y: float, name: str) -> str:
    return _draw_text(NAMES - 10, y, shorten(name, LETTERS), "end", "name")


def _draw_svg(wide: float, high: float, what: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {wide:g} {high:g}" role="img" '
        f'aria-label="{escape(what)}">{"".join(parts)}</svg>'
    )


def _draw_rect(place: tuple[float, float], wide: float, high: float, colour: str, tip: str) -> str:
    size = f'x="{place[0]:.1f}" y="{place[1]:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="1.5"'
    return f'<rect {size} class="{colour}"><title>{escape(tip)}</title></rect>'


def _draw_dot(x: float, y: float, kind: str, tip: str) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" '
        f'class="{kind}"><title>{escape(tip)}</title></circle>'
    )


def _draw_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _draw_text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
    )
