"""A chooser whose ports count nothing, but those that a question looks at."""

from __future__ import annotations

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


def make_chooser(**ports: object) -> ProviderChooser:
    uncounted = Uncounted()
    others: dict[str, object] = {
        "states": lambda _: NO_STATES,
        "on_decision": lambda *_: None,
        "evaluate": evaluate,
        "figures": lambda _: NO_FIGURES,
        "canaries": uncounted,
        "budgets": {},
        "policies": PolicyTable(),
    }
    return ProviderChooser(Sessions(), uncounted, **{**others, **ports})  # type: ignore[arg-type]
