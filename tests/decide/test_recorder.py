"""The rings of recorded decisions: what goes in, what stays out, what comes back."""

import pytest

from router.contracts.decision import Decision, RouteRequest
from router.contracts.raw_json import RawJson
from router.core.masking import MASK
from router.decide.model.recorder import DecisionRecorder
from router.policies.model import ProviderState, evaluate, reevaluate
from tests.support.policy import SHUT, a_policy, a_provider, a_request
from tests.support.recorded import HALVES, a_recorder, record_decision

SECRETS = {
    "api_key": "sk-1",
    "user": {"Email": "a@b.c", "tier": "gold"},
    "notes": [{"x-auth-token": "t-1"}],
}


def test_a_recorded_tenant_gets_the_engines_own_answer() -> None:
    policy, request = a_policy(*HALVES), a_request()
    assert a_recorder().evaluate(policy, request, now=0.0) is evaluate(policy, request, now=0.0)


def test_nothing_is_kept_of_a_tenant_that_is_not_recorded() -> None:
    recorder = a_recorder("initech")
    recorder.evaluate(a_policy(*HALVES), a_request(), now=0.0)
    assert recorder.find("acme", request_id="r-1") is None
    assert not recorder.is_recorded("acme")


def test_a_recorder_of_no_tenant_is_off() -> None:
    assert not DecisionRecorder().is_on


def test_payloads_are_not_kept_and_masked_keys_are_hidden() -> None:
    request = RouteRequest(
        tenant_id="acme",
        message_type="chat",
        payload=RawJson.encode({"text": "my secret"}),
        payload_ref="https://store/x?signature=1",
        request_key="r-1",
        answer_id="r-1",
        context=SECRETS,
        metadata=SECRETS,
        constraints={"token": "t-2", "max_cost": 1},
    )
    kept = record_decision(request=request).request
    assert (kept.payload, kept.payload_ref) == (None, None)
    hidden = {
        "api_key": MASK,
        "user": {"Email": MASK, "tier": "gold"},
        "notes": [{"x-auth-token": MASK}],
    }
    assert (kept.context, kept.metadata) == (hidden, hidden)
    assert kept.constraints == {"token": MASK, "max_cost": 1}


def test_a_request_is_left_as_it_was() -> None:
    request = a_request(api_key="sk-1")
    record_decision(request=request)
    assert (request.context, request.payload) == (
        {"api_key": "sk-1"},
        RawJson.encode({"text": "hi"}),
    )


def test_the_version_the_states_and_the_session_are_kept() -> None:
    policy = a_policy(*HALVES, version=7, sticky={"enabled": True, "session_key": "user_id"})
    states = {"left": SHUT, "right": ProviderState(latency_ms=12.5), "unknown": SHUT}
    case = record_decision(
        policy, a_request(user_id="u-1"), states=states, remembered="right", now=3.0
    )
    assert (case.policy_tenant_id, case.policy_id, case.policy_version) == ("acme", "default", 7)
    assert (case.states, case.now) == ({"left": SHUT, "right": ProviderState(latency_ms=12.5)}, 3.0)
    assert (case.session_key, case.remembered) == ("user_id", "right")
    assert isinstance(case.answer, Decision)
    assert (case.answer.provider_id, case.answer.reason, case.at_ms) == (
        "right",
        "sticky",
        1_700_000_000_000,
    )


class Fickle:
    """A breaker that opens between two looks at it."""

    def __init__(self) -> None:
        self.looks = 0

    def get(self, _: str) -> ProviderState | None:
        self.looks += 1
        return ProviderState() if self.looks == 1 else SHUT


def test_the_states_that_are_kept_are_those_that_the_decision_saw() -> None:
    policy, states = a_policy(a_provider("only")), Fickle()
    recorder = a_recorder()
    answer = recorder.evaluate(policy, a_request(), states=states, now=0.0)
    case = recorder.find("acme", request_id="r-1")
    assert case is not None
    assert reevaluate(policy, case).answer == answer


def test_a_refusal_is_recorded_like_a_decision() -> None:
    policy = a_policy(a_provider("only"))
    case = record_decision(policy, states={"only": SHUT})
    assert case.answer == evaluate(policy, a_request(), states={"only": SHUT}, now=0.0)


def test_the_oldest_of_a_tenant_goes_first_and_no_other_tenants() -> None:
    recorder = a_recorder("acme", "initech", entries=2)
    policy = a_policy(*HALVES, tenant="_shared")
    recorder.evaluate(policy, a_request("r-0", "initech"), now=0.0)
    for key in ("r-1", "r-2", "r-3"):
        recorder.evaluate(policy, a_request(key), now=0.0)
    assert recorder.find("acme", request_id="r-1") is None
    assert recorder.find("acme", request_id="r-2") is not None
    assert recorder.find("initech", request_id="r-0") is not None


def test_a_request_of_another_tenant_is_not_found() -> None:
    recorder = a_recorder("acme", "initech")
    recorder.evaluate(a_policy(*HALVES), a_request("r-1"), now=0.0)
    assert recorder.find("initech", request_id="r-1") is None
    assert list(recorder.list_latest("initech", "default", 10)) == []


def test_both_ids_must_agree_and_the_newest_record_wins() -> None:
    recorder = a_recorder()
    for version in (1, 2):
        recorder.evaluate(a_policy(*HALVES, version=version), a_request("r-1"), now=0.0)
    case = recorder.find("acme", request_id="r-1")
    assert case is not None
    assert case.policy_version == 2
    assert recorder.find("acme", request_id="r-1", message_id="m-1") is None


def test_the_latest_are_those_of_the_policys_name_newest_first() -> None:
    recorder = a_recorder()
    for key, policy_id in (
        ("r-1", "default"),
        ("r-2", "other"),
        ("r-3", "default"),
        ("r-4", "default"),
    ):
        recorder.evaluate(a_policy(*HALVES, policy_id=policy_id), a_request(key), now=0.0)
    assert [case.request.answer_id for case in recorder.list_latest("acme", "default", 2)] == [
        "r-4",
        "r-3",
    ]


def test_for_the_shared_policy_the_latest_are_all_tenants_that_it_answered() -> None:
    recorder = a_recorder("acme", "initech")
    shared = a_policy(*HALVES, tenant="_shared")
    recorder.evaluate(shared, a_request("r-1", "acme"), now=0.0)
    recorder.evaluate(shared, a_request("r-2", "initech"), now=0.0)
    recorder.evaluate(a_policy(*HALVES), a_request("r-3", "acme"), now=0.0)
    assert {case.request.answer_id for case in recorder.list_latest("_shared", "default", 10)} == {
        "r-1",
        "r-2",
    }


@pytest.mark.parametrize(
    "value", ["x" * 4000, b"bytes", {1: {"a": object()}}], ids=["large", "bytes", "strange"]
)
def test_a_context_that_is_too_large_or_strange_is_left_out_and_its_decision_stands(
    value: object,
) -> None:
    case = record_decision(request=a_request(note=value), entry_bytes=2_048)
    assert case.is_cut == (value != b"bytes")
    assert isinstance(case.answer, Decision)
    assert len(str(case.request.context)) < 100
