"""Which step held a usage event up: of each fault the event that was stored last, with the time of
every step before it.

answer ──> assignment stored ──> its result published, stored ──> its usage event published, stored

What is published again and again waits for its stream; what is published late was not delivered, or
waited in its process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tests.rigs.faults.cluster.recovery import METERED_WITHIN_S, Turn
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.job import HEALTHY
from tests.rigs.faults.load import Asked

Times = Mapping[str, float]  # by assignment, steady seconds


class Steps(Struct, frozen=True):
    """When each step of every assignment was done. `results_published`, `usage_published`: each
    time that it was.
    """

    assigned: Times
    results: Times
    usage: Times
    results_published: Mapping[str, Sequence[float]]
    usage_published: Mapping[str, Sequence[float]]


class HeldUp(Struct, frozen=True):
    """One usage event. Seconds after the answer to its request, but `after_end_s`, when it was
    stored, and `waited_s`.
    """

    kind: str  # of the fault
    name: str
    after_end_s: float
    times: int  # that it was asked
    waited_s: float  # for its answer
    assigned_s: float
    result_published_s: list[float]
    result_s: float
    usage_published_s: list[float]
    usage_s: float

    @property
    def text(self) -> str:
        results, usage = (
            ", ".join(f"{at:.2f}" for at in each)
            for each in (self.result_published_s, self.usage_published_s)
        )
        return (
            f"{self.kind}: {self.name} was answered within {self.waited_s:.2f} s (asked "
            f"{self.times} times), "
            f"metered {self.after_end_s:.2f} s after the end. Since its answer: "
            f"assigned {self.assigned_s:.2f}; "
            f"result published {results}, stored {self.result_s:.2f}; usage published "
            f"{usage}, stored {self.usage_s:.2f}"
        )


def find_held_up(
    happened: Sequence[Happened], asked: Iterable[Asked], steps: Steps
) -> list[HeldUp]:
    """Of each fault the usage event that came last, if it came late."""
    metered = [
        one
        for one in asked
        if one.kind == HEALTHY and one.is_decided and one.assignment_id in steps.usage
    ]
    turns = [Turn(happened, number) for number in range(len(happened))]
    found = (
        _find_last([one for one in metered if turn.has(one.sent_at)], turn.fault, steps)
        for turn in turns
    )
    return [one for one in found if one is not None]


def _find_last(sent: Sequence[Asked], fault: Happened, steps: Steps) -> HeldUp | None:
    late = [
        one for one in sent if steps.usage[one.assignment_id] - one.answers[0].at > METERED_WITHIN_S
    ]
    last = max(late, key=lambda one: steps.usage[one.assignment_id], default=None)
    return _describe(last, fault, steps) if last is not None else None


def _describe(one: Asked, fault: Happened, steps: Steps) -> HeldUp:
    key, answered = one.assignment_id, one.answers[0].at

    def since(at: float | None) -> float:
        return round(at - answered, 2) if at is not None else -1.0

    return HeldUp(
        kind=fault.kind,
        name=one.name,
        after_end_s=round(steps.usage[key] - fault.ended, 2),
        times=one.times,
        waited_s=round(answered - one.sent_at, 2),
        assigned_s=since(steps.assigned.get(key)),
        result_published_s=[since(at) for at in steps.results_published.get(key, ())],
        result_s=since(steps.results.get(key)),
        usage_published_s=[since(at) for at in steps.usage_published.get(key, ())],
        usage_s=since(steps.usage[key]),
    )
