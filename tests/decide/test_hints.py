"""A name that looks like a known one gets a hint; a place is told in the form in which the request
was sent.
"""

from typing import Any

import orjson
import pytest

from router.contracts.decision import Decision
from router.core.outcome import Fault
from router.decide.model.handler import reply_to
from router.decide.model.hints import hints_of
from router.decide.model.read import read
from tests.support.requests import a_body, a_message

TASK = {"type": "chat", "payload": 1}


@pytest.mark.parametrize(
    ("data", "field", "text"),
    [
        (
            {"tenant_id": "acme", "task": {"payload": 1}},
            "task.type",
            "Missing required field: task.type",
        ),
        (
            {"tenant_id": "acme", "task": {"type": "chat"}},
            "task.payload",
            "Missing required field: task.payload",
        ),
        (
            {"tenant_id": "acme", "task": {"type": "chat", "payload_ref": ""}},
            "task.payload_ref",
            None,
        ),
        ({"task": TASK}, "tenant_id", "Missing required field: tenant_id"),
        ({"task": TASK, "tenant_id": 5}, "tenant_id", None),
        ({"task": {**TASK, "type": 5}, "tenant_id": "acme"}, "task.type", None),
        ({"task": TASK, "tenant_id": "acme", "run_id": "r"}, "flow_id", None),
        (
            {"tenant_id": "acme", "payload": 1},
            "message_type",
            "Missing required field: message_type",
        ),
        ({"message_type": "chat", "payload": 1}, "tenant_id", "Missing required field: tenant_id"),
        (
            {"message_type": "chat", "payload": 1, "tenant_id": "acme", "trace_id": "a b"},
            "trace_id",
            None,
        ),
        ({**a_body(), "tenant_id": "a/b"}, "tenant_id", None),
        ({**a_body(), "trace_id": "a b"}, "trace_id", None),
        (a_body(request_id="a b"), "message.request_id", None),
        (a_body(tenant_id=None), "message.tenant_id", "Missing required field: tenant_id"),
        ({"message": {"tenant_id": "acme", "payload": 1}, "task": {"type": 5}}, "task.type", None),
    ],
)
def test_a_place_is_told_in_the_form_that_was_sent(
    data: dict[str, Any], field: str, text: str | None
) -> None:
    fault = read(a_message(data)).asked
    assert isinstance(fault, Fault)
    assert fault.field == field
    assert text in (None, fault.message)


@pytest.mark.parametrize(
    ("data", "hints"),
    [
        ({"polcy_id": "gold"}, {"polcy_id": "policy_id"}),
        (
            {"policyId": "gold", "Tenant-Id": "x"},
            {"policyId": "policy_id", "Tenant-Id": "tenant_id"},
        ),
        ({"polciy_id": "gold", "contxt": {}}, {"polciy_id": "policy_id", "contxt": "context"}),
        ({"message": {"mesage_type": "chat"}}, {"message.mesage_type": "message.message_type"}),
        ({"task": {"paylod": 1}}, {"task.paylod": "task.payload"}),
        ({"policy_id": "gold", "polcy_id": "gold"}, {}),
        ({"surprise": 1, "user": 2, "tape": 3, "x" * 65: 4}, {}),
    ],
)
def test_a_name_that_looks_like_a_known_one_gets_a_hint(
    data: dict[str, Any], hints: dict[str, str]
) -> None:
    inner, task = data.get("message", data), data.get("task", {})
    assert hints_of(data, inner, task) == hints


def test_there_are_few_hints_however_many_names_there_are() -> None:
    body = {f"{'polcy_id'}{'-' * n}": 1 for n in range(50)}
    assert len(hints_of(body, body, {})) == 4


def test_an_ordinary_request_has_no_hints() -> None:
    request = read(
        a_message(orjson.dumps({**a_body(), "idempotency_key": "k", "policy_id": "gold"}))
    ).asked
    assert not isinstance(request, Fault)
    assert request.hints == {}


def test_a_decision_warns_of_a_name_that_looks_like_a_known_one() -> None:
    request = read(a_message({**a_body(), "polcy_id": "gold"})).asked
    assert not isinstance(request, Fault)
    decided = Decision("openai", "weighted", 50, 1.0, 1.0)
    (warning,) = orjson.loads(reply_to(request, decided).data)["warnings"]
    assert warning["details"] == {"field": "polcy_id", "did_you_mean": "policy_id"}


@pytest.mark.parametrize(
    ("names", "hints"),
    [
        (["rn_id"], {"rn_id": "run_id"}),
        (["tpe"], {}),  # of a short name one letter says too little
        (["polcy_id".rjust(64, "_")], {"polcy_id".rjust(64, "_"): "policy_id"}),
        (["polcy_id".rjust(65, "_")], {}),
        ([*map(str, range(63)), "polcy_id"], {"polcy_id": "policy_id"}),
        ([*map(str, range(64)), "polcy_id"], {}),
    ],
    ids=["long", "short", "letters", "too many letters", "names", "too many names"],
)
def test_a_name_is_looked_at_within_bounds(names: list[str], hints: dict[str, str]) -> None:
    assert hints_of(dict.fromkeys(names), {}, {}) == hints


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("provider", "providers"),
        ("excludedProviders", "excluded_providers"),
        ("exclude_providers", "excluded_providers"),
        ("max_latency", None),
        ("maxCost", "max_cost"),
        ("region", None),
    ],
)
def test_a_constraint_that_looks_like_one_is_told(written: str, meant: str | None) -> None:
    asked = read(a_message({**a_body(), "constraints": {written: ["a"]}})).asked
    hints = {} if meant is None else {f"constraints.{written}": f"constraints.{meant}"}
    assert asked.hints == hints  # type: ignore[union-attr]
