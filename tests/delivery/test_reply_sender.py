"""Where an answer may go, and what the listener makes of what passes by."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from msgspec.structs import replace

from router.config import DECIDE
from router.core.message import Message, Reply
from router.delivery.replies.identical import IdenticalRequests, WaitingInbox
from router.delivery.replies.reply_sender import (
    IDENTICAL,
    MAX_ADDRESS_BYTES,
    ReplyRules,
    ReplySender,
)
from router.delivery.settings import ReplyConfig
from tests.support.delivery import FakeConnection, a_delivery
from tests.support.waiting import until

INBOX = "_INBOX.abc.1"
KEY = 7
YES = Reply(b"yes")
ARROWS = [
    "$JS.API.STREAM.PURGE.ROUTER_DLQ",
    "$KV.ROUTER_ATTEMPTS.a",
    "beamline.router.v1.decide",
    "_INBOX",
    "x._INBOX.a",
    "_inbox.a",
]
NO_LITERALS = [
    "_INBOX.>",
    "_INBOX.*",
    "_INBOX.a.*.b",
    "_INBOX.",
    "_INBOX..a",
    "_INBOX.a b",
    "_INBOX.a\r\nPUB x 0",
    "_R_.a\t",
]


@pytest.fixture
async def connection() -> FakeConnection:
    return FakeConnection()


@pytest.fixture
async def answers(connection: FakeConnection) -> ReplySender:
    """Answers with a listener that hears everything."""
    answers = an_answers(connection)
    answers.start_listening_from(0)
    return answers


def an_answers(
    connection: FakeConnection, read_in_flight: Callable[[], list[Message]] = list, **rules: object
) -> ReplySender:
    conflict: Callable[[str, bytes], bytes] = lambda msg_id, _: f"conflict {msg_id}".encode()  # noqa: E731
    refusal = lambda name, *_: f"refused {name}".encode()  # noqa: E731
    told = ReplyConfig(inbox_wait_ms=10, **rules)  # type: ignore[arg-type]
    ports: dict[str, Any] = {
        "conflict": conflict,
        "refusal": refusal,
        "read_in_flight": read_in_flight,
    }
    return ReplySender(connection, ReplyRules(reply=told, requests=DECIDE.stream), **ports)  # type: ignore[arg-type]


def asking(**headers: str) -> Message:
    return replace(
        a_delivery(), headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def sent(connection: FakeConnection) -> list[tuple[str, bytes]]:
    return [(post.subject, post.data) for post in connection.posts if post.subject != IDENTICAL]


# -- the answer's half -----------------------------------------------------------------------------


async def test_without_a_listener_an_answer_goes_to_the_reply_subject_with_its_headers(
    connection: FakeConnection,
) -> None:
    an_answers(connection).send(a_delivery(), YES)
    assert sent(connection) == [("work.reply", b"yes")]
    assert connection.posts[0].head == b"NATS/1.0\r\nversion: 1\r\n\r\n"


async def test_what_is_for_the_requester_alone_goes_to_an_inbox_and_to_no_other_subject(
    connection: FakeConnection,
) -> None:
    secret = Reply(b"secret", public=b"ask with an inbox")
    an_answers(connection).send(a_delivery(), secret)
    an_answers(connection).send(asking(Reply_To="$JS.API.STREAM.PURGE.X"), secret)
    an_answers(connection).send(asking(Reply_To=INBOX), secret)
    assert sent(connection) == [
        ("work.reply", b"ask with an inbox"),
        ("work.reply", b"ask with an inbox"),
        (INBOX, b"secret"),
    ]


async def test_the_reply_subject_may_be_another_one(connection: FakeConnection) -> None:
    an_answers(connection, subject="gateway.replies").send(a_delivery(), YES)
    assert sent(connection) == [("gateway.replies", b"yes")]


@pytest.mark.parametrize("inbox", [INBOX, "_R_.gateway.7"])
async def test_a_request_may_name_its_inbox(
    connection: FakeConnection, answers: ReplySender, inbox: str
) -> None:
    answers.send(asking(Reply_To=inbox), YES)
    assert (sent(connection), answers.refused) == ([(inbox, b"yes")], 0)


@pytest.mark.parametrize("address", ARROWS + NO_LITERALS)
async def test_an_address_outside_the_prefixes_or_no_literal_is_counted_and_never_written_to(
    connection: FakeConnection, address: str
) -> None:
    answers = an_answers(connection)
    answers.send(asking(Reply_To=address), YES)
    assert (sent(connection), answers.refused) == ([("work.reply", b"yes")], 1)


async def test_an_address_of_many_letters_is_not_kept(
    connection: FakeConnection, answers: ReplySender
) -> None:
    """The listener keeps 200 000 addresses; each may have as many letters as the server allows,
    which is 4096.
    """
    longest = "_INBOX." + "a" * (MAX_ADDRESS_BYTES - len("_INBOX."))
    for inbox in (longest, longest + "a", "_INBOX." + "\U0001f600" * 124):
        answers.on_request("work", inbox, inbox.encode(), None)
    assert (answers._correlator.pending, answers.refused) == (1, 2)


def test_what_instances_tell_one_another_of_the_longest_inboxes_fits_into_a_message_and_is_read() -> (
    None
):
    """Lines of the longest were not read, so each of their requests was answered twice; and 2 000
    of them were above max_payload.
    """
    told: list[str] = []
    here, there = (
        IdenticalRequests(lambda lines: told.append("\n".join(lines))),
        IdenticalRequests(lambda _: None),
    )
    for one in (here, there):
        one.shift = 2**62
        one.note(KEY, b"same")
    for number in range(1, 1500):
        longest = f"_INBOX.{number:{MAX_ADDRESS_BYTES - 7}}"
        here.tell_replied(crc32(b"same"), WaitingInbox(longest, 0.0, KEY, number), 0.0)
    here.announce(1.0)
    assert max(map(len, told)) < 128 * 1024
    assert [
        read[1] for text in told for line in text.split("\n") if (read := there.read(line))
    ] == list(range(1, 1500))


async def test_the_inbox_of_a_message_in_flight_is_kept_as_long_as_that(
    connection: FakeConnection,
) -> None:
    message = a_delivery()
    in_flight = [message]
    answers = an_answers(connection, lambda: in_flight)
    answers.start_listening_from(0)
    answers.on_request("work", INBOX, message.data, None)
    for _ in range(3):
        answers._correlator._start_generation(answers._now())
    answers.send(message, YES)
    assert sent(connection) == [(INBOX, b"yes")]


async def test_what_comes_again_is_answered_again_at_the_inbox_that_it_names(
    connection: FakeConnection, answers: ReplySender
) -> None:
    """Also while passing copies are answered: its ack was lost, and perhaps its answer with it, on
    their way to a server that died.
    """
    answers.sent.switch(True)
    for deliveries in (1, 2):
        answers.send(replace(asking(Reply_To=INBOX), deliveries=deliveries), YES)
    assert sent(connection).count((INBOX, b"yes")) == 2


async def test_what_comes_again_is_answered_at_the_inbox_that_was_heard_though_another_instance_has(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.sent.switch(True)
    answers.on_request("work", INBOX, b"", {"Nats-Msg-Id": "1"})
    answers.sent.on_answered(f"another\n{crc32(b'')} {INBOX}".encode())
    answers.send(replace(asking(Nats_Msg_Id="1"), deliveries=2), YES)
    assert sent(connection).count((INBOX, b"yes")) == 1


async def test_prefixes_are_a_setting(connection: FakeConnection) -> None:
    answers = an_answers(connection, prefixes=("answers.",))
    answers.send(asking(Reply_To=INBOX), YES)
    answers.send(asking(Reply_To="answers.1"), YES)
    assert sent(connection) == [("work.reply", b"yes"), ("answers.1", b"yes")]


async def test_an_answer_reaches_the_inbox_that_was_heard(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.on_request("work", INBOX, b"", None)
    answers.send(a_delivery(), YES)
    assert sent(connection) == [(INBOX, b"yes")]


async def test_an_answer_waits_for_its_inbox_and_then_goes_to_the_reply_subject(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.send(a_delivery(), YES)
    assert sent(connection) == []
    await until(lambda: answers.tick() or sent(connection))
    assert sent(connection) == [("work.reply", b"yes")]


@pytest.mark.parametrize("message", [a_delivery(5), a_delivery(6, deliveries=2)])
async def test_no_inbox_is_expected_for_what_is_older_than_the_listener_or_delivered_again(
    connection: FakeConnection, answers: ReplySender, message: Message
) -> None:
    answers.start_listening_from(5)
    answers.send(message, YES)
    assert sent(connection) == [("work.reply", b"yes")]


@pytest.mark.parametrize(
    ("seconds", "answered_at_once"),
    [
        # the stream drops the repeated id, so its answer is kept for a repetition
        (0.0, [("work.reply", b"yes"), (INBOX, b"yes")]),
        (1.0, [("work.reply", b"yes")]),  # the stream takes it again: its own copy is answered
    ],
)
async def test_a_request_older_than_the_listener_is_kept_only_while_the_stream_drops_its_id(
    connection: FakeConnection, seconds: float, answered_at_once: list[tuple[str, bytes]]
) -> None:
    answers = an_answers(connection)
    answers._now = lambda: now
    now = 100.0
    answers.start_listening_from(5)
    now += seconds
    named = {"Nats-Msg-Id": "m-1"}
    answers.send(replace(a_delivery(5), headers=named), YES)
    answers.on_request("work", INBOX, b"", named)
    assert sent(connection) == answered_at_once
    answers.send(replace(a_delivery(6), headers=named), YES)
    assert (INBOX, b"yes") in sent(connection)


async def test_an_inbox_that_was_heard_gets_the_answer_of_an_older_request_with_its_id(
    connection: FakeConnection,
) -> None:
    answers = an_answers(connection)
    answers._now = lambda: now
    now = 100.0
    answers.start_listening_from(5)
    now += 1
    named = {"Nats-Msg-Id": "m-1"}
    answers.on_request("work", INBOX, b"", named)
    answers.send(replace(a_delivery(5), headers=named), YES)
    assert sent(connection) == [(INBOX, b"yes")]


# -- the listener's half ---------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [None, {"x": "y"}])
@pytest.mark.parametrize("address", ARROWS)
async def test_an_inbox_outside_the_prefixes_is_counted_and_not_remembered(
    connection: FakeConnection, answers: ReplySender, headers: dict[str, str] | None, address: str
) -> None:
    answers.on_request("work", address, b"", headers)
    answers.send(a_delivery(), YES)
    assert (sent(connection), answers.refused) == ([], 1)


@pytest.mark.parametrize("headers", [None, {"Nats-TTL": "1s"}])
async def test_who_names_no_inbox_asks_for_nothing(
    connection: FakeConnection, answers: ReplySender, headers: dict[str, str] | None
) -> None:
    answers.on_request("work", "", b"", headers)
    assert (sent(connection), answers.refused) == ([], 0)


@pytest.mark.parametrize(
    "name",
    [
        "Nats-TTL",
        "Nats-Rollup",
        "Nats-Expected-Last-Sequence",
        "Nats-Batch-Id",
        "Nats-Schedule",
        "Nats-Incr",
    ],
)
async def test_a_control_header_that_the_stream_refuses_in_silence_is_answered(
    connection: FakeConnection, answers: ReplySender, name: str
) -> None:
    answers.on_request("work", INBOX, b"", {"Nats-Msg-Id": "1", name: "x"})
    assert sent(connection) == [(INBOX, f"refused {name}".encode())]


async def test_a_refused_address_is_not_even_told_about_its_control_header(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.on_request("work", "$JS.API.STREAM.PURGE.X", b"", {"Nats-TTL": "1s"})
    assert sent(connection) == []


async def test_a_named_inbox_is_heard_too_and_answered_once(
    connection: FakeConnection, answers: ReplySender
) -> None:
    headers = {"Nats-Msg-Id": "1", "Reply-To": INBOX}
    for _ in range(2):
        answers.on_request("work", "", b"", headers)
    answers.send(replace(a_delivery(), headers=headers), YES)
    answers.on_request("work", "", b"", headers)
    assert sent(connection) == [(INBOX, b"yes")]


async def test_a_named_inbox_without_an_id_gets_no_answer_of_another_request(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.on_request("work", "", b"", {"Reply-To": INBOX})
    answers.send(asking(Reply_To=INBOX), YES)
    answers.on_request("work", "_INBOX.other", b"", None)
    answers.send(a_delivery(), YES)
    assert sent(connection) == [(INBOX, b"yes"), ("_INBOX.other", b"yes")]


async def test_the_same_id_with_other_bytes_is_told_so(
    connection: FakeConnection, answers: ReplySender
) -> None:
    answers.on_request("work", INBOX, b"", {"Nats-Msg-Id": "1"})
    answers.on_request("work", "_INBOX.other", b"else", {"Nats-Msg-Id": "1"})
    answers.send(asking(Nats_Msg_Id="1"), YES)
    assert sorted(sent(connection)) == [(INBOX, b"yes"), ("_INBOX.other", b"conflict 1")]
