"""`explain_decision` and `try_policy` over this instance's rings."""

from typing import Any

import pytest

from router.decide.decision_services import RecordedServices
from router.decide.model import DecisionRecorder
from router.operate.admin import ServiceError
from router.operate.admin.service import RequestFields
from router.policies.model import Policy
from tests.support.policy import SHUT, a_document, a_policy, a_provider, a_request
from tests.support.recorded import HALVES, a_recorder

Json = dict[str, Any]


def services(recorder: DecisionRecorder, *versions: Policy) -> RecordedServices:
    """Both services; `versions` are all that is still kept of policies."""
    kept = {(policy.tenant_id, policy.policy_id, policy.version): policy for policy in versions}

    async def find(*named: Any) -> Policy | None:
        return kept.get(named)

    return RecordedServices(recorder, find, "node-1")


async def explain(
    recorder: DecisionRecorder, *versions: Policy, tenant_id: str = "acme", request_id: str = "r-1"
) -> Json:
    return dict(
        await services(recorder, *versions).explain(
            RequestFields({"tenant_id": tenant_id, "request_id": request_id})
        )
    )


async def compare(
    recorder: DecisionRecorder, document: Json, against: int = 10, tenant_id: str = "acme"
) -> Json:
    asked = {"tenant_id": tenant_id, "policy_id": "default", "policy": document, "against": against}
    return dict(await services(recorder).compare(RequestFields(asked)))


def decided(policy: Policy, *keys: str, **known: Any) -> DecisionRecorder:
    """A recorder that has seen these requests decided."""
    recorder = a_recorder("acme", "initech")
    for key in keys:
        recorder.evaluate(policy, a_request(key, api_key="sk-1"), now=0.0, **known)
    return recorder


async def test_an_explanation_is_the_record_and_the_decision_made_again() -> None:
    policy = a_policy(*HALVES, version=3)
    told = await explain(decided(policy, "r-1", states={"left": SHUT}), policy)
    assert (told["router_node_id"], told["at_ms"]) == ("node-1", 1_700_000_000_000)
    assert told["policy"] == {"tenant_id": "acme", "policy_id": "default", "version": 3}
    assert told["states"] == {"left": {"open_for_ms": 100_000}}
    assert told["request"]["context"] == {"api_key": "***"}
    assert told["decision"] == told["reevaluation"]["decision"]
    assert told["reevaluation"]["is_same"]
    assert told["reevaluation"]["trace"][0] == {
        "stage": "eligible",
        "subject": "left",
        "verdict": "circuit_breaker_open",
    }


async def test_a_version_that_is_not_kept_any_more_is_told() -> None:
    told = await explain(decided(a_policy(*HALVES, version=3), "r-1"), a_policy(*HALVES, version=4))
    assert told["reevaluation"] == {"unavailable": "version 3 of acme/default is not kept any more"}
    assert told["decision"]["metadata"]["policy_version"] == "3"


async def test_a_refusal_is_explained_as_an_error() -> None:
    policy = a_policy(a_provider("only"))
    told = await explain(decided(policy, "r-1", states={"only": SHUT}), policy)
    assert told["error"]["code"] == told["reevaluation"]["error"]["code"] == "decision_failed"
    assert "decision" not in told


async def test_another_tenants_request_is_not_found() -> None:
    policy = a_policy(*HALVES)
    with pytest.raises(ServiceError, match="holds no record") as declined:
        await explain(decided(policy, "r-1"), policy, tenant_id="initech")
    assert declined.value.code == "decision_not_found"


async def test_of_a_tenant_that_is_not_recorded_the_setting_is_named() -> None:
    with pytest.raises(ServiceError, match=r"recorder\.tenants"):
        await explain(decided(a_policy(*HALVES), "r-1"), tenant_id="hooli")


async def test_a_candidate_is_compared_with_the_newest_of_its_own_policy() -> None:
    told = await compare(
        decided(a_policy(a_provider("left")), "r-1", "r-2", "r-3"),
        a_document(a_provider("right")),
        against=2,
    )
    assert told["is_recorded"]
    assert [one["request_id"] for one in told["compared"]] == ["r-3", "r-2"]
    assert told["compared"][0]["verdict"] == "changed"
    assert told["compared"][0]["before"] == {"provider": "left", "reason": "weighted"}
    assert told["compared"][0]["after"] == {"provider": "right", "reason": "weighted"}


async def test_another_tenants_records_are_never_compared() -> None:
    told = await compare(
        decided(a_policy(*HALVES), "r-1"), a_document(*HALVES), tenant_id="initech"
    )
    assert told["compared"] == []


async def test_a_candidate_that_is_no_policy_is_declined_with_every_path() -> None:
    document = a_document(a_provider("left", 500), tricky=True)
    with pytest.raises(ServiceError) as declined:
        await compare(decided(a_policy(*HALVES), "r-1"), document)
    assert declined.value.code == "invalid_request"
    assert {error["path"] for error in (declined.value.details or {})["errors"]} == {
        "providers[0].weight",
        "tricky",
    }  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"request_id": "r-1"}, "tenant_id"),
        ({"tenant_id": "_shared", "request_id": "r-1"}, "tenant_id"),
        ({"tenant_id": "acme"}, "request_id"),
        ({"tenant_id": "acme", "request_id": "two words"}, "request_id"),
    ],
)
async def test_a_wrong_question_is_declined_with_its_field(asked: Json, field: str) -> None:
    with pytest.raises(ServiceError) as declined:
        await services(a_recorder()).explain(RequestFields(asked))
    assert (declined.value.code, declined.value.details) == ("invalid_request", {"field": field})


@pytest.mark.parametrize("against", [None, 0, 1001, "10", 1.5, True])
async def test_a_comparison_is_with_1_to_1000_requests(against: object) -> None:
    asked = {
        "tenant_id": "acme",
        "policy_id": "default",
        "policy": a_document(),
        "against": against,
    }
    with pytest.raises(ServiceError) as declined:
        await services(a_recorder()).compare(RequestFields(asked))
    assert (declined.value.code, declined.value.details) == (
        "invalid_request",
        {"field": "against"},
    )
