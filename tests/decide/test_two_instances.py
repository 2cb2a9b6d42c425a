"""What two instances may answer differently to the same request:
docs/reference/contracts.md#instances-differ lists it, and nothing else may.
"""

from math import inf
from typing import Any

import orjson
import pytest

from router.core.outcome import Done
from router.decide.model import DecideHandler
from router.policies.model import NO_STATES, PolicyTable, ProviderState, ProviderStates
from tests.support.decide import a_decide_handler
from tests.support.policy import a_policy, a_provider
from tests.support.requests import a_body, a_message

HALVES = (a_provider("left", 50), a_provider("right", 50))
USERS = [f"u-{number}" for number in range(50)]


class Silent:
    """A meter that counts nothing."""

    def __getattr__(self, _: str) -> object:
        return lambda *_: None


def _instance(states: ProviderStates = NO_STATES, **sections: object) -> DecideHandler:
    table = PolicyTable({("_shared", "default"): a_policy(*HALVES, **sections)})
    return a_decide_handler(table, Silent(), states=lambda _: states)


def _ask(instance: DecideHandler, name: str, user: str) -> dict[str, Any]:
    done = instance(a_message({**a_body(), "request_id": name, "context": {"user_id": user}}))
    assert isinstance(done, Done)
    assert done.reply is not None
    decision: dict[str, Any] = orjson.loads(done.reply.data)["decision"]
    return decision


def _difference(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {field for field in one.keys() | other.keys() if one.get(field) != other.get(field)}


@pytest.mark.parametrize("user", USERS)
def test_a_session_that_one_instance_knows_has_the_same_provider_and_another_reason_on_the_other(
    user: str,
) -> None:
    sticky = {"enabled": True, "session_key": "user_id"}
    one, other = _instance(sticky=sticky), _instance(sticky=sticky)
    _ask(one, "r-1", user)
    assert _difference(_ask(one, "r-2", user), _ask(other, "r-2", user)) == {"reason", "priority"}


class Sessions(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_session(self, outcome: str) -> None:
        self.told.append(outcome)


def test_a_session_is_missed_once_then_hit_and_moves_with_its_provider() -> None:
    meter, states = Sessions(), [NO_STATES]
    sticky = {"enabled": True, "session_key": "user_id"}
    table = PolicyTable({("_shared", "default"): a_policy(*HALVES, sticky=sticky)})
    instance = a_decide_handler(table, meter, states=lambda _: states[-1])
    chosen = [_ask(instance, name, "u")["provider_id"] for name in ("r-1", "r-2")]
    states.append({chosen[0]: ProviderState(blocked_until=inf)})
    assert _ask(instance, "r-3", "u")["provider_id"] != chosen[0]
    assert (chosen[0], meter.told) == (chosen[1], ["miss", "hit", "moved"])


def test_averages_of_one_instance_change_the_expected_figures_alone() -> None:
    learned = {name: ProviderState(latency_ms=321.0, cost=0.5) for name in ("left", "right")}
    one, other = _instance(learned), _instance()
    assert _difference(_ask(one, "r-1", "u"), _ask(other, "r-1", "u")) == {
        "expected_latency_ms",
        "expected_cost",
    }


def test_with_the_same_states_the_answers_are_the_same() -> None:
    one, other = _instance(), _instance()
    assert all(_ask(one, user, user) == _ask(other, user, user) for user in USERS)
