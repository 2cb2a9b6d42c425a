"""The port by which the decide handler reports what became of the requests of a policy with a
canary (docs/reference/canary.md#counted).
"""

from __future__ import annotations

from typing import Protocol

from router.contracts.decision import Decision, Refusal
from router.policies.model import Policy


class CanaryMeter(Protocol):
    """Called only for policies with a canary."""

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None:
        """An arm decided. A decision that is pushed ends with its result, any other answer here."""

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None:
        """A shadow decided beside `answer`."""
