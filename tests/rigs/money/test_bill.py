"""The rig sees what is billed too little, too much, twice, or not at all; and what a kill explains."""

import json
from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256

import pytest

from tests.rigs.money.bill import Bill, Seen, make_bills
from tests.rigs.money.events import read_events
from tests.rigs.money.ids import assignment_id_of
from tests.rigs.money.ledger import Call, End, Job, Work
from tests.rigs.money.moves import BOUND, report_of
from tests.rigs.money.prices import BY_TOKEN, FLAT, GOOD, TALKER
from tests.rigs.money.tokens import TEXTS, count_tokens, split_pieces

COST = Decimal("0.010000001")
ASSIGNMENT = {"assignment_id": "a-1", "request_id": "bad-statuses-7", "tenant_id": "bad-statuses"}


def an_event(**fields: object) -> bytes:
    whole = {
        "version": "1",
        "tenant_id": "acme",
        "provider_id": GOOD,
        "event_type": "chat",
        "latency_ms": 1,
        "status": "success",
    }
    return json.dumps({**whole, "timestamp": 1, "cost": 0.010000001, **fields}).encode()


def a_call(number: str = "c-1", name: str = "r-1", provider: str = GOOD, **fields: bool) -> Call:
    return Call(number, "acme", provider, name, fields.get("is_stream", False))


def a_bill(
    work: Work, stored: Sequence[bytes], *, failed: Sequence[str] = (), lost: Sequence[str] = ()
) -> Bill:
    events, _ = read_events(stored)
    return make_bills(["acme"], work, events, Seen(failed, lost))["acme"]


DONE = Work({"a-1": Job("acme", "a-1", COST)}, [], {})
CALLED = Work({}, [a_call()], {})
INVOKED = {"event_type": "provider.invoke", "request_id": "r-1", "cost": 0.02}


def test_one_event_of_an_assignment_is_its_bill_to_the_last_digit() -> None:
    bill = a_bill(DONE, [an_event(assignment_id="a-1")])
    assert (bill.difference, bill.missing, bill.twice, bill.events) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("more", "difference", "twice"),
    [
        ({"assignment_id": "a-1"}, 0, 0),  # the same identity again
        ({"assignment_id": "a-1", "status": "error"}, COST, 1),
        ({"request_id": "r-1"}, COST, 1),
        # marked: no money of the bill
        ({"request_id": "made-up", "correlated": False, "cost": 1e9}, 0, 0),
        (
            {"assignment_id": "a-1", "event_id": "usage:1", "adjustment": "outcome", "cost": -0.01},
            Decimal("-0.01"),
            0,
        ),
        ({"request_id": "x", "event_id": "usage:2", "adjustment": "budget", "cost": 5.0}, 0, 0),
    ],
)
def test_a_second_event_is_seen_unless_it_is_no_bill(
    more: dict[str, object], difference: Decimal, twice: int
) -> None:
    bill = a_bill(DONE, [an_event(assignment_id="a-1"), an_event(**more)])
    assert (bill.difference, bill.twice) == (difference, twice)


def test_a_call_without_an_event_is_missing() -> None:
    bill = a_bill(CALLED, [])
    assert (bill.difference, bill.missing) == (-FLAT.per_request, 1)


def test_an_attempt_that_was_recorded_and_not_made_is_apart_only_where_its_client_saw_it_fail() -> (
    None
):
    ended, recorded = (
        {"event_id": "usage:1", "estimated": True},
        {"event_id": "usage:2", "estimated": True, "status": "timeout"},
    )
    stored = [an_event(**INVOKED, **ended), an_event(**INVOKED, **recorded)]
    seen, unseen = a_bill(CALLED, stored, failed=["r-1"]), a_bill(CALLED, stored)
    assert (seen.surplus, seen.difference, seen.twice) == (FLAT.per_request, 0, 0)
    assert (unseen.surplus, unseen.difference, unseen.twice) == (0, FLAT.per_request, 1)


@pytest.mark.parametrize(
    ("calls", "events", "missing", "twice"),
    [(0, 1, 0, 0), (1, 1, 0, 0), (1, 2, 0, 0), (3, 3, 0, 0), (3, 2, 1, 0), (1, 3, 0, 1)],
)
def test_an_assignment_may_cover_one_call_under_its_id(
    calls: int, events: int, missing: int, twice: int
) -> None:
    work = Work(
        {"a-1": Job("acme", "a-1", FLAT.per_request)},
        [a_call(str(number), "a-1") for number in range(calls)],
        {},
    )
    stored = [
        an_event(request_id="a-1", event_id=f"usage:{number}", cost=0.02)
        for number in range(events)
    ]
    bill = a_bill(work, stored)
    assert (bill.missing, bill.twice, bill.covered) == (
        missing,
        twice,
        FLAT.per_request if calls else 0,
    )
    assert bill.difference == (events - max(1, calls)) * FLAT.per_request


def test_a_stream_that_a_kill_cut_is_left_out_of_both_sides_and_must_cost_something() -> None:
    work = Work(
        {}, [a_call(provider=TALKER, is_stream=True)], {"c-1": End("c-1", 10, 0, 20, 1, False)}
    )
    cost, free = (
        an_event(**{**INVOKED, "cost": cost}, event_id="usage:1", estimated=True)
        for cost in (0.001, 0.0)
    )
    billed, for_nothing = a_bill(work, [cost], lost=["r-1"]), a_bill(work, [free], lost=["r-1"])
    assert (billed.lost, billed.difference, billed.missing, billed.booked) == (
        1,
        0,
        0,
        Decimal("0.001"),
    )
    assert for_nothing.missing == 1


def test_what_is_recorded_of_a_lost_stream_and_was_never_called_is_left_out_too() -> None:
    work = Work({}, [a_call(provider=TALKER, is_stream=True)], {})
    stored = [
        an_event(**INVOKED, event_id=f"usage:{number}", estimated=True, status="timeout")
        for number in range(2)
    ]
    bill = a_bill(work, stored, failed=["r-1"], lost=["r-1"])
    assert (bill.difference, bill.surplus, bill.twice, bill.booked) == (
        0,
        0,
        0,
        2 * FLAT.per_request,
    )


@pytest.mark.parametrize(("status", "lost"), [("timeout", 1), ("cancelled", 0)])
def test_a_stream_that_its_reader_left_is_left_out_where_no_router_saw_its_end(
    status: str, lost: int
) -> None:
    work = Work(
        {}, [a_call(provider=TALKER, is_stream=True)], {"c-1": End("c-1", 10, 0, 20, 1, False)}
    )
    events, _ = read_events(
        [an_event(**{**INVOKED, "status": status}, event_id="usage:1", estimated=True)]
    )
    assert make_bills(["acme"], work, events, Seen(["r-1"], [], ["r-1"]))["acme"].lost == lost


def test_an_estimate_may_be_off_by_a_piece_and_five_percent() -> None:
    work = Work(
        {}, [a_call(provider=TALKER, is_stream=True)], {"c-1": End("c-1", 100, 0, 200, 3, False)}
    )
    bill = a_bill(
        work, [an_event(**{**INVOKED, "cost": 0.135}, event_id="usage:1", estimated=True)]
    )
    assert bill.owed == BY_TOKEN.cost(100, 0, 200) == Decimal("0.135")
    assert bill.slack == Decimal("0.0018") + Decimal("0.00675")


def test_the_old_identity_is_that_of_the_reference() -> None:
    """docs/reference/contracts.md#usage-identity."""
    (event,), again = read_events([an_event(assignment_id="a-1", tenant_id="ümlaut")] * 2)
    assert (
        event.event_id == "usage:" + sha256('["ümlaut","a-1","success"]'.encode()).hexdigest()[:32]
    )
    assert again == 1


def test_a_worker_writes_down_what_is_owed_whatever_it_tells() -> None:
    statuses, billions = (
        report_of(ASSIGNMENT),
        report_of({**ASSIGNMENT, "tenant_id": "bad-billions", "request_id": "bad-billions-1"}),
    )
    assert len(statuses.told) == 8
    assert {told["cost"] for told in statuses.told} == {float(statuses.owed)}
    assert (billions.owed, billions.told[0]["cost"]) == (BOUND, 1e9)


def test_a_tenant_can_compute_the_id_of_its_assignment() -> None:
    assert (
        assignment_id_of("acme", "r-1")
        == assignment_id_of("acme", "r-1")
        != assignment_id_of("other", "r-1")
    )


def test_pieces_are_counted_as_they_are_cut() -> None:
    for text in TEXTS.values():
        assert sum(piece.tokens for piece in split_pieces(text, 30, 5)) == 30
        assert count_tokens(text) > 0
