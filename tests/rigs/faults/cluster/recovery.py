"""What each fault of a cluster cost, seen by a client: lost, double, stuck, unanswered, the longest
gap, and how long until all was well.

A request is counted with the fault that had begun last when it was sent; its time, if it was under
way when the next fault came, with that one. It is held up if its answer takes more than a second,
or its usage event more than two seconds from the answer. All is well again when nothing is held up
any more: at the answer of the last request that is, if one asking was enough, else when it was
first sent, for after that the client waits for its own next try.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from tests.rigs.faults.cluster.elections import Election
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.job import HEALTHY
from tests.rigs.faults.ledger import Ledger
from tests.rigs.faults.load import SINGLE, Asked
from tests.rigs.faults.recovery import BEFORE_S

ANSWERED_WITHIN_S = 1.0
METERED_WITHIN_S = 2.0
STUCK_AFTER_S = 30.0  # after the end of the fault
# what began so shortly before a fault, and was not over when it came, was held up by it
UNDER_WAY_S = 3.0


class Wait(NamedTuple):
    """A request waits for its answer or its usage event. `over`: when it is no longer held up."""

    begin: float
    end: float
    over: float


class Gap(NamedTuple):
    """Nothing happened between these moments."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Cost(Struct, frozen=True):
    """Of one fault. Times are seconds."""

    kind: str
    held_s: float  # how long the fault was
    sent: int
    lost: int
    double: int
    stuck: int  # requests that were asked again and again, and not answered in time
    unanswered: int  # of the requests that are asked once: stored, and never answered
    incomplete: int  # decided without one of the extensions of their policy
    unstored: int  # asked once: no leader stored them, so only the client can ask again
    gap_answers_s: float
    gap_usage_s: float
    election_s: float | None  # until the last new leader; None if there was no election
    answers_well_s: float | None  # None: never
    usage_well_s: float | None
    mended_s: float | None  # the same (answers and usage), counted from the end of the fault
    # from the end of the fault to the last new leader; None if there was no election
    elected_after_s: float | None = None
    # of `gap_answers_s`, what came after the last new leader in it; None if none came in it
    gap_after_election_s: float | None = None


class Observed(Struct, frozen=True):
    """What a run knows in its end."""

    happened: Sequence[Happened]
    asked: Mapping[str, Asked]
    stored_singles: frozenset[str]
    metered_at: Mapping[str, float]  # assignment id -> when its usage event was stored
    elections: Sequence[Election]
    ledger: Ledger
    from_end: frozenset[str]  # kinds


def measure(observed: Observed) -> list[Cost]:
    """Of each fault, in their order."""
    return [
        _measure_one(observed, Turn(observed.happened, number))
        for number in range(len(observed.happened))
    ]


class Turn:
    """The time of one fault, up to the next one."""

    def __init__(self, happened: Sequence[Happened], number: int) -> None:
        self.fault = happened[number]
        self._begin = self.fault.began - BEFORE_S
        self._next_began = happened[number + 1].began if number + 1 < len(happened) else math.inf

    def has(self, at: float) -> bool:
        return self._begin <= at < self._next_began - BEFORE_S

    def has_wait(self, wait: Wait) -> bool:
        """Whether this fault is the one that may have held it up."""
        began = next(
            (
                at
                for at in (self._next_began, self.fault.began)
                if at - UNDER_WAY_S <= wait.begin < at < wait.end
            ),
            None,
        )
        return self.has(wait.begin) if began is None else began == self.fault.began


def _measure_one(observed: Observed, turn: Turn) -> Cost:
    fault = turn.fault
    sent = [one for one in observed.asked.values() if turn.has(one.sent_at)]
    repeated = [one for one in sent if one.kind != SINGLE]
    every = [one for one in observed.asked.values() if one.kind != SINGLE]
    answers = [wait for wait in map(_wait_for_answer, every) if turn.has_wait(wait)]
    metered = (
        _wait_for_usage(one, observed.metered_at)
        for one in every
        if one.kind == HEALTHY and one.is_decided
    )
    usage = [wait for wait in metered if turn.has_wait(wait)]
    since = fault.ended if fault.kind in observed.from_end else fault.began
    until = math.inf if fault.kind in observed.from_end else fault.ended
    names = {one.name for one in sent}
    gap = _find_gap([wait.end for wait in answers], turn)
    return Cost(
        kind=fault.kind,
        held_s=fault.ended - fault.began,
        sent=len(sent),
        lost=sum(name in names for name in observed.ledger.lost),
        double=sum(name in names for name in observed.ledger.double),
        stuck=sum(wait.end - max(fault.ended, wait.begin) > STUCK_AFTER_S for wait in answers),
        incomplete=sum(one.is_decided and not one.answers[0].is_whole for one in repeated),
        **_singles(sent, observed.stored_singles),
        gap_answers_s=gap.seconds,
        gap_after_election_s=_measure_after(observed.elections, gap),
        gap_usage_s=_find_gap(observed.metered_at.values(), turn).seconds,
        election_s=_election(observed.elections, turn, since, until),
        answers_well_s=measure_well(answers, ANSWERED_WITHIN_S, since, until),
        usage_well_s=measure_well(usage, METERED_WITHIN_S, since, until),
        mended_s=_later(
            measure_well(answers, ANSWERED_WITHIN_S, fault.ended),
            measure_well(usage, METERED_WITHIN_S, fault.ended),
        ),
        elected_after_s=_election(observed.elections, turn, fault.ended, math.inf),
    )


def _wait_for_answer(one: Asked) -> Wait:
    end = one.answers[0].at if one.answers else math.inf
    return Wait(one.sent_at, end, end if one.times == 1 or not one.answers else one.sent_at)


def _wait_for_usage(one: Asked, metered_at: Mapping[str, float]) -> Wait:
    end = metered_at.get(one.assignment_id, math.inf)
    return Wait(one.answers[0].at, end, end)


def measure_well(
    waits: Iterable[Wait], within_s: float, since: float, until: float = math.inf
) -> float | None:
    """Seconds from `since` until no wait is longer than `within_s`, of those that began before
    `until`. None if one has no end.
    """
    over = [wait.over for wait in waits if wait.end - wait.begin > within_s and wait.begin < until]
    last = max([0.0, *(at - since for at in over)])
    return last if last < math.inf else None


def _later(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _find_gap(moments: Iterable[float], turn: Turn) -> Gap:
    """The longest time between two of them, of which the first lies in the turn."""
    ordered = sorted(at for at in moments if at < math.inf)
    return max(
        (Gap(at, later) for at, later in pairwise(ordered) if turn.has(at)),
        key=lambda gap: gap.seconds,
        default=Gap(0.0, 0.0),
    )


def _measure_after(elections: Sequence[Election], gap: Gap) -> float | None:
    """Seconds of a gap after the last new leader that came in it."""
    last = max((one.at for one in elections if gap.begin < one.at <= gap.end), default=None)
    return None if last is None else gap.end - last


def _election(
    elections: Sequence[Election], turn: Turn, since: float, until: float
) -> float | None:
    moments = [one.at for one in elections if since <= one.at < until and turn.has(one.at)]
    return max(moments) - since if moments else None


def _singles(sent: Sequence[Asked], stored: frozenset[str]) -> dict[str, int]:
    without_answer = [one.name for one in sent if one.kind == SINGLE and not one.answers]
    unstored = sum(name not in stored for name in without_answer)
    return {"unanswered": len(without_answer) - unstored, "unstored": unstored}
