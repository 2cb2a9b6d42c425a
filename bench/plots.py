"""Pictures of a document, as SVG: latency against load, cost against volume, cost against payload.

Only what was asked is drawn. Lines are medians of the rounds, bands and bars reach from the least
to the most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench import decide_load, decide_payload, decide_volume
from bench.document import Asked, Document
from bench.figures import Spread, shown, spread

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8c8c8c"  # colour-blind readers tell them apart
TARGET_MS = 5.0  # p99 at 50 %
matplotlib.rc("svg", hashsalt="bench")  # names inside the file that do not change from run to run

Point = tuple[float, Spread]
Questions = Mapping[str, Asked]


def draw(measured: Document, file: Path) -> dict[str, Path]:
    """The pictures beside `file`, by what they show."""
    asked = measured.questions
    pictures = {
        what: picture(asked) for what, (question, picture) in PICTURES.items() if question in asked
    }
    return {
        what: _save(picture, file.with_name(f"{file.stem}_{what.replace(' ', '_')}"))
        for what, picture in pictures.items()
    }


def _save(picture: Figure, stem: Path) -> Path:
    file = stem.with_suffix(".svg")
    picture.savefig(file, metadata={"Date": None})  # the same figures are the same file
    return file


def _load(questions: Questions) -> Figure:
    """Three percentiles, three sides."""
    asked = questions["decide_load"]
    picture, panels = _panels(3, "decide: latency against load", share_y=True)
    sides = (("bare nats-py", GREY, "-"), ("router", BLUE, "-"), ("router, scraped", ORANGE, "--"))
    for axes, (name, title) in zip(
        panels, (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")), strict=True
    ):
        for side, colour, style in sides:
            points = [
                (share, _of(asked, side, f"{name}_{share}_ms")) for share in decide_load.SHARES
            ]
            _line(axes, points, side, colour, style)
        axes.set(
            title=title,
            yscale="log",
            xlim=(0, 90),
            xticks=decide_load.SHARES,
            xlabel="load, % of its capacity",
        )
        _plain_numbers(axes)
    panels[1].plot([50], [TARGET_MS], marker="v", color="black", markersize=7, linestyle="none")
    panels[1].annotate(
        "target 5 ms",
        (50, TARGET_MS),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )
    panels[0].set_ylabel("milliseconds from when it was due")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return picture


def _volume(questions: Questions) -> Figure:
    """Processor time and memory, from ten thousand on, and to ten million where that was asked."""
    asked, longest = questions["decide_volume"], questions.get("decide_ten_million")
    picture, (cpu, memory) = _panels(2, "decide: cost against volume")
    for axes, figure, what in (
        (cpu, "cpu_us", "CPU µs a decision"),
        (memory, "rss_100_mib", "MiB resident at the end"),
    ):
        points: list[Point] = [
            (count, _of(asked, side, figure)) for side, count in decide_volume.VOLUMES.items()
        ]
        if longest is not None:
            points.append((10_000_000, _of(longest, "10 M", figure)))
        _line(axes, points, "router", BLUE, "-")
        axes.set(
            title=what,
            xscale="log",
            xlabel="requests",
            ylim=(0, 1.25 * max(value.most for _, value in points)),
        )
        axes.set_xticks([count for count, _ in points], [f"{count:,.0f}" for count, _ in points])
        axes.minorticks_off()
        _values(axes, points)
    return picture


def _payload(questions: Questions) -> Figure:
    """Processor time by size, router and bare loop."""
    asked = questions["decide_payload"]
    picture, (axes,) = _panels(1, "decide: cost against payload")
    sizes = {size: payload for size, (payload, _) in decide_payload.SIZES.items()}
    for side, label, colour in (("bare", "bare nats-py", GREY), ("router", "router", BLUE)):
        points = [
            (payload, _of(asked, f"{side}, {size}", "cpu_us")) for size, payload in sizes.items()
        ]
        _line(axes, points, label, colour, "-")
        _values(axes, points)
    axes.set(xscale="log", yscale="log", xlabel="payload", ylabel="CPU µs a decision")
    axes.set_xticks(list(sizes.values()), list(sizes))
    axes.minorticks_off()
    _plain_numbers(axes)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return picture


# By what they show: the question that has to be asked for it, and who draws it.
PICTURES: Mapping[str, tuple[str, Callable[[Questions], Figure]]] = {
    "latency against load": ("decide_load", _load),
    "cost against volume": ("decide_volume", _volume),
    "cost against payload": ("decide_payload", _payload),
}


# -- one look for all ------------------------------------------------------------------------------


def _panels(count: int, title: str, *, share_y: bool = False) -> tuple[Figure, Sequence[Axes]]:
    picture = Figure(figsize=(2.2 + 3.1 * count, 3.8), layout="constrained")
    picture.suptitle(title, fontsize=12, fontweight="bold", x=0.012, ha="left")
    panels = picture.subplots(1, count, sharey=share_y, squeeze=False)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9)
    return picture, panels


def _line(axes: Axes, points: Sequence[Point], label: str, colour: str, style: str) -> None:
    places, values = [place for place, _ in points], [value for _, value in points]
    axes.fill_between(
        places,
        [value.least for value in values],
        [value.most for value in values],
        color=colour,
        alpha=0.12,
        linewidth=0,
    )
    axes.plot(
        places,
        [value.median for value in values],
        style,
        color=colour,
        marker="o",
        markersize=4.5,
        linewidth=1.8,
        label=label,
    )


def _values(axes: Axes, points: Sequence[Point]) -> None:
    for place, value in points:
        axes.annotate(
            shown(value.median),
            (place, value.median),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="#444444",
        )


def _plain_numbers(axes: Axes) -> None:
    """0.5, 2, 10 instead of powers."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _of(asked: Asked, side: str, figure: str) -> Spread:
    return spread([measured[figure] for measured in asked.rounds[side]])
