"""What this instance measures of one provider for one tenant: two minutes of outcomes, moving
figures, assignments in flight.

    on_assigned ──> in flight ── on_result ──> the moving figures and this minute's counts
    adopt       ──> another instance's moving figures, where they are newer

A latency that is higher than the average counts at once (a peak), a lower one moves it by a part,
the more the longer the last outcome is ago. Figures are clipped before they count, so one wrong
clock moves an average by a bounded step. A provider most of whose results fail is failing, until
two in a row succeed. The minute before stays until this one is over; then what is in it is
forgotten, and with it assignments whose result never came.
"""

from __future__ import annotations

from collections import deque
from math import inf

from msgspec import Struct

from router.contracts.failure_class import CANCELLED, PROVIDER, RATE_LIMIT, REQUEST, FailureClass
from router.policies.model.measurements.values import (
    MAX_FINISHED,
    MinuteRecord,
    ProviderFiguresRecord,
    find_bucket,
)

MINUTE_S = 60.0  # no assignment's deadline is later
MIN_SAMPLES = 5  # outcomes, before which figures say nothing
# after so long without an outcome a score begins to fade: half of it in twice the time
SILENT_S = 60.0
MIN_STEP, MAX_STEP, STEP_S = 0.1, 0.3, 10.0  # how far one outcome moves an average
MAX_JUMP = 10.0  # times the average, at most
MAX_LATENCY_MS, MAX_COST = 3_600_000.0, 1e9
NEVER_SUCCEEDED_MS = 60_000.0  # the latency of a provider that has only failed
MIN_SUCCESS_RATE = 0.01  # so that a score stays finite
FINISHED_KEPT_S = 6.0  # several records name the same one, because an instance may miss a record
KEY_LENGTH = 18  # of an assignment's id: 64 bits of it

FAILING_BELOW = 0.5  # a success rate
RECOVERED_AFTER = 2  # successes in a row
# the success rate from which it goes on: six failures in a row, and it fails again
RECOVERED_RATE = 0.9
PROBE_S = 1.0  # between two probes of one instance
PROBE_SHARE = 1 / 75  # of the requests, at most, of all that fail together
HOPEFUL_SHARE = 1 / 10  # once a probe was a success, at once: until a failure, or the recovery
OVERDUE_S = 60.0  # without a result and without a probe: the next request is one
# of the tenant, for each provider that fails, without a result and without a probe: the same
OVERDUE_REQUESTS = 110


class MeasuredMinute:
    """The outcomes of one minute, and the keys of assignments that began in it and have no result."""

    __slots__ = ("chosen", "failures", "forgiven", "in_flight", "latencies", "others", "successes")

    def __init__(self) -> None:
        self.successes = self.failures = self.chosen = self.forgiven = 0
        self.others: dict[FailureClass, int] = {}  # no failures of the provider
        self.latencies: dict[int, int] = {}
        self.in_flight: set[str] = set()

    def build_record(self) -> MinuteRecord:
        others = self.others.get
        return MinuteRecord(
            self.successes,
            self.failures,
            self.chosen,
            self.forgiven,
            others(REQUEST, 0),
            others(RATE_LIMIT, 0),
            others(CANCELLED, 0),
            dict(self.latencies),
        )


class MovingFigures(Struct):
    """`at`: of the last outcome, on the steady clock; `stamp_ms`: its order among those of all
    instances.

    `is_failing` ends after `streak` has come to RECOVERED_AFTER: one success between failures is no
    recovery.
    """

    latency_ms: float | None = None
    success_rate: float = 1.0
    cost: float | None = None
    at: float = -inf
    stamp_ms: int = 0
    is_failing: bool = False
    streak: int = 0

    def move(
        self,
        *,
        latency_ms: float,
        cost: float,
        is_success: bool,
        now: float,
        now_ms: int,
        listed_cost: float | None = None,
    ) -> None:
        gap = now - self.at
        step = min(MAX_STEP, max(MIN_STEP, gap / (gap + STEP_S))) if gap < inf else MAX_STEP
        self.success_rate += step * (is_success - self.success_rate)
        if is_success:
            self.latency_ms = _move_peak(
                self.latency_ms, min(float(latency_ms), MAX_LATENCY_MS), step
            )
            # From what the policy expects: one free result makes no provider free.
            self.cost = _move(
                listed_cost if self.cost is None else self.cost, min(float(cost), MAX_COST), step
            )
            if self.is_failing:
                self._recover()
        else:
            self.streak = 0
        self.at, self.stamp_ms = now, max(now_ms, self.stamp_ms + 1)

    def adopt(self, record: ProviderFiguresRecord, now: float) -> None:
        if record.stamp_ms > self.stamp_ms:
            self.latency_ms, self.success_rate, self.cost = (
                record.latency_ms,
                record.success_rate,
                record.cost,
            )
            self.at, self.stamp_ms = now - record.silent_ms / 1000, record.stamp_ms
            self.is_failing, self.streak = record.is_failing, record.streak

    def _recover(self) -> None:
        self.streak += 1
        if self.streak >= RECOVERED_AFTER:
            self.is_failing, self.success_rate = False, max(self.success_rate, RECOVERED_RATE)

    def rate(self, in_flight: int, now: float) -> float:
        """The score."""
        fade = SILENT_S / max(SILENT_S, now - self.at)
        success = max(MIN_SUCCESS_RATE, 1 - (1 - self.success_rate) * fade)
        latency_ms = NEVER_SUCCEEDED_MS if self.latency_ms is None else self.latency_ms
        return latency_ms * fade / (success * success) * (in_flight + 1)


class MeasuredProvider:
    """`now`: seconds on the steady clock, everywhere."""

    __slots__ = (
        "_began",
        "_finished",
        "minute",
        "minute_before",
        "moving",
        "probed_at",
        "samples",
        "tried_after",
    )

    def __init__(self, now: float) -> None:
        self.moving = MovingFigures()
        self.samples = 0  # of this instance
        self.minute, self.minute_before = MeasuredMinute(), MeasuredMinute()
        self.probed_at = -inf
        # assignments of the tenant, of this instance: at the last probe or outcome
        self.tried_after = 0
        self._began = now
        # of other instances' assignments
        self._finished: deque[tuple[float, str]] = deque(maxlen=MAX_FINISHED)

    @property
    def in_flight(self) -> int:
        """Of this instance's assignments."""
        return len(self.minute.in_flight) + len(self.minute_before.in_flight)

    def on_assigned(self, assignment_id: str, now: float, *, has_room: bool = True) -> None:
        """`has_room`: the assignment is counted as in flight too."""
        self.pass_time(now)
        self.minute.chosen += 1
        if has_room:
            self.minute.in_flight.add(assignment_id[:KEY_LENGTH])

    def on_finished(self, assignment_id: str, now: float) -> None:
        """A result has come. One of another instance's assignment is kept, for that instance to
        read.
        """
        key = assignment_id[:KEY_LENGTH]
        if not self.remove_in_flight(key):
            self._finished.append((now, key))

    def remove_in_flight(self, key: str) -> bool:
        """Whether the assignment was this instance's, and in flight."""
        for minute in (self.minute, self.minute_before):
            if key in minute.in_flight:
                minute.in_flight.discard(key)
                return True
        return False

    def on_result(
        self,
        *,
        latency_ms: float,
        cost: float,
        outcome: FailureClass | None,
        now: float,
        now_ms: int,
        listed_cost: float | None = None,
    ) -> None:
        """`outcome` None: a success. What is not the provider's fault is counted, and moves
        nothing.
        """
        self.pass_time(now)
        minute = self.minute
        if outcome is not None and outcome is not PROVIDER:
            minute.others[outcome] = minute.others.get(outcome, 0) + 1
            return
        self.samples += 1
        self._move(
            latency_ms=latency_ms,
            cost=cost,
            is_success=outcome is None,
            now=now,
            now_ms=now_ms,
            listed_cost=listed_cost,
        )
        if outcome is not None:
            minute.failures += 1
            return
        minute.successes += 1
        bucket = find_bucket(min(float(latency_ms), MAX_LATENCY_MS))
        minute.latencies[bucket] = minute.latencies.get(bucket, 0) + 1

    def _move(
        self,
        *,
        latency_ms: float,
        cost: float,
        is_success: bool,
        now: float,
        now_ms: int,
        listed_cost: float | None,
    ) -> None:
        moving = self.moving
        was_failing = moving.is_failing
        moving.move(
            latency_ms=latency_ms,
            cost=cost,
            is_success=is_success,
            now=now,
            now_ms=now_ms,
            listed_cost=listed_cost,
        )
        if was_failing and not moving.is_failing:
            self._forgive()
        elif not is_success and self.samples >= MIN_SAMPLES and moving.success_rate < FAILING_BELOW:
            moving.is_failing = True

    def adopt(self, record: ProviderFiguresRecord, now: float) -> None:
        """Another instance's moving figures, where they are newer."""
        was_failing = self.moving.is_failing
        self.moving.adopt(record, now)
        if was_failing and not self.moving.is_failing:
            self._forgive()

    def find_probe_share(self, now: float, *, is_overdue: bool) -> float:
        """Which share of the requests may probe it. `is_overdue`: so many went elsewhere that
        chance alone would rarely leave it out.
        """
        if not self.moving.is_failing:
            return 0.0
        if self.moving.streak:
            return HOPEFUL_SHARE
        if now - self.probed_at < PROBE_S:
            return 0.0
        return (
            1.0
            if is_overdue or now - max(self.moving.at, self.probed_at) >= OVERDUE_S
            else PROBE_SHARE
        )

    def _forgive(self) -> None:
        """It has recovered: the failures before say nothing of now, or an objective would keep it
        out for two minutes.
        """
        for minute in (self.minute, self.minute_before):
            minute.forgiven = minute.failures

    def pass_time(self, now: float) -> None:
        """Begin a new minute where this one is over, or two where both are."""
        over = now - self._began
        if over < MINUTE_S:
            return
        self.minute_before = self.minute if over < 2 * MINUTE_S else MeasuredMinute()
        self.minute = MeasuredMinute()
        self._began = now

    def build_record(self, now: float, most_finished: int = MAX_FINISHED) -> ProviderFiguresRecord:
        moving, finished = self.moving, self._finished
        while finished and finished[0][0] < now - FINISHED_KEPT_S:
            finished.popleft()
        return ProviderFiguresRecord(
            stamp_ms=moving.stamp_ms,
            silent_ms=round(min(now - moving.at, MAX_LATENCY_MS) * 1000),
            latency_ms=moving.latency_ms,
            success_rate=moving.success_rate,
            cost=moving.cost,
            samples=self.samples,
            in_flight=self.in_flight,
            is_failing=moving.is_failing,
            streak=moving.streak,
            minutes=(self.minute.build_record(), self.minute_before.build_record()),
            finished=tuple(key for _, key in finished)[-most_finished:],
        )


def _move(average: float | None, figure: float, step: float) -> float:
    if average is None:
        return figure
    clipped = min(figure, MAX_JUMP * average) if average > 0 else figure
    return average + step * (clipped - average)


def _move_peak(average: float | None, figure: float, step: float) -> float:
    if average is not None and figure > average > 0:
        return min(figure, MAX_JUMP * average)
    return _move(average, figure, step)
