"""Who is alive, who is busy, who fell silent (docs/contracts.md#heartbeats).

A worker is silent after three of its intervals without a heartbeat. Without `interval_ms` an interval is 5 s, the one
the specification gives as usual: silent at 5 s itself would report every worker that keeps it. A worker that said `stopped` is not
silent, it left. Time is when a heartbeat was heard, steady seconds, never the worker's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.heartbeat import Heartbeat
from router.workers.places import Key, Places

MISSED_INTERVALS = 3
USUAL_INTERVAL_S = 5.0
EARLY_S = 60.0  # where places are wanted, a worker gives its own up after this silence, however long an interval it promised


class Condition(Enum):
    """How a worker stands; the first four are its own words."""

    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    STOPPED = "stopped"
    SILENT = "silent"

    @property
    def is_alive(self) -> bool:
        return self not in (Condition.STOPPED, Condition.SILENT)


class Worker(Struct, frozen=True):
    """One worker as last heard, at `heard_at` steady seconds."""

    beat: Heartbeat
    heard_at: float
    is_reported_silent: bool = False

    @property
    def key(self) -> Key:
        return self.beat.tenant_id, self.beat.worker_id


class Change(Struct, frozen=True):
    """A worker came (`was` None), stopped, fell silent, or is back: reported once each."""

    worker: Worker
    was: Condition | None
    condition: Condition


def condition_of(worker: Worker, now: float) -> Condition:
    """How a worker stands at `now`, steady seconds."""
    said = Condition(worker.beat.status)
    if said is not Condition.STOPPED and now - worker.heard_at >= _patience(worker.beat):
        return Condition.SILENT
    return said


class Liveness:
    """At most `limit` workers (`places`). Who has been gone for `forget_s` is forgotten; when it is full, at once.

    `group_of`: the tenants whose workers share places; each tenant for itself unless it is given.
    """

    def __init__(
        self, limit: int = 10_000, forget_s: float = 3600.0, group_of: Callable[[str | None], Hashable] = lambda tenant_id: tenant_id
    ) -> None:
        self._places = Places(limit, group_of)
        self._forget_s = forget_s
        self._workers: dict[Key, Worker] = {}
        self._full_until = float("-inf")
        self.refused = 0  # heartbeats of new workers that found no room

    def heard(self, beat: Heartbeat, now: float) -> Change | None:
        """One heartbeat; what changed by it, if anything did that people want to know."""
        worker, condition = Worker(beat, now), Condition(beat.status)
        before = self._workers.get(worker.key)
        if before is not None:
            self._places.heard_again(worker.key, now)
        elif not self._admits(worker.key, condition, now):
            return None
        was = None if before is None else condition_of(before, now)
        self._workers[worker.key] = worker
        return Change(worker, was, condition) if was is None or was.is_alive != condition.is_alive else None

    def fallen_silent(self, now: float) -> list[Change]:
        """The workers that fell silent since this was last asked; each is told once until it is heard again."""
        changes = []
        for worker in list(self._workers.values()):
            if now - worker.heard_at >= self._forget_s + _patience(worker.beat):
                self._forget(worker.key)
            if not worker.is_reported_silent and condition_of(worker, now) is Condition.SILENT:
                changes.append(Change(worker, Condition(worker.beat.status), Condition.SILENT))
                if worker.key in self._workers:
                    self._workers[worker.key] = replace(worker, is_reported_silent=True)
        return changes

    def workers(self, now: float) -> Iterator[tuple[Worker, Condition]]:
        """Everyone who is known, and how they stand."""
        return ((worker, condition_of(worker, now)) for worker in list(self._workers.values()))

    def alive(self, now: float) -> int:
        return sum(condition.is_alive for _, condition in self.workers(now))

    def silent(self, now: float) -> int:
        return sum(condition is Condition.SILENT for _, condition in self.workers(now))

    def __len__(self) -> int:
        return len(self._workers)

    def is_proven(self, worker: Worker) -> bool:
        """Whether it was heard more than once: a single heartbeat may be anybody's."""
        return self._places.is_proven(worker.key)

    def _admits(self, key: Key, condition: Condition, now: float) -> bool:
        """Whether a new worker may be remembered; one that says good-bye before it said hello need not be."""
        if condition is Condition.STOPPED:
            return False
        if not self._places.has_room(key) and now >= self._full_until:
            self._forget_the_gone(now)
        if not self._places.has_room(key):
            displaced = self._places.displaced_by(key, now)
            if displaced is None:
                self.refused += 1
                return False
            self._forget(displaced)
        self._places.take(key, now)
        return True

    def _forget_the_gone(self, now: float) -> None:
        """Room for who is there. A stranger decides how often this is asked, so once a second."""
        for key, worker in list(self._workers.items()):
            if now - worker.heard_at >= EARLY_S or not condition_of(worker, now).is_alive:
                self._forget(key)
        self._full_until = now + 1.0

    def _forget(self, key: Key) -> None:
        del self._workers[key]
        self._places.leave(key)


def _patience(beat: Heartbeat) -> float:
    """Seconds without a heartbeat after which a worker is silent."""
    interval = USUAL_INTERVAL_S if beat.interval_ms is None else beat.interval_ms / 1000
    return MISSED_INTERVALS * interval
