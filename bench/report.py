"""A document for people: a table on a terminal, Markdown and plots for the reader of results/.

python -m bench.report FILE        from FILE.json, again: FILE.md and the plots beside it
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.document import Document, encoded, read
from bench.figures import Spread, shown
from bench.rounds import Line

HEADINGS = (
    "question",
    "figure",
    "router",
    "yardstick",
    "its figure",
    "ratio",
    "CPU µs/msg",
    "peak MiB",
    "target",
    "met",
)
# what `plots` has a picture of
DRAWN = frozenset({"decide_load", "decide_volume", "decide_payload"})
NUMBERS = frozenset({"router", "its figure", "ratio", "CPU µs/msg", "peak MiB", "target"})


def show(found: Document, console: Console) -> None:
    """The table, as wide as it needs to be."""
    table = Table(
        *HEADINGS[:2],
        caption="median (least … most) of the rounds; CPU and memory: router : yardstick",
        caption_justify="left",
    )
    for heading in HEADINGS[2:]:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left")
    for line in found.lines:
        table.add_row(*_cells(line), style="red" if line.is_met is False else None)
    console.print(table)
    for name, why in found.broken.items():
        console.print(f"{name} is broken: {why}", style="red", markup=False)


def keep(found: Document, file: Path) -> Path:
    """What is known so far, beside `file`, until the whole is written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = _part(file)
    part.write_bytes(encoded(found))
    return part


def write(found: Document, file: Path) -> None:
    """`file` as JSON, the same as Markdown beside it, and the plots of what was asked."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encoded(found))
    _part(file).unlink(missing_ok=True)
    _render(found, file)


def _render(found: Document, file: Path) -> None:
    file.with_suffix(".md").write_text(markdown(found, _pictures(found, file)))


def _pictures(found: Document, file: Path) -> dict[str, Path]:
    if DRAWN.isdisjoint(found.questions):
        return {}
    from bench import plots  # matplotlib takes a second to import

    return plots.draw(found, file)


def _part(file: Path) -> Path:
    return file.with_suffix(".part.json")


def markdown(found: Document, pictures: dict[str, Path]) -> str:
    """`pictures`: by what they show, in the directory of the page."""
    rows = [HEADINGS, tuple("---:" if heading in NUMBERS else "---" for heading in HEADINGS)]
    rows += [_cells(line) for line in found.lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    facts = "\n".join(f"- {name}: {value}" for name, value in found.machine.items())
    reading = (
        "Median (least … most) of the rounds; CPU and memory: router : yardstick. How to read "
        "it: [bench/README.md](../README.md)."
    )
    shown_too = [f"![{what}]({picture.name})" for what, picture in pictures.items()]
    broken = [f"- {name} is broken: {' '.join(why.split())}" for name, why in found.broken.items()]
    return (
        "\n\n".join(
            ["# Bench", facts, table, reading, *shown_too, *(["\n".join(broken)] if broken else [])]
        )
        + "\n"
    )


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.question,
        f"{line.figure.of}: {line.figure.unit}" if line.figure.of else line.figure.unit,
        _spread(line.ours),
        line.figure.against or "",
        _spread(line.theirs),
        _spread(line.ratio),
        _pair(line.cpu_us),
        _pair(line.peak_mib),
        str(line.figure.target or ""),
        {True: "yes", False: "NO", None: ""}[line.is_met],
    )


def _spread(value: Spread | None) -> str:
    if value is None:
        return ""
    if value.least == value.most:
        return shown(value.median)
    return f"{shown(value.median)} ({shown(value.least)} … {shown(value.most)})"


def _pair(values: tuple[float | None, float | None]) -> str:
    return " : ".join(shown(value) for value in values if value is not None)


if __name__ == "__main__":
    path = Path(sys.argv[1]).with_suffix(".json")
    _render(read(path), path)
