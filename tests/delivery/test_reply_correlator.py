"""docs/reference/contracts.md#matching, line by line: which inbox gets which answer, in floats of
seconds.
"""

import pytest

from router.delivery.replies.reply_correlator import (
    KEPT_S,
    MAX_IN_FLIGHT_INBOXES,
    MAX_KEPT_ANSWERS,
    CorrelatorRules,
    ReplyCorrelator,
    RequestIdentity,
)

WINDOW = 0.1
SPAN = 0.22  # the duplicate window and 120 ms


class Meeting:
    """A rendezvous, and who was told what; `strays` went to the reply subject."""

    def __init__(self, **rules: float) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.strays: list[bytes] = []
        self.in_flight: list[RequestIdentity] = []
        self.copy_age = 60.0  # seconds since the stream stored the copy that is answered
        self.rendezvous = ReplyCorrelator(
            self._send,
            lambda *_: b"conflict",
            rules=CorrelatorRules(dedupe_window=WINDOW, **rules),  # type: ignore[arg-type]
            read_copy_age=lambda: self.copy_age,
            read_in_flight=lambda: self.in_flight,
        )

    def _send(self, inbox: str, data: bytes) -> None:
        self.told.append((inbox, data))

    def ask(
        self,
        inbox: str,
        at: float,
        msg_id: str | None = "id",
        data: bytes = b"x",
        tenant: str | None = "t",
    ) -> None:
        self.rendezvous.add_request(RequestIdentity(msg_id, tenant, data), inbox, at)

    def answer(
        self,
        at: float,
        msg_id: str | None = "id",
        *,
        data: bytes = b"x",
        says: bytes = b"yes",
        may_wait: bool = True,
        tenant: str | None = "t",
    ) -> None:
        self.rendezvous.reply(
            RequestIdentity(msg_id, tenant, data),
            says,
            lambda: self.strays.append(says),
            may_wait=may_wait,
            now=at,
        )

    def answer_named(
        self,
        to: str,
        at: float,
        msg_id: str | None = "id",
        data: bytes = b"x",
        says: bytes = b"yes",
    ) -> None:
        self.rendezvous.reply_to_named_inbox(RequestIdentity(msg_id, "t", data), says, to, at)

    def tick(self, *times: float) -> None:
        for at in times:
            self.rendezvous.tick(at)


@pytest.fixture
def meeting() -> Meeting:
    return Meeting()


BOTH = pytest.mark.parametrize("msg_id", ["id", None])


@BOTH
def test_an_inbox_is_kept_for_as_long_as_a_decision_may_take(msg_id: str | None) -> None:
    """A pipeline of extensions may take thirty seconds. Whenever the generations turn, the inbox is
    still there then.
    """
    for heard_at in (0.5, 20.0, 34.9):
        meeting = Meeting(keep=35.0)
        meeting.tick(0.0)
        meeting.ask("a", heard_at, msg_id)
        meeting.tick(*(heard_at + second for second in range(31)))
        meeting.answer(heard_at + 30.0, msg_id)
        assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


@BOTH
def test_the_inbox_of_a_request_in_flight_outlasts_every_flood(msg_id: str | None) -> None:
    """Other instances answer most requests that are heard: at 100 000 of them the generations
    change long before a slow decision.
    """
    meeting = Meeting(capacity=10)
    meeting.ask("slow", 1.0, msg_id)
    meeting.in_flight = [RequestIdentity(msg_id, "t", b"x")]
    for number in range(1000):
        meeting.ask(f"{number}", 1.0 + number / 100, f"id-{number}")
    meeting.answer(12.0, msg_id)
    assert (meeting.told, meeting.strays) == ([("slow", b"yes")], [])


def test_the_inbox_of_a_request_in_flight_outlasts_the_time_that_others_are_kept() -> None:
    """A policy may allow its pipeline five minutes."""
    meeting = Meeting(keep=35.0)
    meeting.tick(0.0)
    meeting.ask("slow", 1.0)
    meeting.in_flight = [RequestIdentity("id", "t", b"x")]
    meeting.tick(*map(float, range(1, 300)))
    meeting.answer(301.0)
    assert (meeting.told, meeting.strays) == ([("slow", b"yes")], [])
    meeting.in_flight = []
    meeting.tick(*map(float, range(302, 400)))
    assert meeting.rendezvous.pending == 0


def test_a_younger_inbox_of_a_request_in_flight_is_answered_with_the_older_one() -> None:
    meeting = Meeting(keep=5.0)
    meeting.tick(0.0)
    meeting.in_flight = [RequestIdentity(None, "t", b"x")]
    meeting.ask("a", 1.0, None)
    meeting.tick(5.0, 10.0)
    meeting.ask("b", 11.0, None)
    meeting.tick(15.0, 20.0)
    meeting.answer(21.0, None)
    assert meeting.told == [("a", b"yes"), ("b", b"yes")]


def test_of_many_identical_requests_in_flight_the_newest_inboxes_are_kept() -> None:
    """A tenant cannot fill the memory with one request that is asked again and again."""
    meeting = Meeting(keep=5.0)
    meeting.tick(0.0)
    meeting.in_flight = [RequestIdentity(None, "t", b"x")]
    for number in range(3 * MAX_IN_FLIGHT_INBOXES):
        meeting.ask(str(number), 1.0, None)
    meeting.tick(5.0, 10.0, 15.0)
    meeting.answer(16.0, None)
    assert [inbox for inbox, _ in meeting.told] == [
        str(n) for n in range(2 * MAX_IN_FLIGHT_INBOXES, 3 * MAX_IN_FLIGHT_INBOXES)
    ]


# -- an inbox that another instance answered -------------------------------------------------------


def test_an_older_inbox_leaves_a_new_copys_answer_to_the_inbox_that_comes(meeting: Meeting) -> None:
    """Another instance answered `a`. The repeat is stored 0.8 s later, and its copy is here before
    its own inbox is heard.
    """
    meeting.ask("a", 1.0)
    meeting.copy_age = 0.001
    meeting.answer(1.8)
    assert meeting.told == []
    meeting.ask("b", 1.81)
    meeting.tick(2.5, 5.0)
    assert (meeting.told, meeting.strays) == ([("b", b"yes")], [])


def test_older_inboxes_leave_it_too(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.ask("b", 1.8)
    meeting.copy_age = 0.001
    meeting.answer(2.6)
    meeting.ask("c", 2.61)
    meeting.tick(3.5, 5.0)
    assert (meeting.told, meeting.strays) == ([("c", b"yes")], [])


def test_an_older_inbox_is_answered_where_no_other_comes(meeting: Meeting) -> None:
    """The clocks of server and router may differ: then the copy only seems younger than the inbox,
    which is all that is heard.
    """
    meeting.ask("a", 1.0)
    meeting.copy_age = 0.001
    meeting.answer(1.8)
    meeting.tick(2.0)
    assert meeting.told == []
    meeting.tick(2.06)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


def test_a_copy_that_waited_as_long_as_its_inbox_is_answered_at_once(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.copy_age = 9.0
    meeting.answer(10.0)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


def test_a_redelivered_copy_waits_for_no_other_inbox(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.copy_age = 0.001
    meeting.answer(1.8, may_wait=False)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


# -- both orders -----------------------------------------------------------------------------------


@BOTH
def test_an_inbox_heard_first_is_answered_with_the_decision(
    meeting: Meeting, msg_id: str | None
) -> None:
    meeting.ask("a", 1.0, msg_id)
    meeting.answer(1.1, msg_id)
    meeting.tick(1.5, 5.0)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


@BOTH
def test_an_answer_waits_for_its_inbox(meeting: Meeting, msg_id: str | None) -> None:
    meeting.answer(1.0, msg_id)
    meeting.tick(1.2)
    meeting.ask("a", 1.24, msg_id)
    meeting.tick(1.5, 5.0)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


@BOTH
def test_an_answer_waits_250_ms_and_no_longer(meeting: Meeting, msg_id: str | None) -> None:
    meeting.answer(1.0, msg_id)
    meeting.tick(1.249)
    assert meeting.strays == []
    meeting.tick(1.25, 1.3)
    assert (meeting.told, meeting.strays) == ([], [b"yes"])


@BOTH
def test_an_answer_that_can_expect_no_inbox_does_not_wait(
    meeting: Meeting, msg_id: str | None
) -> None:
    meeting.answer(1.0, msg_id, may_wait=False)
    assert meeting.strays == [b"yes"]


@pytest.mark.parametrize("other", [{"data": b"z"}, {"tenant": "u"}])
def test_without_an_id_other_bytes_and_another_tenant_are_another_question(
    meeting: Meeting, other: dict[str, bytes]
) -> None:
    meeting.ask("a", 1.0, None)
    meeting.answer(1.1, None, **other)  # type: ignore[arg-type]
    assert meeting.told == []


# -- with an id ------------------------------------------------------------------------------------


def test_every_inbox_of_the_id_within_the_span_gets_the_answer(meeting: Meeting) -> None:
    for inbox, at in (("a", 1.0), ("b", 1.1), ("c", 1.21)):
        meeting.ask(inbox, at)
    meeting.answer(1.3)
    assert sorted(meeting.told) == [("a", b"yes"), ("b", b"yes"), ("c", b"yes")]


def test_an_inbox_older_than_the_span_before_the_newest_is_dropped(meeting: Meeting) -> None:
    meeting.ask("old", 1.0)
    meeting.ask("new", 1.0 + SPAN + 0.01)
    meeting.answer(1.3)
    meeting.answer(1.4)
    assert meeting.told == [("new", b"yes")]


def test_a_further_inbox_within_the_span_is_answered_from_memory(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.answer(1.0)
    meeting.ask("b", 1.0 + SPAN - 0.001)
    assert meeting.told == [("a", b"yes"), ("b", b"yes")]


def test_a_retry_after_the_span_waits_for_its_own_stored_copy(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.answer(1.0)
    meeting.ask("b", 1.0 + SPAN + 0.001)
    assert meeting.told == [("a", b"yes")]
    meeting.answer(1.3, says=b"again")
    assert meeting.told[1:] == [("b", b"again")]


def test_the_answer_that_waited_also_serves_the_copies_that_the_stream_dropped(
    meeting: Meeting,
) -> None:
    meeting.answer(1.0)
    meeting.ask("a", 1.05)
    meeting.ask("b", 1.1)
    meeting.tick(1.5)
    assert (meeting.told, meeting.strays) == ([("a", b"yes"), ("b", b"yes")], [])


def test_the_same_id_with_other_bytes_is_told_so_from_memory(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.answer(1.0)
    meeting.ask("b", 1.1, data=b"z")
    assert meeting.told == [("a", b"yes"), ("b", b"conflict")]


def test_the_same_id_of_another_tenant_is_told_so(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.answer(1.0)
    meeting.ask("b", 1.1, tenant="other")
    assert meeting.told[1:] == [("b", b"conflict")]


def test_the_same_id_with_other_bytes_heard_before_the_answer_is_told_so(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.ask("b", 1.05, data=b"z")
    meeting.answer(1.1)
    assert sorted(meeting.told) == [("a", b"yes"), ("b", b"conflict")]


def test_the_same_id_with_other_bytes_does_not_take_the_answer_that_waits(meeting: Meeting) -> None:
    meeting.answer(1.0)
    meeting.ask("b", 1.05, data=b"z")
    meeting.ask("a", 1.1)
    assert meeting.told == [("b", b"conflict"), ("a", b"yes")]


def test_other_bytes_heard_before_the_inbox_that_the_answer_waits_for_are_told_so_too(
    meeting: Meeting,
) -> None:
    meeting.ask("b", 1.0, data=b"z")
    meeting.answer(1.05)
    meeting.ask("a", 1.1)
    assert sorted(meeting.told) == [("a", b"yes"), ("b", b"conflict")]


def test_other_bytes_whose_own_copy_is_still_to_come_are_left_to_it(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.ask("b", 1.0 + SPAN + 0.01, data=b"z")
    meeting.answer(1.3)
    assert meeting.told == [("a", b"yes")]
    meeting.answer(1.4, data=b"z", says=b"no")
    assert meeting.told[1:] == [("b", b"no")]


# -- without an id ---------------------------------------------------------------------------------


def test_without_an_id_all_inboxes_of_the_key_are_answered(meeting: Meeting) -> None:
    for inbox, at in (("a", 1.0), ("b", 3.0)):
        meeting.ask(inbox, at, None)
    meeting.answer(3.1, None)
    assert meeting.told == [("a", b"yes"), ("b", b"yes")]


def test_without_an_id_nothing_is_answered_from_memory(meeting: Meeting) -> None:
    meeting.ask("a", 1.0, None)
    meeting.answer(1.0, None)
    meeting.ask("b", 1.01, None)
    assert meeting.told == [("a", b"yes")]


@pytest.mark.parametrize("may_wait", [True, False])
def test_a_key_answered_in_the_last_two_seconds_has_no_stray(
    meeting: Meeting, may_wait: bool
) -> None:
    meeting.ask("a", 1.0, None)
    meeting.ask("b", 1.0, None)
    meeting.answer(1.1, None)
    meeting.answer(1.2, None, may_wait=may_wait)
    meeting.tick(1.5, 3.0)
    assert (sorted(meeting.told), meeting.strays) == ([("a", b"yes"), ("b", b"yes")], [])


def test_a_key_whose_answer_had_to_wait_is_as_silent(meeting: Meeting) -> None:
    meeting.answer(1.0, None)
    meeting.ask("a", 1.1, None)
    meeting.answer(1.2, None, may_wait=False)
    assert (meeting.told, meeting.strays) == ([("a", b"yes")], [])


def test_a_repeat_that_a_process_hears_late_because_it_stood_still_is_answered(
    meeting: Meeting,
) -> None:
    """The stream dropped it half a second ago. What came behind it in the socket is read after the
    next look.
    """
    meeting.tick(0.98, 1.0)
    meeting.ask("a", 1.0)
    meeting.answer(1.0)
    meeting.ask("b", 1.5)
    meeting.tick(1.51)
    meeting.ask("c", 1.52)
    assert meeting.told == [("a", b"yes"), ("b", b"yes"), ("c", b"yes")]


def test_a_repeat_long_after_a_process_stood_still_is_left_to_its_stored_copy(
    meeting: Meeting,
) -> None:
    meeting.tick(0.5, 1.0)
    meeting.ask("a", 1.1)
    meeting.answer(1.1)
    meeting.tick(*(1.0 + look / 50 for look in range(1, 50)))
    meeting.ask("b", 2.0)
    assert meeting.told == [("a", b"yes")]


def test_after_two_seconds_an_answer_belongs_to_no_inbox_again(meeting: Meeting) -> None:
    meeting.ask("a", 1.0, None)
    meeting.answer(1.1, None)
    meeting.tick(3.15)
    meeting.answer(3.2, None, may_wait=False)
    assert meeting.strays == [b"yes"]


# -- an inbox that the request names itself --------------------------------------------------------


@BOTH
def test_a_named_inbox_is_answered_whether_it_was_heard_or_not(
    meeting: Meeting, msg_id: str | None
) -> None:
    meeting.answer_named("named", 1.0, msg_id)
    assert meeting.told == [("named", b"yes")]


@pytest.mark.parametrize("heard_at", [0.9, 1.1])
def test_a_named_inbox_is_not_answered_twice_when_it_is_heard_too(
    meeting: Meeting, heard_at: float
) -> None:
    if heard_at < 1.0:
        meeting.ask("named", heard_at)
    meeting.answer_named("named", 1.0)
    if heard_at > 1.0:
        meeting.ask("named", heard_at)
    meeting.tick(1.5)
    assert (meeting.told, meeting.strays) == ([("named", b"yes")], [])


def test_others_of_the_id_are_served_with_the_named_one(meeting: Meeting) -> None:
    meeting.ask("a", 1.0)
    meeting.ask("b", 1.0, data=b"z")
    meeting.answer_named("named", 1.05)
    meeting.ask("c", 1.1)
    assert sorted(meeting.told) == [
        ("a", b"yes"),
        ("b", b"conflict"),
        ("c", b"yes"),
        ("named", b"yes"),
    ]


# -- bounds ----------------------------------------------------------------------------------------


def test_an_unclaimed_inbox_is_gone_after_twice_the_time_that_it_is_kept() -> None:
    meeting = Meeting(keep=5.0)
    meeting.ask("a", 1.0)
    meeting.tick(*(at / 2 for at in range(2, 24)))
    assert meeting.rendezvous.pending == 0


def test_when_full_the_older_generation_goes_and_no_request_is_refused() -> None:
    meeting = Meeting(capacity=10)
    for number in range(100):
        meeting.ask(f"{number}", 1.0, f"id-{number}")
        assert meeting.rendezvous.pending <= 20
    for number in range(100):
        meeting.answer(1.1, f"id-{number}")
    assert [inbox for inbox, _ in meeting.told[-10:]] == [str(number) for number in range(90, 100)]


def test_an_inbox_of_the_older_generation_is_found_with_the_younger_ones(meeting: Meeting) -> None:
    meeting.ask("a", 4.95)
    meeting.tick(5.0)
    meeting.ask("b", 5.05)
    meeting.answer(5.1)
    assert sorted(meeting.told) == [("a", b"yes"), ("b", b"yes")]


def test_what_was_answered_is_forgotten_after_the_span(meeting: Meeting) -> None:
    for number in range(50):
        meeting.answer(1.0, f"id-{number}", may_wait=False)
        meeting.answer(1.0, None, data=b"%d" % number, may_wait=False)
    meeting.tick(1.0 + SPAN + 0.01, 4.0)
    memory = meeting.rendezvous
    assert (len(memory._replied), len(memory._replied_without_id), len(memory._waiting)) == (
        0,
        0,
        0,
    )


def test_many_inboxes_of_one_question_are_bounded_too() -> None:
    meeting = Meeting(capacity=10)
    for number in range(100):
        meeting.ask(f"{number}", 1.0, None)
    meeting.answer(1.1, None)
    assert 10 <= len(meeting.told) <= 20


@BOTH
def test_an_answer_given_up_while_passing_copies_wait_is_kept_for_an_inbox_that_is_heard_late(
    meeting: Meeting, msg_id: str | None
) -> None:
    meeting.rendezvous.keeps_given_up = lambda: True
    meeting.answer(1.0, msg_id)
    meeting.tick(1.3)
    assert meeting.strays == [b"yes"]
    meeting.ask("other", 5.0, msg_id, data=b"y")
    meeting.ask("a", 5.0, msg_id)
    assert meeting.told == [("a", b"yes")]


@BOTH
def test_an_answer_that_was_given_up_is_forgotten_when_its_requester_has_gone(
    meeting: Meeting, msg_id: str | None
) -> None:
    meeting.rendezvous.keeps_given_up = lambda: True
    meeting.answer(1.0, msg_id)
    meeting.tick(1.3, 1.3 + KEPT_S)
    meeting.ask("a", 1.3 + KEPT_S, msg_id)
    assert meeting.told == []


def test_an_answer_that_was_given_up_is_for_one_request_and_what_comes_with_it() -> None:
    """A retry has its own stored copy: it may be decided where the first one was refused."""
    meeting = Meeting()
    meeting.rendezvous.keeps_given_up = lambda: True
    meeting.answer(1.0, says=b"no")
    meeting.tick(1.3)
    meeting.ask("a", 2.0)
    meeting.ask("b", 2.0 + SPAN / 2)
    meeting.tick(*(2.2 + number / 10 for number in range(28)))
    meeting.ask("retry", 5.0)
    meeting.answer(5.1)
    assert meeting.told == [("a", b"no"), ("b", b"no"), ("retry", b"yes")]


def test_alike_requests_without_an_id_get_an_answer_each_of_those_that_were_given_up() -> None:
    meeting = Meeting()
    meeting.rendezvous.keeps_given_up = lambda: True
    for at in (1.0, 1.1):
        meeting.answer(at, None)
    meeting.tick(1.5)
    for inbox in ("a", "b", "c"):
        meeting.ask(inbox, 5.0, None)
    assert meeting.told == [("a", b"yes"), ("b", b"yes")]


def test_no_other_tenant_takes_the_place_of_an_answer_that_was_given_up(meeting: Meeting) -> None:
    """Another tenant may use the same id, without an inbox; or any number of other ones."""
    meeting.rendezvous.keeps_given_up = lambda: True
    meeting.answer(1.0)
    meeting.tick(1.3)
    meeting.answer(1.6, data=b"y", tenant="u")
    for number in range(MAX_KEPT_ANSWERS + 1):
        meeting.answer(2.0, f"id-{number}", tenant="u", may_wait=False)
    meeting.tick(3.0)
    meeting.ask("a", 5.0)
    assert meeting.told == [("a", b"yes")]


def test_the_answer_to_a_request_without_an_inbox_is_not_kept(meeting: Meeting) -> None:
    meeting.rendezvous.keeps_given_up = lambda: True
    meeting.rendezvous.note(RequestIdentity("id", "t", b"x"), 1.0)
    meeting.answer(1.1)
    meeting.tick(1.5)
    meeting.ask("a", 5.0)
    assert meeting.told == []
