"""What becomes of a worker's acknowledgement."""

from collections.abc import Awaitable

import pytest

from router.core.message import Message
from router.core.outcome import Dead, Done, Outcome, Retry
from router.work.model import AcknowledgementHandler
from router.work.model.acknowledgements import RecentAcknowledgements
from tests.support.requests import a_message
from tests.support.workers import (
    ASSIGNED,
    FakeKnownAssignments,
    RecordedAcks,
    a_protobuf_ack,
    an_ack,
    an_assignment,
)


def handled(
    message: Message,
    known: FakeKnownAssignments | None = None,
    heard: RecordedAcks | None = None,
    **rules: object,
) -> Outcome:
    outcome = a_handler(known, heard, **rules)(message)
    assert not isinstance(outcome, Awaitable)
    return outcome


def a_handler(
    known: FakeKnownAssignments | None = None, heard: RecordedAcks | None = None, **rules: object
) -> AcknowledgementHandler:
    heard = heard or RecordedAcks()
    return AcknowledgementHandler(
        known or FakeKnownAssignments(an_assignment()), heard, heard, heard, **rules
    )


@pytest.mark.parametrize("status", ["accepted", "error"])
def test_an_ack_is_counted_and_seen_on_its_assignment(status: str) -> None:
    heard = RecordedAcks()
    assert handled(a_protobuf_ack(status=status), heard=heard) == Done()
    assert heard.told == [("counted", status), ("state", status, True)]


def test_a_rejection_is_alerted() -> None:
    heard = RecordedAcks()
    handled(an_ack(status="rejected", message="full"), heard=heard)
    facts = {
        "assignment_id": ASSIGNED,
        "tenant_id": "acme",
        "provider_id": "openai",
        "reason": "full",
    }
    assert heard.told[-1] == ("alert", "warning", "assignment_rejected", facts)


def test_the_same_acknowledgement_again_is_not_counted_or_alerted_again() -> None:
    """A worker chooses its time, its words and its id freely: only the assignment and the status
    say whether it is the same.
    """
    heard = RecordedAcks()
    handler = a_handler(heard=heard)
    for message in ("full", "still full"):
        assert (
            handler(an_ack(status="rejected", message=message, acknowledged_at=len(message)))
            == Done()
        )
    assert heard.words() == ["counted", "state", "alert", "state"]
    assert handler(an_ack(status="accepted")) == Done()
    assert heard.words()[4:] == ["counted", "state"]


def test_unknown_assignments_do_not_push_known_ones_out_of_what_is_remembered() -> None:
    recent = RecentAcknowledgements(limit=64)
    assert not recent.is_repeated("known", "rejected", owner="acme")
    for number in range(200):
        assert not recent.is_repeated(f"invented-{number}", "rejected", owner="")
    assert recent.is_repeated("known", "rejected", owner="acme")


async def test_an_unknown_assignment_is_accepted_and_counted() -> None:
    heard = RecordedAcks()
    assert await a_handler(FakeKnownAssignments(), heard)(an_ack()) == Done()
    assert heard.words() == ["uncorrelated", "counted", "state"]


async def test_an_assignment_that_is_not_at_hand_is_awaited() -> None:
    heard = RecordedAcks()
    outcome = a_handler(FakeKnownAssignments(in_bucket=an_assignment()), heard)(an_ack())
    assert isinstance(outcome, Awaitable)
    assert await outcome == Done()
    assert heard.told[-1] == ("state", "accepted", True)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tenant_id": "evil"}, "TENANT_FORBIDDEN"),
        ({"request_id": "r-2"}, "CORRELATION_FIELDS_INVALID"),
    ],
)
def test_an_ack_that_contradicts_its_assignment_is_dead(
    fields: dict[str, object], code: str
) -> None:
    heard = RecordedAcks()
    outcome = handled(an_ack(**fields), heard=heard)
    assert isinstance(outcome, Dead)
    assert (outcome.fault.code, heard.told) == (code, [])


def test_a_tenant_that_is_not_served_is_sent_away_and_may_come_again() -> None:
    for message in (an_ack(tenant_id="acme"), an_ack()):
        outcome = handled(message, tenants_allowed=frozenset({"other"}))
        assert isinstance(outcome, Retry)
        assert (outcome.fault.code, outcome.uses_attempt) == ("tenant_forbidden", True)


def test_what_cannot_be_read_is_dead_and_violations_are_counted() -> None:
    heard = RecordedAcks()
    assert isinstance(handled(a_message(b"junk", {"trace_id": ""}), heard=heard), Dead)
    assert heard.words() == ["violated"]
