"""Every breaker of this process, joined with those who hear of it: metrics, logs, alerts, other instances, operators.

extensions   a book by extension id, this instance's own
providers    by (tenant, provider), fed by results; openings and closings are shared (`shared_breakers`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from router.app.alerts import Alerts
from router.app.shared_breakers import SharedBreakers
from router.breakers import CLOSED, HALF_OPEN, OPEN, BreakerRegistry, BreakerRules, BreakerSnapshot, BreakerTransition
from router.clock import Clock, steady
from router.config.breakers import ExtensionBreakerConfig
from router.contracts.alert import INFO, WARNING, Alert
from router.observability import LogRateLimit, Metrics, events, logs
from router.policy import Policy, ProviderBreakers

log = logs.logger(__name__)

EXTENSION, PROVIDER = "extension", "provider"
STATES = (CLOSED, OPEN, HALF_OPEN)

Label = tuple[str, str]  # kind, name


class Breakers:
    """Made once a process. `policies`: the table in force, the same object until it changes."""

    def __init__(
        self,
        metrics: Metrics,
        alerts: Alerts,
        shared: SharedBreakers,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        *,
        rules: BreakerRules = BreakerRules(),  # noqa: B008 - frozen
        now: Clock = steady,
    ) -> None:
        self.shared = shared
        self.extensions = BreakerRegistry(lambda _: rules, now=now, on_change=self._extension_changed)
        self.providers = ProviderBreakers(policies, now=now, on_create=self._provider_made, on_change=self._provider_changed)
        shared.attach(self.providers.apply_remote)
        self._metrics = metrics
        self._alerts = alerts
        self._labels: set[Label] = set()  # of providers that have a breaker; labels are bounded
        self._lines = LogRateLimit(every_s=1.0, clock=now)
        metrics.breaker_states.set_function(self._census)

    # -- who asks --------------------------------------------------------------------------------------------------

    def extension_states(self) -> dict[str, dict[str, object]]:
        """By extension id, as `get_circuit_breaker_states` tells them (docs/operators.md#circuit-breakers)."""
        return {name: {"extension_id": name, **_told(standing)} for name, standing in self.extensions.snapshots().items()}

    def provider_states(self) -> dict[str, dict[str, object]]:
        """By `{tenant}/{provider}`, of every provider that has a breaker and was heard of."""
        return {
            f"{tenant_id}/{provider_id}": {"tenant_id": tenant_id, "provider_id": provider_id, **_told(standing)}
            for (tenant_id, provider_id), standing in self.providers.snapshots().items()
        }

    # -- who hears -------------------------------------------------------------------------------------------------

    def _extension_changed(self, transition: BreakerTransition) -> None:
        self._tell(EXTENSION, transition, self._extension_label(transition.name))

    def _provider_made(self, tenant_id: str, provider_id: str) -> None:
        self._labels.add(self._provider_label(tenant_id, provider_id))

    def _provider_changed(self, transition: BreakerTransition) -> None:
        if not transition.is_remote:
            self.shared.note(transition)
        self._tell(PROVIDER, transition, self._provider_label(*transition.name.split("/")))

    def _tell(self, kind: str, transition: BreakerTransition, label: Label) -> None:
        self._metrics.breaker_transitions[*label, transition.before, transition.state] += 1
        if self._lines.allow((kind, transition.name, transition.state)):
            log.warning(events.BREAKER_CHANGED, kind=kind, name=transition.name, was=transition.before, state=transition.state)
        if transition.state != HALF_OPEN and not transition.is_remote:
            self._alerts.raise_alert(_alert(kind, transition))

    # -- metrics ---------------------------------------------------------------------------------------------------

    def _census(self) -> Mapping[tuple[str, ...], int]:
        """1 for the state that a breaker is in. Where names share a label: how many are not closed, else 1 for closed.

        Closed ones are not looked at: there may be thousands, and a scrape must not hold the loop.
        """
        counted = Counter((self._provider_label(*pair), state) for pair, state in self.providers.list_not_closed())
        counted.update((self._extension_label(name), one.state) for name, one in self.extensions.snapshots().items())
        for label in self._labels - {label for label, _ in counted}:
            counted[label, CLOSED] = 1
        return {(*label, state): counted[label, state] for label, _ in list(counted) for state in STATES}

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
    """The state of an extension that nobody has called yet."""
    return {"extension_id": extension_id, **_told(BreakerSnapshot(CLOSED, None, 0, 0.0))}


def _told(standing: BreakerSnapshot) -> dict[str, object]:
    return {
        "state": standing.state,
        "opened_at_ms": standing.opened_at_ms,
        "failure_count": standing.failure_count,
        "error_rate": standing.error_rate,
    }


def _alert(kind: str, transition: BreakerTransition) -> Alert:
    is_open = transition.state == OPEN
    opened = {"opened_at_ms": transition.opened_at_ms, "probed_in_ms": round(transition.left_s * 1000)} if is_open else {}
    return Alert(
        severity=WARNING if is_open else INFO,
        component="router.breakers",
        cause=f"breaker_{'opened' if is_open else 'closed'}:{kind}:{transition.name}",
        message="A circuit breaker opened" if is_open else "A circuit breaker closed",
        metadata={"kind": kind, "name": transition.name, **opened},
    )
