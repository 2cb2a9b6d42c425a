"""Asks a question: its sides by turns, round after round, so that whatever disturbs the machine
disturbs them alike. Every other round in reverse order: what a side leaves behind for the next (a
warm cache, a disk still writing) is left to each of them.

router, bare, FastStream,  FastStream, bare, router,  …        -> Line: medians, spread, the ratio
                                                      of each round
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from bench.figures import Spread, shown, spread
from bench.question import Figure, Measured, Question, Side

Rounds = Mapping[str, Sequence[Measured]]  # by side, one entry a round


class Answer(Struct, frozen=True):
    """Everything that was measured for one question, and the seconds that it took."""

    question: Question
    rounds: Rounds
    seconds: float


class Line(Struct, frozen=True):
    """One line of the table. `ratio`: ours to the yardstick's in the same round; `is_met` None:
    there is no target.
    """

    question: str
    figure: Figure
    ours: Spread
    theirs: Spread | None
    ratio: Spread | None
    cpu_us: tuple[float | None, float | None]  # ours, the yardstick's: medians
    peak_mib: tuple[float | None, float | None]
    is_met: bool | None


async def ask(
    question: Question, rounds: int, scale: float, progress: Callable[[int, str], None]
) -> Answer:
    """`progress` is told the number of each round, and what it found.

    Raises Broken when a side fails; a figure that misses its target is an answer.
    """
    begun = time.monotonic()
    measured: dict[str, list[Measured]] = {side.name: [] for side in question.sides}
    for number in range(1, question.rounds(rounds) + 1):
        for side in order_sides(question, number):
            measured[side.name].append(await side.measure(scale))
        progress(number, _told(question, measured))
    return Answer(question, measured, time.monotonic() - begun)


def order_sides(question: Question, number: int) -> Sequence[Side]:
    """The sides in the order in which round `number`, counted from 1, measures them."""
    return question.sides if number % 2 else question.sides[::-1]


def lines(answer: Answer) -> list[Line]:
    """The answer as the table shows it."""
    return [_line(answer, figure) for figure in answer.question.figures]


def _line(answer: Answer, figure: Figure) -> Line:
    own = figure.of or answer.question.sides[0].name
    ours = _values(answer, own, figure.name)
    theirs = _values(answer, figure.against, figure.name) if figure.against is not None else None
    ratio = (
        spread([a / b for a, b in zip(ours, theirs, strict=True)]) if theirs is not None else None
    )
    judged = (ratio or spread(ours)).median
    return Line(
        question=answer.question.name,
        figure=figure,
        ours=spread(ours),
        theirs=spread(theirs) if theirs is not None else None,
        ratio=ratio,
        cpu_us=(_median(answer, own, "cpu_us"), _median(answer, figure.against, "cpu_us")),
        peak_mib=(_median(answer, own, "peak_mib"), _median(answer, figure.against, "peak_mib")),
        is_met=figure.target.is_met(judged) if figure.target is not None else None,
    )


def _values(answer: Answer, side: str, name: str) -> list[float]:
    return [measured[name] for measured in answer.rounds[side]]


def _median(answer: Answer, side: str | None, name: str) -> float | None:
    if side is None or name not in answer.rounds[side][0]:
        return None
    return spread(_values(answer, side, name)).median


def _told(question: Question, measured: Rounds) -> str:
    if not question.figures:
        return ""
    lead = question.figures[0]
    last = ((side, rounds[-1]) for side, rounds in measured.items())
    return (
        ", ".join(
            f"{side} {shown(figures[lead.name])}" for side, figures in last if lead.name in figures
        )
        + f"  {lead.unit}"
    )
