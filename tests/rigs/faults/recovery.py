"""How long until all was well again, and which fault is to blame for what the ledger found."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tests.rigs.faults.injector import Happened
from tests.rigs.faults.ledger import Ledger
from tests.rigs.faults.load import Asked

BEFORE_S = 1.0  # a request that was sent so shortly before a fault was in flight when it came


class Recovered(Struct, frozen=True):
    """After one fault, seconds: to the first decision, to the first usage event; the longest wait
    of a request.
    """

    kind: str
    answer_s: float | None
    usage_s: float | None
    longest_s: float


class Line(Struct, frozen=True):
    """All faults of one kind."""

    kind: str
    times: int
    sent: int
    lost: int
    double: int
    answer_s: tuple[float, float] | None  # p50, p99; None where nothing ever came
    usage_s: tuple[float, float] | None
    longest_s: float


def recovered(
    happened: Sequence[Happened], asked: Iterable[Asked], metered_at: Sequence[float]
) -> list[Recovered]:
    """For each fault. An extension's is over when one is answered for which it ran."""
    every = list(asked)
    decisions = sorted(heard.at for one in every for heard in one.answers if heard.is_decision)
    whole = sorted(heard.at for one in every for heard in one.answers if heard.is_whole)
    usage = sorted(metered_at)
    waits: dict[int, float] = {}
    for one in every:
        if one.answers and (turn := _turn(happened, one.sent_at)) is not None:
            waits[turn] = max(waits.get(turn, 0.0), one.answers[0].at - one.sent_at)
    return [
        Recovered(
            fault.kind,
            _first(whole if fault.kind.startswith("extension") else decisions, fault.ended),
            _first(usage, fault.ended),
            waits.get(number, 0.0),
        )
        for number, fault in enumerate(happened)
    ]


def lines(
    happened: Sequence[Happened],
    asked: dict[str, Asked],
    metered_at: Sequence[float],
    ledger: Ledger,
) -> list[Line]:
    """By kind, in the order of their names."""
    found = recovered(happened, asked.values(), metered_at)
    sent = Counter(_blamed(happened, one) for one in asked.values())
    lost = Counter(_blamed(happened, asked[name]) for name in ledger.lost if name in asked)
    double = Counter(_blamed(happened, asked[name]) for name in ledger.double if name in asked)
    told = []
    for kind in sorted({fault.kind for fault in happened}):
        told.append(
            line(
                kind,
                [one for one in found if one.kind == kind],
                sent[kind],
                lost[kind],
                double[kind],
            )
        )
    return told


def line(kind: str, found: Sequence[Recovered], sent: int, lost: int, double: int) -> Line:
    """The line of one kind, from each of its faults."""
    answers, usages = (
        _quantiles([one.answer_s for one in found]),
        _quantiles([one.usage_s for one in found]),
    )
    return Line(
        kind, len(found), sent, lost, double, answers, usages, max(one.longest_s for one in found)
    )


def table(rows: Sequence[Line]) -> str:
    """As Markdown."""
    heads = [
        "fault",
        "times",
        "requests",
        "lost",
        "double",
        "decided again p50",
        "p99",
        "metered again p50",
        "p99",
        "longest wait",
    ]
    text = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for row in rows:
        figures = [
            f"{value:.2f}"
            for pair in (row.answer_s, row.usage_s)
            for value in pair or (float("nan"),) * 2
        ]
        cells = [
            row.kind,
            row.times,
            row.sent,
            row.lost,
            row.double,
            *figures,
            f"{row.longest_s:.2f}",
        ]
        text.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(text) + "\n"


def quantile(values: Sequence[float], share: float) -> float:
    """Of at least one value: the nearest that is there."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _first(moments: Sequence[float], after: float) -> float | None:
    place = bisect_left(moments, after)
    return moments[place] - after if place < len(moments) else None


def _turn(happened: Sequence[Happened], at: float) -> int | None:
    """The fault that had begun last when this was sent, or was about to."""
    number = bisect_left([fault.began - BEFORE_S for fault in happened], at) - 1
    return number if number >= 0 else None


def _blamed(happened: Sequence[Happened], one: Asked) -> str:
    turn = _turn(happened, one.sent_at)
    return happened[turn].kind if turn is not None else ""


def _quantiles(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (quantile(known, 0.5), quantile(known, 0.99)) if len(known) == len(values) else None
