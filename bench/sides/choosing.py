"""A chooser whose ports count nothing, but those that a question looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.contracts.decision import Decision, Refusal
from router.decide.model.choose import ProviderChooser
from router.policies.model import NO_STATES, Policy, PolicyTable, Sessions, evaluate
from router.policies.model.measurements import NO_FIGURES


class Uncounted:
    """What a session and a canary are counted by."""

    def on_session(self, outcome: str) -> None: ...

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None: ...

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None: ...


class Providers:
    """What is known of providers: nothing, but what the question's own functions say."""

    def __init__(self, ports: Mapping[str, Any]) -> None:
        self.states_of = ports.get("states", lambda _: NO_STATES)
        self.figures_of = ports.get("figures", lambda _: NO_FIGURES)
        self.on_decision = ports.get("on_decision", lambda *_: None)


def make_chooser(**ports: object) -> ProviderChooser:
    uncounted = Uncounted()
    others: dict[str, object] = {
        "providers": Providers(ports),
        "evaluate": evaluate,
        "canaries": uncounted,
        "budgets": {},
        "policies": PolicyTable(),
    }
    given = {name: port for name, port in ports.items() if name in others}
    return ProviderChooser(Sessions(), uncounted, **{**others, **given})  # type: ignore[arg-type]
