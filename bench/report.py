"""What was measured, shown: a table on a terminal, Markdown for the reader of results/, JSON with every round for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.figures import Spread, shown
from bench.rounds import Answer, Line, lines

HEADINGS = ("question", "figure", "router", "yardstick", "its figure", "ratio", "CPU µs/msg", "peak MiB", "target", "met")
NUMBERS = frozenset({"router", "its figure", "ratio", "CPU µs/msg", "peak MiB", "target"})


def show(answers: Sequence[Answer], console: Console) -> None:
    """The table, as wide as it needs to be."""
    table = Table(*HEADINGS[:2], caption="median (least … most) of the rounds; CPU and memory: router : yardstick", caption_justify="left")
    for heading in HEADINGS[2:]:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left")
    for line in _all(answers):
        table.add_row(*_cells(line), style="red" if line.is_met is False else None)
    console.print(table)


def write(answers: Sequence[Answer], machine: Mapping[str, str], file: Path) -> None:
    """`file` as JSON, and the same as Markdown beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(_document(answers, machine)), indent=2) + b"\n")
    file.with_suffix(".md").write_text(markdown(answers, machine))


def markdown(answers: Sequence[Answer], machine: Mapping[str, str]) -> str:
    rows = [HEADINGS, tuple("---:" if heading in NUMBERS else "---" for heading in HEADINGS)]
    rows += [_cells(line) for line in _all(answers)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    reading = "Median (least … most) of the rounds; CPU and memory: router : yardstick. How to read it: [bench/README.md](../README.md)."
    return f"# Bench\n\n{facts}\n\n{table}\n\n{reading}\n"


def missed(answers: Sequence[Answer]) -> list[Line]:
    return [line for line in _all(answers) if line.is_met is False]


def _all(answers: Sequence[Answer]) -> list[Line]:
    return [line for answer in answers for line in lines(answer)]


def _document(answers: Sequence[Answer], machine: Mapping[str, str]) -> dict[str, object]:
    questions = {answer.question.name: {"asks": answer.question.asks, "rounds": answer.rounds} for answer in answers}
    return {"machine": machine, "lines": _all(answers), "questions": questions}


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.question,
        line.figure.unit,
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
