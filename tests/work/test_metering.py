"""From results to usage events."""

import pytest

from router.contracts.result import ExecResult, read_result
from router.contracts.usage import UsageEvent, assignment_identity, identity
from router.core.message import Message
from router.core.outcome import Fault
from router.work.model import CostBound, make_bill, make_marked_event, make_usage_effect
from router.work.model.metering import CLOCK_SKEW_MS, bound_time
from router.work.settings import ResultsConfig
from tests.support.workers import ASSIGNED, REQUESTED_MS, a_result, an_assignment, in_every_form


def result_of(message: Message) -> ExecResult:
    found = read_result(message).found
    assert isinstance(found, ExecResult), found
    return found


def event_of(message: Message) -> UsageEvent:
    """Of an unknown assignment."""
    event = make_marked_event(result_of(message))
    assert isinstance(event, UsageEvent), event
    return event


def bill_of(message: Message, bound: float = 1.0, **known: object) -> UsageEvent:
    return make_bill(result_of(message), an_assignment(**known), bound, message.stored_ms)


@pytest.mark.parametrize(
    "fields",
    [{}, {"status": "error", "cost": 0.0, "latency_ms": 0}, {"cost": 1e-9, "timestamp": 0}],
)
def test_every_form_of_one_result_gives_the_same_bytes(fields: dict[str, object]) -> None:
    for make in (event_of, bill_of):
        effects = [make_usage_effect(make(message)) for message in in_every_form(**fields).values()]
        assert len({(effect.data, effect.id) for effect in effects}) == 1


@pytest.mark.parametrize("status", ["success", "error", "timeout", "cancelled"])
def test_every_outcome_is_metered_whatever_its_status(status: str) -> None:
    assert (
        event_of(a_result(status=status)).status
        == bill_of(a_result(status=status)).status
        == status
    )


def test_the_effect_is_stored_under_its_identity_and_without_headers() -> None:
    event = event_of(a_result())
    effect = make_usage_effect(event)
    assert (effect.subject, effect.id, dict(effect.headers)) == (
        "beamline.usage.v1.metered",
        identity(event),
        {},
    )


def test_a_bill_is_the_assignments_whatever_the_result_names() -> None:
    told = a_result(
        provider_id="cheap", job={"type": "free"}, tenant_id=None, trace_id=None, assignment_id=None
    )
    event = bill_of(told, job_type="embed")
    assert (event.provider_id, event.event_type, event.tenant_id, event.trace_id) == (
        "openai",
        "embed",
        "acme",
        "t-1",
    )
    assert (event.assignment_id, event.request_id, event.told_provider_id) == (
        ASSIGNED,
        "r-1",
        "cheap",
    )


def test_a_bill_has_one_identity_whatever_the_outcome_and_whichever_id_names_it() -> None:
    told = [
        a_result(status=status, **left_out)
        for status in ("success", "timeout")
        for left_out in ({}, {"assignment_id": None})
    ]
    assert {identity(bill_of(message)) for message in told} == {
        assignment_identity("acme", ASSIGNED)
    }


def test_what_the_result_says_as_the_assignment_does_is_not_repeated() -> None:
    event = bill_of(a_result())
    assert (event.told_provider_id, event.told_cost, event.is_correlated) == (None, None, True)
    assert bill_of(a_result(provider_id=None)).told_provider_id is None


@pytest.mark.parametrize(
    ("told", "stored", "booked"),
    [
        (5_000, 9_000, 5_000),
        (-CLOCK_SKEW_MS, 9_000, -CLOCK_SKEW_MS),
        (-CLOCK_SKEW_MS - 1, 9_000, 9_000),
        (9_000 + CLOCK_SKEW_MS, 9_000, 9_000 + CLOCK_SKEW_MS),
        (9_001 + CLOCK_SKEW_MS, 9_000, 9_000),
        (-CLOCK_SKEW_MS - 1, -50_000, 0),  # a sender says of its own message that it is a replay
    ],
)
def test_work_is_done_between_its_request_and_its_result(
    told: int, stored: int, booked: int
) -> None:
    assert (
        bound_time(REQUESTED_MS + told, REQUESTED_MS, REQUESTED_MS + stored)
        == REQUESTED_MS + booked
    )


def test_an_unknown_assignments_event_is_marked_and_names_no_identity_of_its_own() -> None:
    event = event_of(a_result())
    assert (event.is_correlated, event.event_id) == (False, None)
    assert identity(event) != identity(bill_of(a_result()))


@pytest.mark.parametrize(
    ("told", "bound", "cost", "held"),
    [(0.5, 0.5, 0.5, None), (0.5, 0.4, 0.4, 0.5), (0.0, 0.0, 0.0, None), (1e9, 2.0, 2.0, 1e9)],
)
def test_a_cost_above_the_bound_is_booked_at_it_and_kept_beside(
    told: float, bound: float, cost: float, held: float | None
) -> None:
    event = bill_of(a_result(cost=told), bound)
    assert (event.cost, event.told_cost) == (cost, held)


# None: 0.01, by its decision
@pytest.mark.parametrize(("listed", "bound"), [(0.02, 2.0), (0.0, 0.01), (1e-6, 0.01), (None, 1.0)])
def test_the_bound_follows_from_what_the_policy_expects(listed: float | None, bound: float) -> None:
    expected = an_assignment(listed_cost=listed).expected_cost
    assert CostBound(ResultsConfig()).find_of(expected) == pytest.approx(bound)


@pytest.mark.parametrize(
    ("left_out", "named"),
    [("provider_id", "provider_id"), ("job", "job.type"), ("tenant_id", "tenant_id")],
)
def test_what_an_unknown_assignments_result_lacks_is_named(left_out: str, named: str) -> None:
    fault = make_marked_event(result_of(a_result(**{left_out: None})))
    assert isinstance(fault, Fault)
    assert (fault.code, fault.field) == ("SCHEMA_VALIDATION_FAILED", named)
