"""What a fault cost, from requests, usage events and elections at given moments."""

import math

import pytest

from tests.rigs.faults.cluster.elections import Election
from tests.rigs.faults.cluster.recovery import Cost, Observed, measure
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.job import HEALTHY
from tests.rigs.faults.ledger import Ledger, Row
from tests.rigs.faults.load import SINGLE, Asked, Heard

KILLED = Happened("leader killed", 10.0, 20.0)
NO_QUORUM = Happened("no quorum", 110.0, 130.0)


def a_request(
    name: str, sent_at: float, answered_at: float | None, *, kind: str = HEALTHY, times: int = 1
) -> Asked:
    answers = [] if answered_at is None else [Heard(answered_at, True, "", "openai by p 1", True)]
    return Asked(name, kind, "acme", b"", sent_at, sent_at, times, answers)


def observed(
    requests: list[Asked],
    *,
    metered_after_s: float = 0.1,
    elected_at: tuple[float, ...] = (),
    lost: tuple[str, ...] = (),
) -> list[Cost]:
    """What two faults cost; every request that is answered is metered so long after its answer."""
    metered_at = {
        one.assignment_id: one.answers[0].at + metered_after_s for one in requests if one.answers
    }
    ledger = Ledger((Row("metered", 0, 0, lost, (), ()),), (), {}, 0)
    elections = [Election("ROUTER_DECIDE", at) for at in elected_at]
    asked = {one.name: one for one in requests}
    stored = frozenset({"stored"})
    return measure(
        Observed(
            [KILLED, NO_QUORUM],
            asked,
            stored,
            metered_at,
            elections,
            ledger,
            frozenset({"no quorum"}),
        )
    )


def test_a_request_counts_with_the_fault_that_had_begun_last() -> None:
    killed, no_quorum = observed(
        [a_request("a", 9.5, 9.6), a_request("b", 108.0, 108.1), a_request("c", 109.5, 109.6)],
        lost=("b",),
    )
    assert (killed.sent, no_quorum.sent) == (2, 1)
    assert (killed.lost, no_quorum.lost) == (1, 0)


def test_all_is_well_again_when_the_last_late_answer_is_there() -> None:
    killed, _ = observed([a_request("a", 11.0, 11.1), a_request("b", 12.0, 13.5)])
    assert killed.answers_well_s == pytest.approx(3.5)
    assert killed.gap_answers_s == pytest.approx(2.4)


def test_a_client_that_waits_for_its_own_next_try_does_not_count() -> None:
    """A request that was lost without a leader was asked again after two seconds; the next new one
    was answered at once.
    """
    killed, _ = observed([a_request("a", 12.0, 14.1, times=2), a_request("b", 12.1, 12.2)])
    assert killed.answers_well_s == pytest.approx(2.0)


def test_a_late_usage_event_counts_from_the_answer() -> None:
    killed, _ = observed([a_request("a", 12.0, 12.1)], metered_after_s=3.0)
    assert killed.answers_well_s == 0.0
    assert killed.usage_well_s == pytest.approx(5.1)


def test_what_begins_after_the_end_of_a_fault_counts_from_the_end() -> None:
    killed, no_quorum = observed([a_request("a", 21.0, 23.0), a_request("b", 129.0, 131.5)])
    assert killed.answers_well_s == 0.0
    assert killed.mended_s == pytest.approx(3.0)
    assert no_quorum.answers_well_s == no_quorum.mended_s == pytest.approx(1.5)


def test_what_is_under_way_when_the_next_fault_comes_is_held_up_by_that_one() -> None:
    killed, no_quorum = observed([a_request("a", 108.5, 131.0), a_request("b", 106.0, 107.5)])
    assert (killed.sent, no_quorum.sent) == (2, 0)
    assert killed.mended_s == pytest.approx(87.5)
    assert no_quorum.mended_s == pytest.approx(1.0)


def test_what_is_never_answered_is_stuck_and_never_well() -> None:
    """The last one was sent long after the fault."""
    sent = [
        a_request("a", 12.0, None, times=9),
        a_request("b", 12.0, 51.0, times=9),
        a_request("c", 70.0, 70.1),
    ]
    killed, _ = observed(sent)
    assert killed.stuck == 2
    assert killed.answers_well_s is None


def test_single_requests_without_an_answer_are_told_by_whether_the_stream_stored_them() -> None:
    singles = [a_request(name, 12.0, None, kind=SINGLE) for name in ("stored", "unstored")]
    killed, _ = observed([*singles, a_request("answered", 12.0, 13.9, kind=SINGLE)])
    assert (killed.unanswered, killed.unstored, killed.stuck) == (1, 1, 0)


def test_an_election_counts_from_where_the_recovery_counts() -> None:
    killed, no_quorum = observed([], elected_at=(14.0, 15.0, 21.0, 112.0, 131.0))
    assert (killed.election_s, no_quorum.election_s) == (5.0, 1.0)
    assert (killed.elected_after_s, no_quorum.elected_after_s) == (1.0, 1.0)
    assert (observed([])[0].election_s, observed([])[0].elected_after_s) == (None, None)


def test_of_the_longest_gap_it_is_told_what_came_after_the_last_new_leader_in_it() -> None:
    asked = [a_request("a", 11.0, 11.1), a_request("b", 14.9, 15.5), a_request("c", 15.4, 16.0)]
    assert observed(asked, elected_at=(10.5, 14.0, 15.0, 15.9))[
        0
    ].gap_after_election_s == pytest.approx(0.5)
    assert observed(asked, elected_at=(10.5, 15.9))[0].gap_after_election_s is None


def test_a_cost_without_an_end_is_no_number() -> None:
    killed, _ = observed([a_request("a", 12.0, 12.1)], metered_after_s=math.inf)
    assert (killed.usage_well_s, killed.mended_s) == (None, None)
