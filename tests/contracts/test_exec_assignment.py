"""The ids of an assignment: the fast look at them agrees with the rule."""

import json

from hypothesis import given
from hypothesis import strategies as st

from router.contracts import exec_assignment
from router.core.errors import Poison
from router.core.ids import MAX_TYPE

IDS = st.sampled_from(("a-1", "x" * 128, "x" * 129, "two words", "é", ""))
NAMES = st.sampled_from(("chat", "", "x" * MAX_TYPE, "x" * (MAX_TYPE + 1)))


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
