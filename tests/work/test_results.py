"""What becomes of a worker's result."""

from collections.abc import Awaitable

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.result import read_result
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, identity
from router.core.errors import BrokerUnavailable
from router.core.message import Effect, Message
from router.core.outcome import Dead, Done, Outcome, PublishAck, Retry
from router.work.model import MeteredEvent, ReportMark, ResultRules, ResultsHandler, make_bill
from router.work.model.result_memory import FirstResults
from tests.support.requests import a_message
from tests.support.workers import FakeKnownAssignments, RecordedOutcomes, a_result, an_assignment

STORED_NS = a_result().stored_ns
EVENT = make_bill(read_result(a_result()).found, an_assignment(), 1.0, 1_700_000_000_123)  # type: ignore[arg-type]


def handled(
    message: Message,
    known: FakeKnownAssignments | None = None,
    heard: RecordedOutcomes | None = None,
    **given: object,
) -> Outcome:
    outcome = a_handler(known, heard, **given)(message)  # type: ignore[arg-type]
    assert not isinstance(outcome, Awaitable)
    return outcome


async def looked_up(
    message: Message, known: FakeKnownAssignments, heard: RecordedOutcomes | None = None
) -> Outcome:
    outcome = a_handler(known, heard)(message)
    assert isinstance(outcome, Awaitable)
    return await outcome


class FakeMetered:
    """What stands in the usage stream."""

    def __init__(self, *events: UsageEvent) -> None:
        self.events = {identity(event): MeteredEvent(event, STORED_NS) for event in events}
        self.asked = 0

    async def find(self, publish_ack: PublishAck) -> MeteredEvent | None:
        self.asked += 1
        return self.events.get(publish_ack.id)


class FakeMarks:
    """The same mark for each assignment."""

    def __init__(self, mark: ReportMark | None = None) -> None:
        self.mark = mark

    def find(self, known: Assignment) -> ReportMark | None:
        return self.mark


def a_handler(
    known: FakeKnownAssignments | None = None,
    heard: RecordedOutcomes | None = None,
    metered: FakeMetered | None = None,
    marks: FakeMarks | None = None,
    **rules: object,
) -> ResultsHandler:
    heard = heard or RecordedOutcomes()
    return ResultsHandler(
        known or FakeKnownAssignments(an_assignment()),
        heard,
        FirstResults(heard, lambda *_: None),
        metered or FakeMetered(),
        marks or FakeMarks(),
        rules=ResultRules(**rules),
        on_finished=lambda _: None,
    )


@pytest.mark.parametrize(
    "again",
    [{}, {"sequence": 8}, {"sequence": 8, "status": "error"}],
    ids=["redelivered", "repeated", "another"],
)
async def test_the_mark_of_a_report_is_stored_before_its_event_also_where_it_comes_again(
    again: dict[str, object],
) -> None:
    """Its process may have died before either, and a second message of it is acked by itself."""
    mark = ReportMark(Effect("kv.a-1.reported", b"reported", "reported:a-1"), goes_first=True)
    handler = a_handler(marks=FakeMarks(mark))
    for outcome in (handler(a_result()), handler(a_result(**again))):
        assert isinstance(outcome, Done)
        assert outcome.effects == (mark.effect,)
        after = await followed(outcome, is_duplicate=False)
        assert after is not None
        assert [event.subject for event in after.effects] == [USAGE_SUBJECT]


async def test_after_the_mark_what_follows_from_the_event_is_stored_too() -> None:
    """A later outcome corrects the first as it does without a mark."""
    mark = ReportMark(Effect("kv.a-1.reported", b"reported", "reported:a-1"), goes_first=True)
    metered = FakeMetered(replace(EVENT, status="timeout", cost=0.0))
    after = await followed(
        a_handler(metered=metered, marks=FakeMarks(mark))(a_result()), is_duplicate=False
    )
    assert after is not None
    correction = await followed(after, is_duplicate=True)
    assert stored(correction)["adjustment"] == "outcome"


def test_a_note_is_stored_beside_the_event() -> None:
    note = ReportMark(Effect("kv.acme.echo.unmarked", b"1", "unmarked:1"), lambda _: None)
    outcome = handled(a_result(), marks=FakeMarks(note))
    assert isinstance(outcome, Done)
    event, noted = outcome.effects
    assert (event.subject, noted, outcome.commit) == (USAGE_SUBJECT, note.effect, note.commit)


async def awaited(outcome: Outcome | Awaitable[Outcome]) -> Outcome:
    return await outcome if isinstance(outcome, Awaitable) else outcome


async def followed(outcome: Outcome, *, is_duplicate: bool) -> Done | None:
    """What is stored after the publish ack of the outcome's effect."""
    assert isinstance(outcome, Done), outcome
    if outcome.then is None:
        return None
    following = outcome.then([PublishAck(outcome.effects[0].id, "ROUTER_USAGE", 1, is_duplicate)])
    return await following if isinstance(following, Awaitable) else following


def stored(outcome: Outcome) -> dict[str, object]:
    assert isinstance(outcome, Done), outcome
    (effect,) = outcome.effects
    return orjson.loads(effect.data)


def test_a_result_of_a_known_assignment_is_metered_at_once() -> None:
    heard = RecordedOutcomes()
    assert stored(handled(a_result(), heard=heard))["provider_id"] == "openai"
    assert heard.told == [
        ("outcome", "success"),
        ("figures", "acme", "openai", 812, 0.0123, "success", "1001", None, 0.01),
    ]


async def test_an_unknown_assignment_is_marked_and_counted() -> None:
    heard = RecordedOutcomes()
    assert stored(await looked_up(a_result(), FakeKnownAssignments(), heard))["correlated"] is False
    assert "correlated" not in stored(handled(a_result()))
    assert heard.words() == ["uncorrelated", "outcome"]


async def test_an_unknown_assignment_is_refused_when_it_comes_again_if_the_rules_say_so() -> None:
    handler, again = (
        a_handler(FakeKnownAssignments(), uncorrelated="refuse"),
        msgspec.structs.replace(a_result(), deliveries=2, attempts=2),
    )
    first, second = await awaited(handler(a_result())), await awaited(handler(again))
    assert isinstance(first, Retry)
    assert isinstance(second, Dead)
    assert second.fault.code == "CORRELATION_FIELDS_INVALID"


def test_another_provider_than_the_assignments_is_counted_and_not_believed() -> None:
    heard = RecordedOutcomes()
    event = stored(handled(a_result(provider_id="anthropic", job={"type": "other"}), heard=heard))
    assert (event["provider_id"], event["told_provider_id"], event["event_type"]) == (
        "openai",
        "anthropic",
        "chat",
    )
    assert heard.told[1:3] == [("overruled", "provider_id"), ("overruled", "job_type")]
    assert heard.told[-1][:3] == ("figures", "acme", "openai")


async def test_figures_hear_of_a_held_cost_at_its_bound() -> None:
    heard = RecordedOutcomes()
    outcome = handled(a_result(cost=1e9), heard=heard)
    assert heard.told[-1][4] == stored(outcome)["cost"] == 1.0
    done = await followed(outcome, is_duplicate=False)
    assert done is not None
    assert done.effects[0].subject == "beamline.usage.v1.held.acme"
    assert heard.words()[-1] == "held"


async def test_nothing_follows_the_first_outcome() -> None:
    metered = FakeMetered()
    for status in ("success", "timeout"):
        assert (
            await followed(a_handler(metered=metered)(a_result(status=status)), is_duplicate=False)
            is None
        )
    assert (
        await followed(a_handler(metered=metered)(a_result(status="timeout")), is_duplicate=True)
        is None
    )
    assert metered.asked == 0


async def test_a_later_outcome_is_compared_with_the_stored_one_on_whichever_instance() -> None:
    heard, first = RecordedOutcomes(), replace(EVENT, status="timeout", cost=0.0)
    outcome = a_handler(heard=heard, metered=FakeMetered(first))(a_result())
    done = await followed(outcome, is_duplicate=True)
    assert done is not None
    assert stored(done)["cost"] == 0.0123
    assert await followed(done, is_duplicate=False) is None
    assert heard.words()[-1] == "corrected"


async def test_a_held_correction_has_its_notice_once_it_is_the_one_that_is_stored() -> None:
    first = replace(EVENT, status="timeout", cost=0.0)
    metered = FakeMetered(first)
    correction = await followed(a_handler(metered=metered)(a_result(cost=1e9)), is_duplicate=True)
    assert correction is not None
    notice = await followed(correction, is_duplicate=False)
    assert notice is not None
    assert stored(notice)["told_cost"] == 1e9
    of = correction.effects[0].id
    metered.events[of] = MeteredEvent(replace(EVENT, event_id=of, adjustment="outcome"), STORED_NS)
    assert await followed(correction, is_duplicate=True) is None  # another outcome came first


async def test_a_notice_that_a_killed_process_left_out_is_stored_when_the_result_comes_again() -> (
    None
):
    held = replace(EVENT, cost=1.0, told_cost=1e9)
    done = await followed(
        a_handler(metered=FakeMetered(held))(a_result(cost=1e9)), is_duplicate=True
    )
    assert done is not None
    assert stored(done)["told_cost"] == 1e9


async def test_a_bill_that_has_gone_is_not_corrected() -> None:
    assert await followed(a_handler()(a_result()), is_duplicate=True) is None


async def test_a_repeated_result_asks_for_nothing() -> None:
    metered = FakeMetered(EVENT)
    handler = a_handler(metered=metered)
    handler(a_result())
    assert await followed(handler(a_result(sequence=8)), is_duplicate=True) is None
    assert metered.asked == 0


def test_one_assignment_teaches_once_under_whatever_status() -> None:
    heard = RecordedOutcomes()
    handler = a_handler(heard=heard)
    for sequence, status in enumerate(("timeout", "error", "success", "cancelled", "timeout")):
        handler(a_result(sequence=sequence, status=status))
    assert heard.words().count("figures") == 1


async def test_an_assignment_that_is_not_at_hand_is_awaited() -> None:
    outcome = await looked_up(
        a_result(provider_id=None), FakeKnownAssignments(in_bucket=an_assignment())
    )
    assert stored(outcome)["provider_id"] == "openai"


async def test_a_bucket_that_is_away_is_told_and_decides_nothing() -> None:
    with pytest.raises(BrokerUnavailable):
        await looked_up(a_result(), FakeKnownAssignments(is_away=True))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tenant_id": "evil"}, "TENANT_FORBIDDEN"),
        ({"request_id": "r-2"}, "CORRELATION_FIELDS_INVALID"),
    ],
)
def test_a_result_that_contradicts_its_assignment_is_forged(
    fields: dict[str, object], code: str
) -> None:
    heard = RecordedOutcomes()
    outcome = handled(a_result(**fields), heard=heard)
    assert isinstance(outcome, Dead)
    assert (outcome.fault.code, outcome.reason, heard.words()) == (
        code,
        "validation_failed",
        ["forged"],
    )


def test_the_headers_tenant_is_compared_not_the_payloads() -> None:
    headers = {"tenant_id": "evil", "Nats-Msg-Id": "n"}
    assert isinstance(handled(a_result(headers)), Dead)


def test_what_one_side_leaves_out_is_no_contradiction() -> None:
    assert stored(handled(a_result(request_id=None, tenant_id=None)))["tenant_id"] == "acme"


def test_a_result_with_only_a_request_id_finds_the_assignment_of_that_request() -> None:
    assert (
        stored(handled(a_result(assignment_id=None, provider_id=None)))["provider_id"] == "openai"
    )


def test_a_wrong_guess_is_an_unknown_assignment_and_no_forgery() -> None:
    heard = RecordedOutcomes()
    other = an_assignment(assignment_id=assignment_id_of("acme", "key"), request_id="r-9")
    assert stored(
        handled(a_result(assignment_id=None, request_id="key"), FakeKnownAssignments(other), heard)
    )
    assert heard.words()[0] == "uncorrelated"


async def test_what_no_side_says_is_dead() -> None:
    dead = await looked_up(
        a_result(assignment_id="elsewhere", provider_id=None),
        FakeKnownAssignments(in_bucket=an_assignment()),
    )
    assert isinstance(dead, Dead)
    assert (dead.fault.field, dead.reason) == ("provider_id", "validation_failed")


@pytest.mark.parametrize("data", [b"junk", b"{}", b"\x0a\xff"])
def test_what_cannot_be_read_is_dead(data: bytes) -> None:
    assert isinstance(handled(a_message(data)), Dead)


def test_a_tenant_that_is_not_served_is_sent_away_and_may_come_again() -> None:
    for tenant in ("acme", None):  # its own word, or its assignment's
        outcome = handled(a_result(tenant_id=tenant), tenants_allowed=frozenset({"other"}))
        assert isinstance(outcome, Retry)
        assert (outcome.fault.code, outcome.uses_attempt, outcome.delay) == (
            "tenant_forbidden",
            True,
            None,
        )
    assert stored(handled(a_result(), tenants_allowed=frozenset({"acme"})))


def test_violations_are_counted_and_the_result_is_metered() -> None:
    heard = RecordedOutcomes()
    assert stored(handled(a_result({"trace_id": ""}), heard=heard))
    assert heard.told[0] == ("violated", ("trace_id", "empty"), ("Nats-Msg-Id", "missing"))


def test_usage_that_is_switched_off_stores_nothing_but_feeds_the_figures() -> None:
    heard = RecordedOutcomes()
    assert handled(a_result(), heard=heard, usage_subject=None) == Done()
    assert "figures" in heard.words()


def test_a_duplicate_is_counted_and_stored_under_the_same_identity() -> None:
    heard = RecordedOutcomes()
    handler = a_handler(heard=heard)
    first, again = handler(a_result()), handler(a_result(sequence=8, timestamp=1_700_000_000_999))
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.effects[0].id == again.effects[0].id
    assert heard.words() == ["outcome", "figures", "duplicate"]


def test_other_content_under_the_same_identity_is_a_conflict() -> None:
    heard = RecordedOutcomes()
    handler = a_handler(heard=heard)
    for sequence, cost in ((7, 1.0), (8, 2.0), (9, 1.0)):
        handler(a_result(sequence=sequence, cost=cost))
    assert heard.words() == ["outcome", "figures", "conflict", "duplicate"]


def test_the_same_message_delivered_again_is_nothing_new() -> None:
    heard = RecordedOutcomes()
    handler = a_handler(heard=heard)
    handler(a_result())
    assert stored(handler(a_result()))
    assert heard.words() == ["outcome", "figures"]
