"""Printers of the demo: tables for people, JSON lines for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from rich.text import Text

from router.cli.demo.requests import Counters, DemoCall
from router.cli.demo.round_trip import ObservedMessage
from router.operate.commands.dead_letters.list_show import print_dead_letter
from router.operate.dead_letters import DeadLetter, as_fields
from router.serve.service import Ready
from router.shell.exit_codes import complain
from router.shell.output import build_table, open_console, print_event

_LABEL = re.compile(r'(\w{1,100})="([^"]*)"')


class DemoPrinter:
    """Prints the demo: tables for people, or JSON lines, where `event` names the kind. The methods
    are called in this order.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = open_console()

    def print_start(self, ready: Ready) -> None:
        if self._as_json:
            _print_line("begins", nats_url=ready.nats_url, http=ready.http)
        else:
            self._print_heading(
                "A router and a worker are running",
                f"on {ready.nats_url}, metrics on {ready.http}/metrics",
            )

    def print_answers(self, asked: Sequence[DemoCall]) -> None:
        if self._as_json:
            for call in asked:
                _print_answer(call)
            return
        rows = (
            (
                call.step.title,
                call.step.says,
                call.provider or "–",
                _format_reason(call),
                _format_number(f"{call.ms:.1f}"),
            )
            for call in asked
        )
        says = "the same question in every form; sessions stay, repetitions are answered alike"
        self._print_table(
            "Requests and their decisions",
            says,
            ("form", "request", "provider", "reason", "ms"),
            rows,
        )

    def print_dead_letter(self, refused: DemoCall, dead_letter: DeadLetter | None) -> None:
        if self._as_json:
            _print_answer(refused)
            _print_line(
                "letter", letter=as_fields(dead_letter) if dead_letter is not None else None
            )
            return
        error = refused.answer.error
        self._print_heading("A malformed request", "answered at once, and kept as a dead letter")
        if error is not None:
            self._console.print(Text(f"  {error.code}: {error.message}\n", style="yellow"))
        if dead_letter is not None:
            print_dead_letter(dead_letter)

    def print_steps(self, title: str, says: str, way: Sequence[ObservedMessage]) -> None:
        if self._as_json:
            for step in way:
                _print_line(
                    "way",
                    of=title,
                    what=step.name,
                    subject=step.subject,
                    says=step.says,
                    ms=round(step.ms, 3),
                    body=step.body,
                )
            return
        rows = (
            (step.name, step.subject, step.says, _format_number(f"{step.ms:.1f}")) for step in way
        )
        self._print_table(title, says, ("", "subject", "says", "ms"), rows)

    def print_counters(self, counted: Counters) -> None:
        if self._as_json:
            for series, value in counted.items():
                _print_line("counted", metric=series, value=value)
            return
        rows = (
            (name, labels, _format_number(f"{value:g}"))
            for name, labels, value in map(_split_series, counted.items())
        )
        self._print_table("What was counted", "", ("metric", "labels", "value"), rows)

    def print_end(self, problems: Sequence[str]) -> None:
        if self._as_json:
            _print_line("ends", ok=not problems, problems=list(problems))
            return
        for problem in problems:
            complain(problem)
        if not problems:
            self._console.print(Text("  Everything was as it should be.", style="green"))
            self._console.print(Text("  Next: make run, or router serve --embedded\n", style="dim"))

    def _print_table(
        self, title: str, says: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        self._print_heading(title, says)
        self._console.print(build_table(columns, rows))

    def _print_heading(self, title: str, says: str) -> None:
        self._console.print(Text.assemble(("\n" + title, "bold"), ("  " + says, "dim")))


def _print_answer(call: DemoCall) -> None:
    _print_line(
        "answer",
        form=call.step.title,
        request=call.step.says,
        answer=orjson.loads(call.answer.raw),
        ms=round(call.ms, 3),
    )


def _format_number(text: str) -> Text:
    return Text(text, justify="right")


def _print_line(event: str, **facts: Any) -> None:
    print_event(f"demo.{event}", **facts)


def _format_reason(call: DemoCall) -> Text:
    style = "green" if call.answer.ok else "yellow"
    return Text(call.verdict + (" (replayed)" if call.step.is_replay else ""), style=style)


def _split_series(item: tuple[str, float]) -> tuple[str, str, float]:
    series, value = item
    name, _, labels = series.partition("{")
    return (
        name,
        "  ".join(f"{label}={value}" for label, value in _LABEL.findall(labels) if value),
        value,
    )
