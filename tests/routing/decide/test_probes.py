"""Who is told of a decision that looked at breakers."""

import pytest

from router.routing.decide import DecideHandler
from router.routing.policy import NO_STATES, PolicyTable, ProviderState, ProviderStates
from tests.support.policy import a_policy, a_provider
from tests.support.requests import a_body, a_message


class Silent:
    """A meter that counts nothing."""

    def __getattr__(self, _: str) -> object:
        return lambda *_: None


def chosen_with(states: ProviderStates, times: int = 1) -> list[tuple[str, str]]:
    """The decisions that were told, of so many equal requests."""
    told: list[tuple[str, str]] = []
    handler = DecideHandler(
        PolicyTable({("_shared", "default"): a_policy(a_provider("openai"))}),
        Silent(),  # type: ignore[arg-type]
        states=lambda _: states,
        on_decision=lambda tenant_id, decision: told.append((tenant_id, decision.provider_id)),
        now=lambda: 0.0,
    )
    for _ in range(times):
        handler(a_message({**a_body(), "request_id": "r-1"}))
    return told


def test_a_decision_that_looked_at_states_is_told_and_its_replay_is_not() -> None:
    assert chosen_with({"openai": ProviderState(latency_ms=1.0)}, times=2) == [("acme", "openai")]


@pytest.mark.parametrize("states", [NO_STATES, {"openai": ProviderState(blocked_until=1.0)}])
def test_neither_the_short_way_nor_a_refusal_is_told(states: ProviderStates) -> None:
    assert chosen_with(states) == []
