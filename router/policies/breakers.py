"""All circuit breakers of this process, joined with metrics, logs, alerts, other instances and
admin services.

extensions   by extension id and tenant, for this process only
providers    by (tenant, provider), fed by results; openings and closings are shared
             (`shared_breakers`)
limits       the same pairs: providers that limit a tenant; shared as well
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from router.contracts.alert import INFO, WARNING, Alert
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
from router.core.clock import Clock, steady
from router.extensions.settings import ExtensionBreakerConfig
from router.operate.alerts import Alerts
from router.policies.model import LimitedProviders, Policy, ProviderBreakers
from router.policies.shared_breakers import SharedBreakers
from router.process.observability import LogRateLimit, Metrics, events, logs
from router.work.settings import ProvidersConfig

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
