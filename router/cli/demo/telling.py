"""Printers of the demo: tables for people, JSON lines for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import orjson
from rich.text import Text

from router.app import Ready
from router.cli.demo.story import Asked, Counted
from router.cli.demo.witness import Sight
from router.cli.ends import complain
from router.cli.letters import panel
from router.cli.output import console, print_lines, table
from router.deadletters import DeadLetter, as_fields

_LABEL = re.compile(r'(\w{1,100})="([^"]*)"')


class Telling(Protocol):
    """Prints the demo; the methods are called in this order."""

    def begins(self, ready: Ready) -> None: ...
    def answers(self, asked: Sequence[Asked]) -> None: ...
    def letter(self, refused: Asked, letter: DeadLetter | None) -> None: ...
    def way(self, title: str, says: str, way: Sequence[Sight]) -> None: ...
    def counts(self, counted: Counted) -> None: ...
    def ends(self, problems: Sequence[str]) -> None: ...


class Tables:
    """Prints tables for people."""

    def __init__(self) -> None:
        self._console = console()

    def begins(self, ready: Ready) -> None:
        self._chapter("A router and a worker are running", f"on {ready.nats_url}, metrics on {ready.http}/metrics")

    def answers(self, asked: Sequence[Asked]) -> None:
        self._chapter("Requests and their decisions", "the same question in every form; sessions stay, repetitions are answered alike")
        rows = ((one.step.title, one.step.says, one.provider or "–", _reason(one), Text(f"{one.ms:.1f}", justify="right")) for one in asked)
        self._console.print(table(("form", "request", "provider", "reason", "ms"), rows))

    def letter(self, refused: Asked, letter: DeadLetter | None) -> None:
        error = refused.answer.error
        self._chapter("A malformed request", "answered at once, and kept as a dead letter")
        if error is not None:
            self._console.print(Text(f"  {error.code}: {error.message}\n", style="yellow"))
        if letter is not None:
            self._console.print(panel(letter))

    def way(self, title: str, says: str, way: Sequence[Sight]) -> None:
        self._chapter(title, says)
        rows = ((one.name, one.subject, one.says, Text(f"{one.ms:.1f}", justify="right")) for one in way)
        self._console.print(table(("", "subject", "says", "ms"), rows))

    def counts(self, counted: Counted) -> None:
        self._chapter("What was counted", "")
        rows = ((name, labels, Text(f"{value:g}", justify="right")) for name, labels, value in map(_series, counted.items()))
        self._console.print(table(("metric", "labels", "value"), rows))

    def ends(self, problems: Sequence[str]) -> None:
        for problem in problems:
            complain(problem)
        if not problems:
            self._console.print(Text("  Everything was as it should be.", style="green"))
            self._console.print(Text("  Next: make run, or router serve --embedded\n", style="dim"))

    def _chapter(self, title: str, says: str) -> None:
        self._console.print(Text.assemble(("\n" + title, "bold"), ("  " + says, "dim")))


class Lines:
    """Prints one JSON object a line for programs; `event` names its kind."""

    def begins(self, ready: Ready) -> None:
        _line("begins", nats_url=ready.nats_url, http=ready.http)

    def answers(self, asked: Sequence[Asked]) -> None:
        for one in asked:
            self._answer(one)

    def letter(self, refused: Asked, letter: DeadLetter | None) -> None:
        self._answer(refused)
        _line("letter", letter=as_fields(letter) if letter is not None else None)

    def way(self, title: str, says: str, way: Sequence[Sight]) -> None:
        for one in way:
            _line("way", of=title, what=one.name, subject=one.subject, says=one.says, ms=round(one.ms, 3), body=one.body)

    def counts(self, counted: Counted) -> None:
        for series, value in counted.items():
            _line("counted", metric=series, value=value)

    def ends(self, problems: Sequence[str]) -> None:
        _line("ends", ok=not problems, problems=list(problems))

    def _answer(self, one: Asked) -> None:
        _line("answer", form=one.step.title, request=one.step.says, answer=orjson.loads(one.answer.raw), ms=round(one.ms, 3))


def _line(event: str, **facts: Any) -> None:
    print_lines([{"event": f"demo.{event}", **facts}])


def _reason(one: Asked) -> Text:
    style = "green" if one.answer.ok else "yellow"
    return Text(one.verdict + (" (replayed)" if one.step.is_replay else ""), style=style)


def _series(item: tuple[str, float]) -> tuple[str, str, float]:
    series, value = item
    name, _, labels = series.partition("{")
    return name, "  ".join(f"{label}={value}" for label, value in _LABEL.findall(labels) if value), value
