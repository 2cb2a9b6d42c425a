"""Shares what each instance measures of providers through a bucket, so that all instances choose
alike within a second; and tells operators what is measured (`get_provider_stats`).

    a change ── the newest for each tenant ──> write (a child) ──> ROUTER_FIGURES ──> follow (a child) ──> the others' measurements

Each process writes a key of its own for each tenant, so that no write conflicts; what counts of
several is `measurements`' to say. Tenants whose policies choose by figures are written four times a
second at most, the others every two seconds: only commands show theirs. While the broker is
unavailable each instance uses its own measurements and the last known ones of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import structs

from router.contracts.stored_record import record_bytes
from router.core.clock import Clock, wall
from router.core.errors import RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.shared_bucket import SHARE_S, SharedRecords
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.operate.admin.service import Answer, RequestFields, Service, drop_absent
from router.policies.model import SHARED, Policy, list_arms
from router.policies.model.measurements import LearnedFigures, Measurements
from router.policies.model.measurements.values import read_figures_record
from router.process.observability import events, logs

log = logs.logger(__name__)

SHARE_SELDOM_S = 2.0  # where no policy chooses by them
TENANTS_AT_ONCE = 64  # records in one round; more tenants wait for the next

Policies = Mapping[tuple[str, str], Policy]


class SharedMeasurements(SharedRecords[str]):
    """By tenant. `policies` returns the policies in force, the same object until they change."""

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
        super().__init__(jetstream, bucket, node_id, infos)
        self._measurements = measurements
        self._policies = policies
        self._policies_seen: Policies = {}
        self._by_figures: frozenset[str] = frozenset()  # tenants with such a policy
        self._wall_clock = wall_clock
        # the revision and the tenant of each other key that was read; no tenant: unreadable
        self._known: dict[str, tuple[int, str]] = {}
        self._is_loaded = False

    def list_changed(self, *, is_last: bool) -> Sequence[str]:
        return self._measurements.list_changed(
            _find_no_interval if is_last else self._find_interval, TENANTS_AT_ONCE
        )

    def build_entry(self, tenant_id: str) -> tuple[str, bytes] | None:
        record = self._measurements.build_record(tenant_id, self._node_id, self._life)
        return None if record is None else (record.key, record_bytes(record))

    def mark_changed(self, tenant_id: str) -> None:
        self._measurements.mark_changed(tenant_id)

    def log_failure(self, tenant_id: str, cause: RouterError) -> None:
        log.warning(events.FIGURES_NOT_SHARED, tenant_id=tenant_id, cause=str(cause))

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the entries that are new. Those of the first listing may be old, later ones were
        written just now.
        """
        for key, entry in entries.items():
            seen = self._known.get(key)
            if (seen is None or seen[0] != entry.revision) and not key.endswith(self._life):
                self._known[key] = entry.revision, self._read(entry)
        self._is_loaded = True
        if gone := self._known.keys() - entries.keys():
            self._forget(gone)

    def _read(self, entry: BucketEntry) -> str:
        """The tenant."""
        record = self.try_read(entry, read_figures_record, events.FIGURES_UNREADABLE)
        if record is None:
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
            choosing = (
                policy
                for policy in list_arms(self._policies_seen.values())
                if policy.strategy is not None
            )
            self._by_figures = frozenset(policy.tenant_id for policy in choosing)
        return (
            SHARE_S
            if tenant_id in self._by_figures or SHARED in self._by_figures
            else SHARE_SELDOM_S
        )


def _find_no_interval(_: str) -> float:
    return 0.0


# -- `get_provider_stats`: what is learned of each provider, by tenant. Every instance answers, with
# its own figures and those of the others; `views` merges the answers into one list.
#
# The answer is bounded: at most MAX_ROWS providers, and how many were left out.

MAX_ROWS = 1000  # the answer must fit into one message
FIGURES = (
    "samples, in_flight, chosen, share?, p50_latency_ms?, p95_latency_ms?, latency_ms?, "
    "cost?, success_rate, recent_success_rate?, "
    "score?, silent_s?, is_failing, errors{provider, request, rate_limit, cancelled}"
)


class ProviderStatsService:
    """`node_id`: that of this instance."""

    def __init__(self, measurements: Measurements, node_id: str) -> None:
        self._measurements = measurements
        self._node_id = node_id

    def list_services(self) -> tuple[Service, ...]:
        gives = (
            f"{{ok, router_node_id, providers[{{tenant_id, provider_id, {FIGURES}}}], left_out}}"
        )
        says = "What is learned of each provider from results"
        return (
            Service(
                "get_provider_stats", says, "{tenant_id?}", gives, self.read, is_everywhere=True
            ),
        )

    async def read(self, asked: RequestFields) -> Answer:
        tenant_id = asked.optional_tenant_id()
        tenants = self._measurements.list_tenants() if tenant_id is None else [tenant_id]
        rows = self._list_rows(tenants)
        listed = list(islice(rows, MAX_ROWS))
        return {
            "router_node_id": self._node_id,
            "providers": listed,
            "left_out": sum(1 for _ in rows),
        }

    def _list_rows(self, tenants: list[str]) -> Iterator[Mapping[str, object]]:
        for tenant_id in tenants:
            figures, errors = (
                self._measurements.figures_of(tenant_id),
                self._measurements.errors_of(tenant_id),
            )
            total = sum(learned.chosen for learned in figures.values())
            for name, learned in sorted(figures.items()):
                told = structs.asdict(errors[name])
                yield {
                    "tenant_id": tenant_id,
                    "provider_id": name,
                    **_list_fields(learned, total),
                    "errors": told,
                }


def _list_fields(learned: LearnedFigures, total: int) -> Mapping[str, object]:
    """`share`: of the tenant's assignments in the last one to two minutes. When a probe is due is
    an instance's own matter.
    """
    fields = {**structs.asdict(learned), "share": learned.chosen / total if total else None}
    del fields["probe_share"]
    return drop_absent(fields)
