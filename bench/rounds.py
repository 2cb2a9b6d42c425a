"""Asks a question: its sides by turns, round after round, so that whatever disturbs the machine
disturbs them alike. Every other round in reverse order: what a side leaves behind for the next (a
warm cache, a disk still writing) is left to each of them.

router, bare, FastStream,  FastStream, bare, router,  …        -> Line: medians, spread, the ratio
                                                      of each round

A run may ask in several ways (`ways`): then each round asks all sides in the first, all in the
second, and so on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from bench.figures import Spread, shown, spread
from bench.question import Absent, Figure, Measured, Question, Side
from bench.ways import Way, use

Rounds = Mapping[str, Sequence[Measured]]  # by side, one entry a round


class Answer(Struct, frozen=True):
    """Everything that was measured for one question, and the seconds that it took."""

    question: Question
    rounds: Rounds
    seconds: float
    # in the other ways, by their names
    beside: Mapping[str, Rounds] = {}
    # yardsticks that cannot be had, and why
    absent: Mapping[str, str] = {}


class Beside(Struct, frozen=True):
    """The same figure in another way. `to_first`: ours to ours in the first way, in the same round;
    `ratio`: to the yardstick's; `cpu_us`: ours, and the servers'.
    """

    ours: Spread
    to_first: Spread | None
    ratio: Spread | None
    cpu_us: tuple[float | None, float | None]


class Line(Struct, frozen=True):
    """One line of the table. `ratio`: ours to the yardstick's in the same round; `is_met` None:
    there is no target.

    `beside`: in other ways, by their names; `unaffected`: why there is nothing beside it. `absent`:
    why there is no yardstick.
    """

    question: str
    figure: Figure
    ours: Spread
    theirs: Spread | None
    ratio: Spread | None
    cpu_us: tuple[float | None, float | None]  # ours, the yardstick's: medians
    peak_mib: tuple[float | None, float | None]
    is_met: bool | None
    # ours, in the first way
    servers_us: float | None = None
    beside: Mapping[str, Beside] = {}
    unaffected: str = ""
    absent: str = ""


async def ask(
    question: Question,
    rounds: int,
    scale: float,
    progress: Callable[[int, str], None],
    ways: Sequence[Way] = (Way(),),
) -> Answer:
    """`progress` is told the number of each round, and what it found.

    Raises Broken when a side fails; a figure that misses its target is an answer.
    """
    begun = time.monotonic()
    asked = ways[:1] if question.unaffected else ways
    measured: dict[str, dict[str, list[Measured]]] = {
        way.name: {side.name: [] for side in question.sides} for way in asked
    }
    absent: dict[str, str] = {}
    for number in range(1, question.rounds(rounds) + 1):
        for way in asked:
            use(way)
            for side in order_sides(question, number):
                try:
                    measured[way.name][side.name].append(await side.measure(scale))
                except Absent as exc:
                    absent[side.name] = str(exc)
        progress(number, _told(question, measured[asked[0].name]))
    first = measured.pop(asked[0].name)
    return Answer(question, first, time.monotonic() - begun, measured, absent)


def order_sides(question: Question, number: int) -> Sequence[Side]:
    """The sides in the order in which round `number`, counted from 1, measures them."""
    return question.sides if number % 2 else question.sides[::-1]


def lines(answer: Answer) -> list[Line]:
    """The answer as the table shows it."""
    return [_line(answer, figure) for figure in answer.question.figures]


def _line(answer: Answer, figure: Figure) -> Line:
    own, rounds = _own(answer.question, figure), answer.rounds
    absent = answer.absent.get(figure.against or "", "")
    against = figure.against if not absent else None
    ours = _values(rounds, own, figure.name)
    theirs = _values(rounds, against, figure.name) if against is not None else None
    ratio = _ratio(ours, theirs)
    judged = (ratio or spread(ours)).median
    return Line(
        question=answer.question.name,
        figure=figure,
        ours=spread(ours),
        theirs=spread(theirs) if theirs is not None else None,
        ratio=ratio,
        cpu_us=(_median(rounds, own, "cpu_us"), _median(rounds, against, "cpu_us")),
        peak_mib=(_median(rounds, own, "peak_mib"), _median(rounds, against, "peak_mib")),
        is_met=figure.target.is_met(judged) if figure.target is not None and not absent else None,
        servers_us=_median(rounds, own, "servers_cpu_us"),
        beside={name: _beside(answer, figure, other) for name, other in answer.beside.items()},
        unaffected=answer.question.unaffected,
        absent=absent,
    )


def _beside(answer: Answer, figure: Figure, rounds: Rounds) -> Beside:
    own = _own(answer.question, figure)
    ours = _values(rounds, own, figure.name)
    is_there = figure.against is not None and figure.against not in answer.absent
    theirs = _values(rounds, figure.against, figure.name) if is_there else None
    return Beside(
        ours=spread(ours),
        to_first=_ratio(ours, _values(answer.rounds, own, figure.name)),
        ratio=_ratio(ours, theirs),
        cpu_us=(_median(rounds, own, "cpu_us"), _median(rounds, own, "servers_cpu_us")),
    )


def _own(question: Question, figure: Figure) -> str:
    return figure.of or question.sides[0].name


def _ratio(ours: Sequence[float], theirs: Sequence[float] | None) -> Spread | None:
    """Of each round; None where there is nothing to divide by."""
    if theirs is None or not all(theirs):
        return None
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def _values(rounds: Rounds, side: str, name: str) -> list[float]:
    return [measured[name] for measured in rounds[side]]


def _median(rounds: Rounds, side: str | None, name: str) -> float | None:
    if side is None or name not in rounds[side][0]:
        return None
    return spread(_values(rounds, side, name)).median


def _told(question: Question, measured: Rounds) -> str:
    if not question.figures:
        return ""
    lead = question.figures[0]
    last = ((side, rounds[-1]) for side, rounds in measured.items() if rounds)
    return (
        ", ".join(
            f"{side} {shown(figures[lead.name])}" for side, figures in last if lead.name in figures
        )
        + f"  {lead.unit}"
    )
