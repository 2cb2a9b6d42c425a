"""Shares what each instance measures of providers through a bucket, so that all instances choose alike within a second.

    a change ── the newest for each tenant ──> write (a child) ──> ROUTER_FIGURES ──> follow (a child) ──> the others' measurements

Each process writes a key of its own for each tenant, so that no write conflicts; what counts of several is `measurements`' to say.
Tenants whose policies choose by figures are written four times a second at most, the others every two seconds: only commands show
theirs. While the broker is unavailable each instance uses its own measurements and the last known ones of the others.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from router.contracts.figures_record import FiguresRecord, figures_key, figures_record_bytes, read_figures_record
from router.core.clock import Clock, wall
from router.core.errors import BrokerUnavailable, Conflict, Poison, RouterError
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry
from router.delivery.buckets.mirror import BucketMirror
from router.delivery.shared_info import SharedInfo
from router.operations.observability import LogRateLimit, events, logs
from router.routing.measurements import Measurements
from router.routing.policy import SHARED, Policy, list_arms

log = logs.logger(__name__)

SHARE_S = 0.25  # between two records of one tenant
SHARE_SELDOM_S = 2.0  # where no policy chooses by them
TENANTS_AT_ONCE = 64  # records in one round; more tenants wait for the next
MAX_KEYS = 20_000  # whose revision is known

Policies = Mapping[tuple[str, str], Policy]


class SharedMeasurements:
    """`policies` returns the policies in force, the same object until they change."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        node_id: str,
        measurements: Measurements,
        policies: Callable[[], Policies],
        *,
        wall_clock: Clock = wall,
        infos: SharedInfo | None = None,
    ) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._mirror = BucketMirror(jetstream, bucket, self.on_change, infos=infos)
        self._node_id = node_id
        self._measurements = measurements
        self._policies = policies
        self._policies_seen: Policies = {}
        self._by_figures: frozenset[str] = frozenset()  # tenants with such a policy
        self._wall_clock = wall_clock
        self._life = uuid.uuid4().hex
        self._own: dict[str, int] = {}  # the revision of each key of this process
        self._known: dict[str, tuple[int, str]] = {}  # the revision and the tenant of each other key that was read; no tenant: unreadable
        self._is_loaded = False
        self._lines = LogRateLimit(every_s=60.0)

    async def load(self) -> None:
        """Load once, before the first decision. If the bucket is unavailable the process starts anyway."""
        with suppress(BrokerUnavailable):
            await self._mirror.load()

    async def follow(self) -> None:
        """A child of the tree: follow the bucket until cancelled."""
        await self._mirror.run()

    async def write(self) -> None:
        """A child of the tree: write what has changed until cancelled."""
        while True:
            await asyncio.sleep(SHARE_S)
            for tenant_id in self._measurements.list_changed(self._find_interval, TENANTS_AT_ONCE):
                await self._write(tenant_id)

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the entries that are new. Those of the first listing may be old, later ones were written just now."""
        for key, entry in entries.items():
            known = self._known.get(key)
            if (known is None or known[0] != entry.revision) and not key.endswith(self._life):
                self._known[key] = entry.revision, self._read(key, entry)
        self._is_loaded = True
        if gone := self._known.keys() - entries.keys():
            self._forget(gone)

    def _read(self, key: str, entry: BucketEntry) -> str:
        """The tenant."""
        try:
            record = read_figures_record(key, entry.value)
        except Poison as exc:
            if self._lines.allow(key):
                log.error(events.FIGURES_UNREADABLE, key=key, error=str(exc))
            return ""
        age_s = 0.0 if self._is_loaded else max(0.0, self._wall_clock() - entry.stored_ns / 1e9)
        self._measurements.apply(record, age_s)
        return record.tenant_id

    def _forget(self, gone: Iterable[str]) -> None:
        """Instances that have ended: their keys are no longer in the bucket."""
        for key in gone:
            del self._known[key]
        lives: dict[str, set[str]] = {}
        for key, (_, tenant_id) in self._known.items():
            lives.setdefault(tenant_id, set()).add(key.rpartition(".")[2])
        self._measurements.keep_others(lives)

    def _find_interval(self, tenant_id: str) -> float:
        if self._policies() is not self._policies_seen:
            self._policies_seen = self._policies()
            choosing = (policy for policy in list_arms(self._policies_seen.values()) if policy.strategy is not None)
            self._by_figures = frozenset(policy.tenant_id for policy in choosing)
        return SHARE_S if tenant_id in self._by_figures or SHARED in self._by_figures else SHARE_SELDOM_S

    async def _write(self, tenant_id: str) -> None:
        record = self._measurements.build_record(tenant_id, self._node_id, self._life)
        if record is None:
            return
        try:
            await self._put(figures_key(tenant_id, self._life), record)
        except RouterError as exc:  # the next change of this tenant is another try
            if self._lines.allow("write"):
                log.warning(events.FIGURES_NOT_SHARED, tenant_id=tenant_id, cause=str(exc))

    async def _put(self, key: str, record: FiguresRecord) -> None:
        """Replace this process' entry. Raises BrokerUnavailable, StorageFull, Poison (too large)."""
        if len(self._own) >= MAX_KEYS and key not in self._own:
            self._own.clear()
        try:
            self._own[key] = await self._documents.put(key, figures_record_bytes(record), revision=self._own.get(key))
        except Conflict:  # the bucket was made again, or an answer was lost: the next write replaces what is there now
            seen = await self._documents.read_newest(key)
            self._own[key] = seen.revision if seen is not None else 0
