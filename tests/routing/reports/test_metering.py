"""From results to usage events."""

import pytest

from router.contracts.result import ExecResult, read_result
from router.contracts.usage import UsageEvent, identity
from router.core.message import Message
from router.core.outcome import Fault
from router.routing.reports import make_usage_effect, make_usage_event
from tests.support.workers import a_result, an_assignment, in_every_form


def result_of(message: Message) -> ExecResult:
    found = read_result(message).found
    assert isinstance(found, ExecResult), found
    return found


def event_of(message: Message, **known: object) -> UsageEvent:
    event = make_usage_event(result_of(message), an_assignment(**known) if known else None)
    assert isinstance(event, UsageEvent), event
    return event


@pytest.mark.parametrize("fields", [{}, {"status": "error", "cost": 0.0, "latency_ms": 0}, {"cost": 1e-9, "timestamp": 0}])
def test_every_form_of_one_result_gives_the_same_bytes(fields: dict[str, object]) -> None:
    effects = [make_usage_effect(event_of(message)) for message in in_every_form(**fields).values()]
    assert len({(effect.data, effect.id) for effect in effects}) == 1


@pytest.mark.parametrize("status", ["success", "error", "timeout", "cancelled"])
def test_every_outcome_is_metered_whatever_its_status(status: str) -> None:
    assert event_of(a_result(status=status)).status == status


def test_the_effect_is_stored_under_its_identity_and_without_headers() -> None:
    event = event_of(a_result())
    effect = make_usage_effect(event)
    assert (effect.subject, effect.id, dict(effect.headers)) == ("beamline.usage.v1.metered", identity(event), {})


def test_the_assignment_fills_what_the_result_left_out() -> None:
    event = event_of(a_result(provider_id=None, job=None, tenant_id=None, trace_id=None), job_type="embed")
    assert (event.provider_id, event.event_type, event.tenant_id, event.trace_id) == ("openai", "embed", "acme", "t-1")


def test_the_result_holds_against_what_was_expected() -> None:
    assert event_of(a_result(provider_id="fallback"), provider_id="openai").provider_id == "fallback"


def test_the_identity_is_the_same_whether_the_assignment_is_known_or_not() -> None:
    by_request = a_result(assignment_id=None)
    assert identity(event_of(by_request)) == identity(event_of(by_request, provider_id="openai"))
    assert event_of(by_request, provider_id="openai").assignment_id is None


@pytest.mark.parametrize(("left_out", "named"), [("provider_id", "provider_id"), ("job", "job.type"), ("tenant_id", "tenant_id")])
def test_what_neither_side_says_is_named(left_out: str, named: str) -> None:
    fault = make_usage_event(result_of(a_result(**{left_out: None})), None)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.field) == ("SCHEMA_VALIDATION_FAILED", named)
