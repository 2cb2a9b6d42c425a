"""All circuit breakers of this process, joined with metrics, logs, alerts and admin services; and
shared with other instances.

extensions   by extension id and tenant, for this process only
providers    by (tenant, provider), fed by results; openings and closings are shared
             (`SharedBreakers`)
limits       the same pairs: providers that limit a tenant; shared as well
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from router.contracts.alert import INFO, WARNING, Alert
from router.contracts.stored_record import record_bytes
from router.core.breakers import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerRegistry,
    BreakerRules,
    BreakerSnapshot,
    BreakerTransition,
    ServiceSnapshot,
)
from router.core.clock import Clock, steady, wall
from router.core.errors import Conflict, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.shared_bucket import SharedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.extensions.settings import ExtensionBreakerConfig
from router.operate.alerts import Alerts
from router.policies.model import LimitedProviders, Policy, ProviderBreakers, RemoteTransition
from router.policies.model.breakers import LIMITED, BreakerRecord, read_breaker_record
from router.process.observability import LogRateLimit, Metrics, events, logs
from router.work.settings import ProvidersConfig

# -- Shares the openings and closings of provider breakers, and rate limits, between instances
# through a bucket, within a second.
#
# note, note_limit ── the newest for each key ──> write (a child) ──> ROUTER_BREAKERS ──> follow (a child) ──> on_news, on_limits
#
# When two instances write at once, the last write wins: both have observed the provider, the later
# observation is better, and a wrong one costs one timeout, after which all instances probe again. A
# transition that this instance has written, or is about to write, overrides older entries of the
# bucket. While the broker is unavailable each instance uses its own observations.


WRITE_RETRY_S = 0.25

Pair = tuple[str, str]  # tenant, provider
News = Mapping[Pair, RemoteTransition]
Limits = Mapping[Pair, float]  # seconds that are left


class SharedBreakers(SharedBucket):
    """`now` is the steady clock of the breakers: times in the bucket are converted to time spans
    when written and when read.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        node_id: str,
        *,
        now: Clock = steady,
        wall_clock: Clock = wall,
        infos: SharedInfo | None = None,
    ) -> None:
        super().__init__(jetstream, bucket, node_id, infos)
        self._now = now
        self._wall_clock = wall_clock
        self._on_news: Callable[[News], None] = lambda _: None
        self._on_limits: Callable[[Limits], None] = lambda _: None
        self._unwritten: dict[str, BreakerRecord] = {}
        self._wake = asyncio.Event()
        # of keys in the bucket: the newest revision that was applied, or written here
        self._known: dict[str, int] = {}
        self._newest = 0  # of the bucket: a lower one means that the bucket was recreated

    def attach(self, on_news: Callable[[News], None], on_limits: Callable[[Limits], None]) -> None:
        """Set the callbacks for transitions and rate limits of other instances."""
        self._on_news = on_news
        self._on_limits = on_limits

    def note(self, transition: BreakerTransition) -> None:
        """Queue a transition of this instance for writing. Half open is not shared: the others
        reach it by their timers.
        """
        if transition.state != HALF_OPEN:
            self._queue(self._record(transition))

    def note_limit(self, tenant_id: str, provider_id: str, left_s: float) -> None:
        """Queue a rate limit that this instance has heard of."""
        at_ms = round(self._wall_clock() * 1000)
        self._queue(
            BreakerRecord(
                tenant_id=tenant_id,
                provider_id=provider_id,
                state="limited",
                opened_at_ms=at_ms,
                until_ms=at_ms + round(left_s * 1000),
                node=self._node_id,
                life=self._life,
            )
        )

    def _queue(self, record: BreakerRecord) -> None:
        self._unwritten[record.key] = record
        self._wake.set()

    async def write(self) -> None:
        """A child of the tree: write queued transitions until cancelled; failed writes are
        repeated.
        """
        while True:
            if not self._unwritten:  # a restarted child goes on with the queue
                self._wake.clear()
                await self._wake.wait()
            try:
                for key, record in list(self._unwritten.items()):
                    await self._put(key, record)
            except RouterError:
                # `BucketMirror` logs it; the breakers go on with local observations
                await asyncio.sleep(WRITE_RETRY_S)

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Pass the entries that are new to `on_news`."""
        newest = max((entry.revision for entry in entries.values()), default=0)
        if newest < self._newest:
            self._known.clear()
        self._newest = newest
        news = [
            record
            for key, entry in entries.items()
            if (record := self._read_news(key, entry)) is not None
        ]
        self._on_news(
            {
                _pair(change): self._build_transition(change)
                for change in news
                if change.state != LIMITED
            }
        )
        self._on_limits(
            {_pair(change): self._find_left_s(change) for change in news if change.state == LIMITED}
        )
        for key in self._known.keys() - entries.keys():
            # a later one was written here, and has not come back yet
            if self._known[key] <= newest:
                del self._known[key]

    def _read_news(self, key: str, entry: BucketEntry) -> BreakerRecord | None:
        if key in self._unwritten or entry.revision <= self._known.get(key, 0):
            return None
        self._known[key] = entry.revision
        record = self.try_read(entry, read_breaker_record, events.BREAKER_UNREADABLE)
        return None if record is None or record.life == self._life else record

    def _build_transition(self, record: BreakerRecord) -> RemoteTransition:
        until = self._now() + self._find_left_s(record) if record.state == OPEN else None
        return RemoteTransition(until, record.opened_at_ms)

    def _find_left_s(self, record: BreakerRecord) -> float:
        return record.until_ms / 1000 - self._wall_clock()

    async def _put(self, key: str, record: BreakerRecord) -> None:
        """Replace the stored entry, whatever its revision. Raises BrokerUnavailable."""
        seen = self._mirror.entries.get(key)
        while True:
            try:
                revision = await self._documents.put(
                    key, record_bytes(record), revision=seen.revision if seen else None
                )
                break
            except Conflict:
                seen = await self._documents.get(key)
        self._known[key] = revision
        if self._unwritten.get(key) is record:
            del self._unwritten[key]
        self.on_change(self._mirror.entries)

    def _record(self, transition: BreakerTransition) -> BreakerRecord:
        tenant_id, _, provider_id = transition.name.partition("/")
        at_ms = round(self._wall_clock() * 1000)
        return BreakerRecord(
            tenant_id=tenant_id,
            provider_id=provider_id,
            state="closed" if transition.state == CLOSED else "open",
            opened_at_ms=transition.opened_at_ms or at_ms,
            until_ms=at_ms + round(transition.left_s * 1000) if transition.state == OPEN else 0,
            node=self._node_id,
            life=self._life,
        )


def _pair(record: BreakerRecord) -> Pair:
    return record.tenant_id, record.provider_id


# -- All circuit breakers of this process, joined with metrics, logs, alerts, other instances and
# admin services.


log = logs.logger(__name__)

EXTENSION, PROVIDER = "extension", "provider"
STATES = (CLOSED, OPEN, HALF_OPEN)
MAX_TENANTS_SHOWN = 20  # of those to which an extension is not open

Label = tuple[str, str]  # kind, name


class Breakers:
    """Created once per process. `policies` returns the policies in force, the same object until
    they change.
    """

    def __init__(
        self,
        metrics: Metrics,
        alerts: Alerts,
        shared: SharedBreakers,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        *,
        providers: ProvidersConfig,
        rules: BreakerRules = BreakerRules(),  # noqa: B008 - frozen
        now: Clock = steady,
    ) -> None:
        self.shared = shared
        self.extensions = BreakerRegistry(
            lambda _: rules, now=now, on_change=self._on_extension_change
        )
        self.providers = ProviderBreakers(
            policies,
            now=now,
            on_create=self._on_provider_created,
            on_change=self._on_provider_change,
        )
        self.limits = LimitedProviders(
            self.providers.blocked, providers.find_span_s, self._on_limited, now=now
        )
        shared.attach(self.providers.apply_remote, self.limits.apply_remote)
        self._metrics = metrics
        self._alerts = alerts
        self._labels: set[Label] = set()  # of providers that have a breaker; labels are bounded
        self._lines = LogRateLimit(every_s=1.0, clock=now)
        metrics.breaker_states.set_function(self._census)

    # -- queries -----------------------------------------------------------------------------------

    def extension_states(self) -> dict[str, dict[str, object]]:
        """By extension id, as `get_circuit_breaker_states` shows them
        (docs/reference/operators.md#circuit-breakers).
        """
        return {
            name: _build_extension_state(name, snapshot)
            for name, snapshot in self.extensions.snapshots().items()
        }

    def provider_states(self) -> dict[str, dict[str, object]]:
        """By `{tenant}/{provider}`, of every provider that has a breaker and has reported a result."""
        return {
            f"{tenant_id}/{provider_id}": {
                "tenant_id": tenant_id,
                "provider_id": provider_id,
                **_build_state(snapshot),
            }
            for (tenant_id, provider_id), snapshot in self.providers.snapshots().items()
        }

    # -- callbacks ---------------------------------------------------------------------------------

    def _on_extension_change(self, transition: BreakerTransition) -> None:
        self._report(
            EXTENSION, transition, self._extension_label(transition.name.partition("/")[0])
        )

    def _on_provider_created(self, tenant_id: str, provider_id: str) -> None:
        self._labels.add(self._provider_label(tenant_id, provider_id))

    def _on_provider_change(self, transition: BreakerTransition) -> None:
        if not transition.is_remote:
            self.shared.note(transition)
        self._report(PROVIDER, transition, self._provider_label(*transition.name.split("/")))

    def _on_limited(self, tenant_id: str, provider_id: str, left_s: float) -> None:
        self.shared.note_limit(tenant_id, provider_id, left_s)
        if self._lines.allow(("limit", tenant_id, provider_id)):
            log.warning(
                events.PROVIDER_LIMITS,
                tenant_id=tenant_id,
                provider_id=provider_id,
                left_s=round(left_s, 3),
            )

    def _report(self, kind: str, transition: BreakerTransition, label: Label) -> None:
        self._metrics.breaker_transitions[*label, transition.before, transition.state] += 1
        if self._lines.allow((kind, transition.name, transition.state)):
            log.warning(
                events.BREAKER_CHANGED,
                kind=kind,
                name=transition.name,
                was=transition.before,
                state=transition.state,
            )
        if transition.state != HALF_OPEN and not transition.is_remote:
            self._alerts.raise_alert(_alert(kind, transition))

    # -- metrics -----------------------------------------------------------------------------------

    def _census(self) -> Mapping[tuple[str, ...], int]:
        """1 for the state that a breaker is in. Where names share a label: how many are not closed,
        else 1 for closed.

        Closed breakers are not visited: there may be thousands, and a scrape must not block the
        event loop.
        """
        counted = Counter(
            (self._provider_label(*pair), state) for pair, state in self.providers.list_not_closed()
        )
        counted.update(
            (self._extension_label(name), state)
            for name, state in self.extensions.list_not_closed()
        )
        extensions = {self._extension_label(name) for name in self.extensions.list_services()}
        for label in (self._labels | extensions) - {label for label, _ in counted}:
            counted[label, CLOSED] = 1
        return {
            (*label, state): counted[label, state] for label, _ in list(counted) for state in STATES
        }

    def _extension_label(self, extension_id: str) -> Label:
        return EXTENSION, self._metrics.extension[extension_id]

    def _provider_label(self, tenant_id: str, provider_id: str) -> Label:
        return PROVIDER, f"{self._metrics.tenant[tenant_id]}/{self._metrics.provider[provider_id]}"


def breaker_rules(config: ExtensionBreakerConfig) -> BreakerRules:
    return BreakerRules(
        failure_threshold=config.failure_threshold,
        success_threshold=config.success_threshold,
        timeout_s=config.timeout_ms / 1000,
        half_open_max_calls=config.half_open_max_calls,
        error_rate_threshold=config.error_rate_threshold,
        error_rate_window_s=config.error_rate_window_ms / 1000,
        minimum_calls=config.minimum_calls,
    )


def build_closed_state(extension_id: str) -> dict[str, object]:
    """The state of an extension before its first call."""
    return {"extension_id": extension_id, **_build_state(BreakerSnapshot(CLOSED, None, 0, 0.0))}


def _build_extension_state(name: str, snapshot: ServiceSnapshot) -> dict[str, object]:
    not_closed = dict(islice(snapshot.not_closed.items(), MAX_TENANTS_SHOWN))
    return {"extension_id": name, **_build_state(snapshot.worst), "not_closed": not_closed or None}


def _build_state(snapshot: BreakerSnapshot) -> dict[str, object]:
    return {
        "state": snapshot.state,
        "opened_at_ms": snapshot.opened_at_ms,
        "failure_count": snapshot.failure_count,
        "error_rate": snapshot.error_rate,
    }


def _alert(kind: str, transition: BreakerTransition) -> Alert:
    is_open = transition.state == OPEN
    opened = (
        {"opened_at_ms": transition.opened_at_ms, "probed_in_ms": round(transition.left_s * 1000)}
        if is_open
        else {}
    )
    return Alert(
        severity=WARNING if is_open else INFO,
        component="router.breakers",
        cause=f"breaker_{'opened' if is_open else 'closed'}:{kind}:{transition.name}",
        message="A circuit breaker opened" if is_open else "A circuit breaker closed",
        metadata={"kind": kind, "name": transition.name, **opened},
    )
