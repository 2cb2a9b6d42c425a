"""Decide which workers are remembered, and which of them are alive, busy or silent
(docs/reference/contracts.md#heartbeats).

A worker is silent after three of its intervals without a heartbeat. Without `interval_ms` an
interval is 5 s, which the specification calls usual: a limit of 5 s would report every worker that
keeps to it. A worker that sent `stopped` is not silent, it left. Times are when the heartbeat
arrived, in steady seconds, never the worker's clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.heartbeat import Heartbeat

# -- Which are alive, busy or silent.

MISSED_INTERVALS = 3
USUAL_INTERVAL_S = 5.0
# if places are needed, a worker loses its own after this silence, however long an interval it
# promised
EARLY_S = 60.0


class WorkerCondition(Enum):
    """The state of a worker; its heartbeats name the first four."""

    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    STOPPED = "stopped"
    SILENT = "silent"

    @property
    def is_alive(self) -> bool:
        return self not in (WorkerCondition.STOPPED, WorkerCondition.SILENT)


class TrackedWorker(Struct, frozen=True):
    """One worker and its last heartbeat, which arrived at `heard_at` (steady seconds)."""

    beat: Heartbeat
    heard_at: float
    is_reported_silent: bool = False

    @property
    def key(self) -> Key:
        return self.beat.tenant_id, self.beat.worker_id


class WorkerChange(Struct, frozen=True):
    """A worker appeared (`was` None), stopped, became silent, or is back: reported once each."""

    worker: TrackedWorker
    was: WorkerCondition | None
    condition: WorkerCondition


def find_condition(worker: TrackedWorker, now: float) -> WorkerCondition:
    """Return the condition of a worker at `now`, steady seconds."""
    reported = WorkerCondition(worker.beat.status)
    if reported is not WorkerCondition.STOPPED and now - worker.heard_at >= _silence_limit(
        worker.beat
    ):
        return WorkerCondition.SILENT
    return reported


class Liveness:
    """At most `limit` workers (`WorkerAdmission`). A worker without a heartbeat for `forget_s` is
    forgotten; sooner if places are needed.

    `group_of`: tenants whose workers share places; by default each tenant is a group of its own.
    """

    def __init__(
        self,
        limit: int = 10_000,
        forget_s: float = 3600.0,
        group_of: Callable[[str | None], Hashable] = lambda tenant_id: tenant_id,
    ) -> None:
        self._admission = WorkerAdmission(limit, group_of)
        self._forget_s = forget_s
        self._workers: dict[Key, TrackedWorker] = {}
        self._full_until = float("-inf")
        self.refused = 0  # heartbeats of new workers that got no place

    def on_heartbeat(self, beat: Heartbeat, now: float) -> WorkerChange | None:
        """Take one heartbeat; return the change that it makes, if operators should know of it."""
        worker, condition = TrackedWorker(beat, now), WorkerCondition(beat.status)
        before = self._workers.get(worker.key)
        if before is not None:
            self._admission.on_heartbeat(worker.key, now)
        elif not self._can_admit(worker.key, condition, now):
            return None
        was = None if before is None else find_condition(before, now)
        self._workers[worker.key] = worker
        return (
            WorkerChange(worker, was, condition)
            if was is None or was.is_alive != condition.is_alive
            else None
        )

    def find_silent(self, now: float) -> list[WorkerChange]:
        """Return the workers that became silent since the last call; each once until its next
        heartbeat.
        """
        changes = []
        for worker in list(self._workers.values()):
            if now - worker.heard_at >= self._forget_s + _silence_limit(worker.beat):
                self._forget(worker.key)
            if (
                not worker.is_reported_silent
                and find_condition(worker, now) is WorkerCondition.SILENT
            ):
                changes.append(
                    WorkerChange(
                        worker, WorkerCondition(worker.beat.status), WorkerCondition.SILENT
                    )
                )
                if worker.key in self._workers:
                    self._workers[worker.key] = replace(worker, is_reported_silent=True)
        return changes

    def list_workers(self, now: float) -> Iterator[tuple[TrackedWorker, WorkerCondition]]:
        """Return every known worker with its condition."""
        return ((worker, find_condition(worker, now)) for worker in list(self._workers.values()))

    def count_alive(self, now: float) -> int:
        return sum(condition.is_alive for _, condition in self.list_workers(now))

    def count_silent(self, now: float) -> int:
        return sum(condition is WorkerCondition.SILENT for _, condition in self.list_workers(now))

    def __len__(self) -> int:
        return len(self._workers)

    def is_proven(self, worker: TrackedWorker) -> bool:
        """Whether the worker sent more than one heartbeat: anything may have sent a single one."""
        return self._admission.is_proven(worker.key)

    def _can_admit(self, key: Key, condition: WorkerCondition, now: float) -> bool:
        """Whether a new worker gets a place; one whose first heartbeat says `stopped` needs none."""
        if condition is WorkerCondition.STOPPED:
            return False
        if not self._admission.has_room(key) and now >= self._full_until:
            self._forget_dead(now)
        if not self._admission.has_room(key):
            displaced = self._admission.find_weakest(key, now)
            if displaced is None:
                self.refused += 1
                return False
            self._forget(displaced)
        self._admission.admit(key, now)
        return True

    def _forget_dead(self, now: float) -> None:
        """Free the places of dead workers. Any sender of heartbeats can cause this scan, so it runs
        at most once a second.
        """
        for key, worker in list(self._workers.items()):
            if now - worker.heard_at >= EARLY_S or not find_condition(worker, now).is_alive:
                self._forget(key)
        self._full_until = now + 1.0

    def _forget(self, key: Key) -> None:
        del self._workers[key]
        self._admission.remove(key)


def _silence_limit(beat: Heartbeat) -> float:
    """Return the seconds without a heartbeat after which a worker is silent."""
    interval = USUAL_INTERVAL_S if beat.interval_ms is None else beat.interval_ms / 1000
    return MISSED_INTERVALS * interval


# -- Which workers are remembered. A heartbeat is input: its sender chooses names, how many
# there are, and what they promise.
#
# gets a place    a new worker, while its group holds no more than are free: one group alone gets
# half, so newcomers find one
# loses a place   a dead worker; if no place is free, also one that sent a single heartbeat, to a
# newcomer of its group
# keeps a place   a worker with a second heartbeat, at least `PROVEN_S` after the first, as long as
# it goes on
#
# So invented names do not displace a worker that goes on beating, and give way to one that has
# just come.

Key = tuple[str | None, str]  # (tenant, worker): two tenants may use one worker name

GRACE_S = 1.0  # a worker that came this recently is not displaced
PROVEN_S = 1.0


class WorkerAdmission:
    """At most `limit` places, shared by groups of workers (`group_of` a tenant). It holds keys, not
    heartbeats.
    """

    def __init__(self, limit: int, group_of: Callable[[str | None], Hashable]) -> None:
        self._limit = limit
        self._group_of = group_of
        self._groups: dict[Key, Hashable] = {}
        self._held: Counter[Hashable] = Counter()
        # one heartbeat so far, and its time; the oldest first
        self._fresh: dict[Hashable, OrderedDict[Key, float]] = {}

    def has_room(self, key: Key) -> bool:
        """Whether the key's group may take one more place."""
        free = self._limit - len(self._groups)
        return free > 0 and self._held[self._group_of(key[0])] <= free

    def find_weakest(self, key: Key, now: float) -> Key | None:
        """Return the worker that gives way to a newcomer when no place is free, or None."""
        for group in (self._group_of(key[0]), None):
            oldest = next(iter(self._fresh.get(group, {}).items()), None)
            if oldest is not None and now - oldest[1] >= GRACE_S:
                return oldest[0]
        return None

    def admit(self, key: Key, now: float) -> None:
        """Give a new worker a place."""
        group = self._groups[key] = self._group_of(key[0])
        self._held[group] += 1
        self._fresh.setdefault(group, OrderedDict())[key] = now

    def on_heartbeat(self, key: Key, now: float) -> None:
        """Mark a worker as proven if its first heartbeat is some time ago."""
        fresh = self._fresh.get(self._groups[key])
        if fresh is not None and (since := fresh.get(key)) is not None and now - since >= PROVEN_S:
            self._prove(key)

    def is_proven(self, key: Key) -> bool:
        return key not in self._fresh.get(self._groups.get(key), {})

    def remove(self, key: Key) -> None:
        """Free a worker's place."""
        self._prove(key)
        group = self._groups.pop(key)
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]

    def _prove(self, key: Key) -> None:
        group = self._groups[key]
        fresh = self._fresh.get(group)
        if fresh is not None:
            fresh.pop(key, None)
            if not fresh:
                del self._fresh[group]
