"""What is shown of a load: a line while it runs, and its figures at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from router.decide.commands.load.tally import LoadTally
from router.shell.output import print_table, printable

PAUSE_S = 1.0  # between two changes of the line
TICK_S = 1e-3  # a part of the load that ends at once has no rate
CLEAR = "\r\x1b[K"
BUSY = 0.9  # of a core: the load itself may be what is slow
LATE_MS = 1.0

Figures = Mapping[str, Any]
ROWS = {
    "decisions/s": ("requests_per_s", ",.0f"),
    "p50, ms": ("p50", ",.2f"),
    "p99, ms": ("p99", ",.2f"),
    "p99.9, ms": ("p999", ",.2f"),
    "longest, ms": ("max", ",.2f"),
}

# -- While it runs.


class LiveLine:
    """A line on standard error, if that is a terminal, about the last second. The last one of each
    part of the load stays.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._title, self._of_s = "", 0.0
        self._begun = self._changed = time.monotonic()
        self._recent = LoadTally()
        self._errors = 0

    def begin(self, title: str, for_s: float) -> None:
        self._end()
        self._title, self._of_s = title, for_s
        self._begun = self._changed = time.monotonic()
        self._recent, self._errors = LoadTally(), 0
        self._write(f"{CLEAR}{title} …")

    def hear(self, tally: LoadTally) -> None:
        """What a process has counted since it told last."""
        if not self._is_shown:
            return
        self._recent.merge(tally)
        self._errors += sum(tally.errors.values())
        if time.monotonic() - self._changed >= PAUSE_S:
            self._change()

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._title:
            self._change()
            self._write("\n")
            self._title = ""

    def _change(self) -> None:
        now = time.monotonic()
        self._write(f"{CLEAR}{self._describe(now, now - self._changed)}")
        self._changed, self._recent = now, LoadTally()

    def _describe(self, now: float, passed: float) -> str:
        latencies = self._recent.latencies.list_figures()
        return (
            f"{self._title}: {now - self._begun:.0f} of {self._of_s:.0f} s"
            f"   {self._recent.in_time / max(passed, TICK_S):,.0f}/s"
            f"   p50 {format_ms(latencies['p50'])}   p99 {format_ms(latencies['p99'])}"
            f"   errors {self._errors:,}"
        )

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(text)
            sys.stderr.flush()


# -- At the end.


def print_figures(figures: Figures) -> None:
    bare = figures["bare"]
    is_compared = bare is not None and "requests_per_s" in bare
    columns = ("", "router", *(("bare loop", "router / bare") if is_compared else ()))
    print_table(columns, _list_rows(figures, bare if is_compared else None))
    for line in _list_lines(figures):
        print(printable(line))
    errors: Mapping[str, int] = figures["errors"]
    if errors:
        shares = ((code, f"{n:,}", f"{n / figures['sent']:.2%}") for code, n in errors.items())
        print_table(("error", "requests", "share"), shares)


def _list_rows(figures: Figures, bare: Figures | None) -> Iterator[tuple[object, ...]]:
    for title, (name, layout) in ROWS.items():
        row = [title, _format(_find(figures, name), layout)]
        if bare is not None:
            row += [_format(_find(bare, name), layout), _format(bare["ratios"][name], ".2f")]
        yield tuple(row)


def _list_lines(figures: Figures) -> Iterator[str]:
    sent, errors = figures["sent"], sum(figures["errors"].values())
    yield (
        f"{figures['seconds']:g} s measured: {sent:,} sent, {figures['answered']:,} answered, "
        f"{errors:,} errors"
    )
    if figures["assignments"] is not None:
        yield f"{figures['assignments']:,} assignments were promised"
    for code, count in figures["warnings"].items():
        yield f"{count:,} decisions came with the warning {code}"
    if figures["answered_late"] or figures["answered_twice"]:
        yield (
            f"{figures['answered_late']:,} answers came after the timeout, "
            f"{figures['answered_twice']:,} a second time"
        )
    yield from _list_remarks(figures)


def _list_remarks(figures: Figures) -> Iterator[str]:
    """What a reader should know before the figures are believed."""
    if figures["bare"] is not None and "unavailable" in figures["bare"]:
        yield f"no bare loop beside it: {figures['bare']['unavailable']}"
    if figures["load_cpu"] >= BUSY:
        yield (
            f"the processes of the load were busy for {figures['load_cpu']:.0%} of the time: they "
            "may be what is slow; --processes takes more"
        )
    if figures["late_ms"] is not None and (late := figures["late_ms"]["p99"] or 0) > LATE_MS:
        yield (
            f"the load itself sent late, p99 {format_ms(late)}: latencies count from when a "
            "request was due, so that is part of them"
        )


def _find(figures: Figures, name: str) -> float | None:
    figure: float | None = figures[name] if name in figures else figures["latency_ms"][name]
    return figure


def _format(value: float | None, layout: str) -> str:
    return "–" if value is None else format(value, layout)


def format_ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"
