"""A document for people: a table on a terminal, Markdown and plots for the reader of results/.

python -m bench.report FILE        from FILE.json, again: FILE.md and the plots beside it
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.document import Document, encoded, read
from bench.figures import Spread, shown
from bench.rounds import Line
from bench.ways import SERVERS as SERVERS_OF_A_CLUSTER

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
TEXTS = frozenset({"question", "figure", "yardstick", "met"})
SERVERS = "servers' CPU µs/msg"
# of a way beside the first
HIS_RATE = ("{way}", "{way} : {first}", "{way}: ratio", "{way}: CPU µs/msg", "{way}: " + SERVERS)
# several servers share the machine, so a rate would be theirs
HIS_CPU = ("{way}: CPU µs/msg", "{way}: " + SERVERS)
ACKS = "{way}: acks"
ONE_DISK = (
    "The servers of `3 servers` share two cores and one disk with all else, so their columns say what "
    "a publish ack takes and what a message costs in processor time; a rate would be the machine's."
)


def show(measured: Document, console: Console) -> None:
    """The table, as wide as it needs to be."""
    headings = _headings(measured)
    table = Table(
        *headings[:2],
        caption="median (least … most) of the rounds; CPU and memory: router : yardstick",
        caption_justify="left",
    )
    for heading in headings[2:]:
        table.add_column(heading, justify="left" if heading in TEXTS else "right")
    for line in measured.lines:
        table.add_row(*_cells(line, measured.ways), style="red" if line.is_met is False else None)
    console.print(table)
    for name, why in measured.broken.items():
        console.print(f"{name} is broken: {why}", style="red", markup=False)
    for why in measured.left_out.values():
        console.print(why, markup=False)


def keep(measured: Document, file: Path) -> Path:
    """What is known so far, beside `file`, until the whole is written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = _part(file)
    part.write_bytes(encoded(measured))
    return part


def write(measured: Document, file: Path) -> None:
    """`file` as JSON, the same as Markdown beside it, and the plots of what was asked."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encoded(measured))
    _part(file).unlink(missing_ok=True)
    _render(measured, file)


def _render(measured: Document, file: Path) -> None:
    file.with_suffix(".md").write_text(markdown(measured, _pictures(measured, file)))


def _pictures(measured: Document, file: Path) -> dict[str, Path]:
    if DRAWN.isdisjoint(measured.questions):
        return {}
    from bench import plots  # matplotlib takes a second to import

    return plots.draw(measured, file)


def _part(file: Path) -> Path:
    return file.with_suffix(".part.json")


def markdown(measured: Document, pictures: dict[str, Path]) -> str:
    """`pictures`: by what they show, in the directory of the page."""
    headings = _headings(measured)
    rows = [headings, tuple("---" if heading in TEXTS else "---:" for heading in headings)]
    rows += [_cells(line, measured.ways) for line in measured.lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    facts = "\n".join(f"- {name}: {value}" for name, value in measured.machine.items())
    reading = (
        "Median (least … most) of the rounds; CPU and memory: router : yardstick. How to read "
        "it: [bench/README.md](../README.md)."
    )
    if len(measured.ways) > 1:
        reading += " Other columns: [the ways](../README.md#ways)."
    reading = f"{reading} {_about_disk(measured)}".rstrip()
    shown_too = [f"![{what}]({picture.name})" for what, picture in pictures.items()]
    missing = [
        f"- {name} is broken: {' '.join(why.split())}" for name, why in measured.broken.items()
    ]
    missing += [f"- {why}" for why in measured.left_out.values()]
    return (
        "\n\n".join(
            [
                "# Bench",
                facts,
                table,
                reading,
                *shown_too,
                *(["\n".join(missing)] if missing else []),
            ]
        )
        + "\n"
    )


def _headings(found: Document) -> tuple[str, ...]:
    first, *others = found.ways
    if not others:
        return HEADINGS
    told = [heading.format(way=name, first=first) for name in others for heading in _columns(name)]
    return (*HEADINGS, SERVERS, *told)


def _columns(way: str) -> tuple[str, ...]:
    return (ACKS, *HIS_CPU) if _is_crowded(way) else HIS_RATE


def _is_crowded(way: str) -> bool:
    return way.startswith(f"{SERVERS_OF_A_CLUSTER} servers")


def _about_disk(found: Document) -> str:
    return ONE_DISK if any(map(_is_crowded, found.ways)) else ""


def _cells(line: Line, ways: Sequence[str]) -> tuple[str, ...]:
    others = ways[1:]
    if not others:
        return _own_cells(line)
    told = [cell for name in others for cell in _beside_cells(line, name)]
    return (*_own_cells(line), _number(line.servers_us), *told)


def _beside_cells(line: Line, way: str) -> tuple[str, ...]:
    """What is said of another way, or why nothing is."""
    empty = ("",) * (len(_columns(way)) - 1)
    if line.unaffected:
        return (line.unaffected, *empty)
    if (beside := line.beside.get(way)) is None:
        return ("", *empty)
    cpu = tuple(map(_number, beside.cpu_us))
    if _is_crowded(way):
        return (_spread(beside.ours) if line.figure.is_of_acks else "", *cpu)
    return (_spread(beside.ours), _spread(beside.to_first), _spread(beside.ratio), *cpu)


def _number(value: float | None) -> str:
    return "" if value is None else shown(value)


def _own_cells(line: Line) -> tuple[str, ...]:
    return (
        line.question,
        f"{line.figure.of}: {line.figure.unit}" if line.figure.of else line.figure.unit,
        _spread(line.ours),
        f"{line.figure.against}: {line.absent}" if line.absent else line.figure.against or "",
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
