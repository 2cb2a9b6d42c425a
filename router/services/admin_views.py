"""What the admin services show: health of extensions, states of breakers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from router.operations.admin.service import Answer, drop_absent
from router.routing.breakers import CLOSED
from router.routing.extensions import ExtensionRegistry, HealthTracker
from router.services.breakers import Breakers, build_closed_state


class ExtensionHealth:
    """`operations.admin.instances.HealthSource`: the window's figures with the breaker's state beside them."""

    def __init__(self, registry: ExtensionRegistry, health: HealthTracker, breakers: Breakers) -> None:
        self._registry = registry
        self._health = health
        self._breakers = breakers

    def health(self) -> Mapping[str, Answer]:
        states = self._breakers.extension_states()
        return {extension_id: self._line(extension_id, states.get(extension_id, {})) for extension_id in sorted(self._registry.get_all())}

    def _line(self, extension_id: str, breaker: Mapping[str, object]) -> Answer:
        figures = structs.asdict(self._health.figures(extension_id))
        state = {"circuit_breaker_state": breaker.get("state", CLOSED), "circuit_breaker_opened_at_ms": breaker.get("opened_at_ms")}
        return drop_absent({**figures, **state})


class BreakerStates:
    """`operations.admin.instances.BreakerSource`: each registered extension has a state, also before its first call."""

    def __init__(self, registry: ExtensionRegistry, breakers: Breakers) -> None:
        self._registry = registry
        self._breakers = breakers

    def extension_states(self) -> Mapping[str, Answer]:
        known = self._breakers.extension_states()
        return {name: known.get(name) or build_closed_state(name) for name in sorted(self._registry.get_all())}

    def provider_states(self) -> Mapping[str, Answer]:
        return self._breakers.provider_states()
