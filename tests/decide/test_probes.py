"""Who is told of a decision that looked at breakers, and whose figures it looks at."""

import orjson
import pytest

from router.policies.model import NO_STATES, PolicyTable, ProviderState, ProviderStates
from router.policies.model.measurements import LearnedFigures
from tests.support.breakers import SomeProviders, a_guarded_policy
from tests.support.decide import a_decide_handler
from tests.support.policy import a_policy, a_provider
from tests.support.requests import a_body, a_message


class Silent:
    """A meter that counts nothing."""

    def __getattr__(self, _: str) -> object:
        return lambda *_: None


def chosen_with(states: ProviderStates, times: int = 1) -> list[tuple[str, str]]:
    """The decisions that were told, of so many equal requests."""
    told: list[tuple[str, str]] = []
    handler = a_decide_handler(
        PolicyTable({("_shared", "default"): a_policy(a_provider("openai"))}),
        Silent(),
        states=lambda _: states,
        figures=lambda _: pytest.fail("without a strategy no figures are looked at"),
        on_decision=lambda tenant_id, decision: told.append((tenant_id, decision.provider_id)),
        now=lambda: 10.0,
    )
    for _ in range(times):
        handler(a_message({**a_body(), "request_id": "r-1"}))
    return told


def half_open(provider: str) -> ProviderStates:
    """The states of a tenant of whose providers this one's breaker takes probes."""
    some = SomeProviders(a_guarded_policy(provider))
    some.report(3, provider=provider)
    some.clock.at += 10.0
    return known(some)


def known(some: SomeProviders) -> ProviderStates:
    states = some.breakers.find_not_closed("acme")
    assert states is not None
    return states


def test_a_probe_is_told_and_its_replay_is_not() -> None:
    assert chosen_with(half_open("openai"), times=2) == [("acme", "openai")]


def test_a_decision_for_another_provider_than_that_of_the_breaker_is_no_probe() -> None:
    assert chosen_with(half_open("other")) == []


@pytest.mark.parametrize("states", [NO_STATES, {"openai": ProviderState(blocked_until=11.0)}])
def test_neither_the_short_way_nor_a_refusal_is_told(states: ProviderStates) -> None:
    assert chosen_with(states) == []


def test_a_strategy_chooses_by_the_figures_of_the_tenant() -> None:
    two = a_provider("a", 50), a_provider("b", 50)
    policy = a_policy(*two, strategy={"type": "least_latency", "explore": 0})
    scores = {
        "a": LearnedFigures(samples=99, score=2.0),
        "b": LearnedFigures(samples=99, score=1.0),
    }
    handler = a_decide_handler(
        PolicyTable({("_shared", "default"): policy}),
        Silent(),
        figures=lambda tenant_id: scores if tenant_id == "acme" else {},
    )
    for number in range(9):
        done = handler(a_message({**a_body(), "request_id": f"r-{number}"}))
        answer = orjson.loads(done.reply.data)  # type: ignore[union-attr]
        assert answer["decision"]["provider_id"] == "b"
