"""Printers of the demo: tables for people, JSON lines for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import orjson
from rich.text import Text

from router.app import Ready
from router.cli.dead_letter import print_dead_letter
from router.cli.demo.recorder import ObservedMessage
from router.cli.demo.requests import Counters, DemoCall
from router.cli.exit_codes import complain
from router.cli.output import build_table, open_console, print_lines
from router.operations.deadletters import DeadLetter, as_fields

_LABEL = re.compile(r'(\w{1,100})="([^"]*)"')


class DemoPrinter(Protocol):
    """Prints the demo; the methods are called in this order."""

    def print_start(self, ready: Ready) -> None: ...
    def print_answers(self, asked: Sequence[DemoCall]) -> None: ...
    def print_dead_letter(self, refused: DemoCall, letter: DeadLetter | None) -> None: ...
    def print_steps(self, title: str, says: str, way: Sequence[ObservedMessage]) -> None: ...
    def print_counters(self, counted: Counters) -> None: ...
    def print_end(self, problems: Sequence[str]) -> None: ...


class TablePrinter:
    """Prints tables for people."""

    def __init__(self) -> None:
        self._console = open_console()

    def print_start(self, ready: Ready) -> None:
        self._print_heading("A router and a worker are running", f"on {ready.nats_url}, metrics on {ready.http}/metrics")

    def print_answers(self, asked: Sequence[DemoCall]) -> None:
        self._print_heading(
            "Requests and their decisions", "the same question in every form; sessions stay, repetitions are answered alike"
        )
        rows = (
            (one.step.title, one.step.says, one.provider or "–", _format_reason(one), Text(f"{one.ms:.1f}", justify="right"))
            for one in asked
        )
        self._console.print(build_table(("form", "request", "provider", "reason", "ms"), rows))

    def print_dead_letter(self, refused: DemoCall, letter: DeadLetter | None) -> None:
        error = refused.answer.error
        self._print_heading("A malformed request", "answered at once, and kept as a dead letter")
        if error is not None:
            self._console.print(Text(f"  {error.code}: {error.message}\n", style="yellow"))
        if letter is not None:
            print_dead_letter(letter)

    def print_steps(self, title: str, says: str, way: Sequence[ObservedMessage]) -> None:
        self._print_heading(title, says)
        rows = ((one.name, one.subject, one.says, Text(f"{one.ms:.1f}", justify="right")) for one in way)
        self._console.print(build_table(("", "subject", "says", "ms"), rows))

    def print_counters(self, counted: Counters) -> None:
        self._print_heading("What was counted", "")
        rows = ((name, labels, Text(f"{value:g}", justify="right")) for name, labels, value in map(_split_series, counted.items()))
        self._console.print(build_table(("metric", "labels", "value"), rows))

    def print_end(self, problems: Sequence[str]) -> None:
        for problem in problems:
            complain(problem)
        if not problems:
            self._console.print(Text("  Everything was as it should be.", style="green"))
            self._console.print(Text("  Next: make run, or router serve --embedded\n", style="dim"))

    def _print_heading(self, title: str, says: str) -> None:
        self._console.print(Text.assemble(("\n" + title, "bold"), ("  " + says, "dim")))


class JsonPrinter:
    """Prints one JSON object a line for programs; `event` names its kind."""

    def print_start(self, ready: Ready) -> None:
        _print_line("begins", nats_url=ready.nats_url, http=ready.http)

    def print_answers(self, asked: Sequence[DemoCall]) -> None:
        for one in asked:
            self._print_answer(one)

    def print_dead_letter(self, refused: DemoCall, letter: DeadLetter | None) -> None:
        self._print_answer(refused)
        _print_line("letter", letter=as_fields(letter) if letter is not None else None)

    def print_steps(self, title: str, says: str, way: Sequence[ObservedMessage]) -> None:
        for one in way:
            _print_line("way", of=title, what=one.name, subject=one.subject, says=one.says, ms=round(one.ms, 3), body=one.body)

    def print_counters(self, counted: Counters) -> None:
        for series, value in counted.items():
            _print_line("counted", metric=series, value=value)

    def print_end(self, problems: Sequence[str]) -> None:
        _print_line("ends", ok=not problems, problems=list(problems))

    def _print_answer(self, one: DemoCall) -> None:
        _print_line("answer", form=one.step.title, request=one.step.says, answer=orjson.loads(one.answer.raw), ms=round(one.ms, 3))


def _print_line(event: str, **facts: Any) -> None:
    print_lines([{"event": f"demo.{event}", **facts}])


def _format_reason(one: DemoCall) -> Text:
    style = "green" if one.answer.ok else "yellow"
    return Text(one.verdict + (" (replayed)" if one.step.is_replay else ""), style=style)


def _split_series(item: tuple[str, float]) -> tuple[str, str, float]:
    series, value = item
    name, _, labels = series.partition("{")
    return name, "  ".join(f"{label}={value}" for label, value in _LABEL.findall(labels) if value), value
