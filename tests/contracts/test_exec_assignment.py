"""An assignment: its defaults, its bounds, and its ids, whose fast look agrees with the rule."""

import json
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts import exec_assignment
from router.core.errors import Poison
from router.core.ids import MAX_TYPE

IDS = st.sampled_from(("a-1", "x" * 128, "x" * 129, "two words", "é", ""))
NAMES = st.sampled_from(("chat", "", "x" * MAX_TYPE, "x" * (MAX_TYPE + 1)))


WORK = {
    "assignment_id": "a-1",
    "request_id": "r-1",
    "tenant_id": "acme",
    "executor": {"provider_id": "openai"},
    "job": {"type": "chat"},
}


def test_an_assignment_that_says_nothing_else_has_a_minute_and_two_attempts() -> None:
    for options in ({}, {"options": None}, {"options": {"retry": None}}):
        work = exec_assignment.read_exec_assignment(json.dumps({**WORK, **options}).encode())
        assert (work.deadline_ms, work.max_attempts, work.backoff_ms) == (60_000, 2, 200)
        assert (work.priority, work.payload, work.metadata) == (0, None, {})


@pytest.mark.parametrize(
    ("options", "is_legal"),
    [
        ({"deadline_ms": 1, "retry": {"max_attempts": 1, "backoff_ms": 0}}, True),
        ({"deadline_ms": 0}, False),
        ({"retry": {"max_attempts": 100}}, True),
        ({"retry": {"max_attempts": 101}}, False),
        ({"retry": {"max_attempts": 0}}, False),
        ({"retry": {"backoff_ms": -1}}, False),
    ],
)
def test_its_bounds_hold(options: dict[str, object], *, is_legal: bool) -> None:
    data = json.dumps({**WORK, "options": options}).encode()
    with nullcontext() if is_legal else pytest.raises(Poison):
        exec_assignment.read_exec_assignment(data)


def refusal(check: object, data: bytes) -> str | None:
    try:
        check(exec_assignment._decode(data))  # type: ignore[operator]
    except Poison as exc:
        return str(exc)
    return None


@given(
    ids=st.tuples(IDS, IDS, IDS),
    rare=st.dictionaries(st.sampled_from(("trace_id", "run_id", "flow_id", "step_id")), IDS),
    names=st.tuples(NAMES, NAMES),
)
def test_an_id_is_refused_at_a_glance_as_by_the_rule(
    ids: tuple[str, str, str], rare: dict[str, str], names: tuple[str, str]
) -> None:
    body = {
        **dict(zip(("assignment_id", "request_id", "tenant_id"), ids, strict=True)),
        **rare,
        "executor": {"provider_id": names[0]},
        "job": {"type": names[1]},
    }
    data = json.dumps(body).encode()
    rule = refusal(exec_assignment._check_each_id, data)
    assert refusal(exec_assignment._check_ids, data) == rule
