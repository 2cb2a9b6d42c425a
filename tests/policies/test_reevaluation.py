"""A recorded decision made again, and how sure one may be of it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.policies.model import ProviderState, evaluate, reevaluate
from tests.support.policy import SHUT, a_policy, a_provider, a_request
from tests.support.recorded import HALVES, a_policy_that_asks_for, record_decision

STATES = st.dictionaries(
    st.sampled_from(["left", "right"]),
    st.builds(
        ProviderState,
        blocked_until=st.floats(0, 10),
        latency_ms=st.none() | st.floats(0, 1e6),
        cost=st.none() | st.floats(0, 10),
    ),
)


@given(
    key=st.text("abc123", min_size=1),
    states=STATES,
    now=st.floats(0, 10),
    limit=st.none() | st.floats(0, 1e6),
)
def test_made_again_by_its_own_version_it_is_the_same_to_the_last_figure(
    key: str, states: Mapping[str, ProviderState], now: float, limit: float | None
) -> None:
    policy = a_policy(*HALVES, version=3)
    request = a_request(key, limits={"max_latency_ms": limit} if limit is not None else None)
    made = reevaluate(policy, record_decision(policy, request, states=states, now=now))
    assert made.answer == evaluate(policy, request, states=states, now=now)
    assert made.uncertainty is None


def test_the_trace_says_who_was_considered_and_why_he_fell() -> None:
    policy = a_policy(*HALVES, a_provider("off", enabled=False))
    made = reevaluate(policy, record_decision(policy, states={"left": SHUT}))
    assert [(step.stage, step.subject, step.verdict) for step in made.steps] == [
        ("eligible", "left", "circuit_breaker_open"),
        ("eligible", "right", "yes"),
        ("eligible", "off", "disabled"),
        ("weighted", "right", "chosen"),
    ]


@pytest.mark.parametrize(
    ("when", "path"),
    [
        ({"message.payload.size": 3}, "message.payload.size"),
        ({"==": [{"var": "message.payload_ref"}, "x"]}, "message.payload_ref"),
        ({"api_key": "sk-1"}, "api_key"),
        ({"context.user.email": "a@b.c"}, "context.user.email"),
        ({"context.user.token.scope": "a"}, "context.user.token.scope"),
        ({"in": ["a", {"var": "metadata.secret"}]}, "metadata.secret"),
    ],
)
def test_a_rule_that_looks_at_what_is_not_recorded_is_a_doubt(
    when: Mapping[str, object], path: str
) -> None:
    policy = a_policy_that_asks_for(when)
    request = a_request(api_key="sk-1", user={"email": "a@b.c", "token": {"scope": "a"}})
    case = record_decision(policy, replace(request, metadata={"secret": "s"}))
    assert (
        reevaluate(policy, case).uncertainty
        == f"fallbacks[0].when looks at {path}, which is not recorded"
    )


@pytest.mark.parametrize(
    "when",
    [
        {"tier": "gold"},
        {"message.message_type": "chat"},
        {"constraints.max_cost": 1},
        {"nothing": 1},
        {},
    ],
)
def test_a_rule_that_looks_at_what_is_recorded_is_none(when: Mapping[str, object]) -> None:
    policy = a_policy_that_asks_for(when)
    assert (
        reevaluate(
            policy, record_decision(policy, a_request(tier="gold", api_key="sk-1"))
        ).uncertainty
        is None
    )


def test_a_rule_that_was_not_asked_is_no_doubt() -> None:
    policy = a_policy(*HALVES, fallbacks=[{"when": {"api_key": "sk-1"}, "to": "left"}])
    assert (
        reevaluate(policy, record_decision(policy, a_request(api_key="sk-1"))).uncertainty is None
    )


def test_a_session_whose_key_is_masked_is_a_doubt_when_it_was_drawn_and_none_when_it_was_remembered() -> (
    None
):
    policy = a_policy(*HALVES, sticky={"enabled": True, "session_key": "email"})
    request = a_request(email="a@b.c")
    assert (
        reevaluate(policy, record_decision(policy, request)).uncertainty
        == "the session is drawn by context.email, which is not recorded"
    )
    assert (
        reevaluate(policy, record_decision(policy, request, remembered="left")).uncertainty is None
    )


def test_a_request_that_was_cut_is_a_doubt() -> None:
    policy = a_policy(*HALVES)
    case = record_decision(policy, a_request(note="x" * 4000), entry_bytes=2_048)
    assert reevaluate(policy, case).uncertainty == "the request was too large to be recorded whole"
