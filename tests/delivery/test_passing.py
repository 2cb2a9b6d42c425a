"""Passing copies over fakes: who is served, what is refused, what is left to the stored copy, and when
it begins and ends.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from time import time, time_ns
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from router.config import DECIDE
from router.core.errors import BrokerUnavailable
from router.core.message import Effect, Message, Reply
from router.core.outcome import Dead, Done, Fault, Outcome, Retry
from router.delivery.replies.listen import (
    OVERLAP_S,
    ListenedSubject,
    Listener,
    UnstoredRequests,
)
from router.delivery.replies.overload import BacklogEstimate
from router.delivery.replies.passing import MAX_WAITING_WHILE_BEHIND, PassingRequests
from router.delivery.replies.replied_requests import RepliedRequests
from router.delivery.replies.reply_sender import (
    HEARD_AT,
    INSTANCE,
    PASSING_ASKERS,
    ReplyRules,
    ReplySender,
)
from router.delivery.settings import AdmissionConfig, ConsumerConfig, ReplyConfig
from router.delivery.wire.frames import PlainFrames
from tests.support.delivery import STORED_NS, FakeConnection, FakePublisher
from tests.support.waiting import until

YES = Done(reply=Reply(b"yes"))
EFFECT = Effect("effects", b"e", "e-1")


SID = 7


def a_frame(reply: bytes, data: bytes, head: bytes | None = None) -> bytes:
    """As the server sends it."""
    inbox = reply + b" " if reply else b""
    if head is None:
        return b"MSG work %d %b%d\r\n%b\r\n" % (SID, inbox, len(data), data)
    return b"HMSG work %d %b%d %d\r\n%b%b\r\n" % (
        SID,
        inbox,
        len(head),
        len(head) + len(data),
        head,
        data,
    )


class Asker(Struct):
    tenant_id: str
    rest: str


def _describe(data: bytes) -> Asker | None:
    if data.startswith(b"?"):
        raise LookupError(data)
    return None if data.startswith(b"-") else Asker(*data.decode().partition(":")[::2])


class Askers:
    """Reads whose request it is."""

    def describe(self, data: bytes, headers: Mapping[str, str]) -> Asker | None:
        return _describe(data)

    def glance(self, data: bytes) -> Asker | None:
        return _describe(data)

    def find_place(self, tenant: str) -> str:
        return "_shared_place" if tenant.startswith("made-up") else tenant

    def is_high(self, asker: Asker) -> bool:
        return asker.rest.startswith("!")

    def refuse(self, asker: Asker, retry_after_ms: int) -> bytes:
        return f"overloaded {asker.tenant_id} {retry_after_ms}".encode()


async def _wait_for_ever() -> Outcome:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class Bench:
    """Live requests whose data is `tenant:rest`, or `tenant:!rest` of high priority; what begins
    with `-` cannot be taken live.
    """

    def __init__(
        self,
        handle: Callable[[Message], Outcome | Awaitable[Outcome]] = lambda _: YES,
        own: tuple[str, ...] = (),
        **rules: Any,
    ) -> None:
        self.connection, self.publisher, self.marks = (
            FakeConnection(),
            FakePublisher(),
            RepliedRequests(),
        )
        self.heard: list[str] = []
        self.switches: list[bool] = []
        self.told: Counter[str] = Counter()
        self.processor = SimpleNamespace(
            pending=0, taken=0, delivered=0, most_held=None, newest_sequence=0
        )
        pause_switch = SimpleNamespace(is_open=True)
        options = SimpleNamespace(handler_timeout=5.0)
        subscription = SimpleNamespace(
            handle=self._handle,
            options=options,
            subject=None,
            is_allowed=None,
            stream="S",
            durable="c",
        )
        self.consumer = SimpleNamespace(
            processor=self.processor,
            pause_switch=pause_switch,
            effect_publisher=self.publisher,
            subscription=subscription,
        )
        nothing: Any = {"conflict": lambda *_: b"", "refusal": lambda *_: b""}
        rules_of_answers = ReplyRules(reply=ReplyConfig(), requests=DECIDE.stream, own=own)
        self.answers = ReplySender(self.connection, rules_of_answers, **nothing)  # type: ignore[arg-type]
        self.answers.start_listening_from(0)
        slots = rules.pop("at_once", 2_048)
        requests = ConsumerConfig(subject="work", durable="c", deliver_group="g", slots=slots)
        self.live: PassingRequests[Asker] = PassingRequests(
            self.answers,
            lambda: self.consumer,  # type: ignore[arg-type, return-value]
            self.marks,
            Askers(),
            requests=requests,
            observer=self,
            admission=AdmissionConfig.model_construct(**{"fair_after_ms": 100, **rules}),
        )
        self._outcome = handle
        self.heard_ns = time_ns()
        # turns are of time, and a busy machine's is no measure: each request takes a millisecond
        self.live._now = lambda: len(self.heard) / 1_000

    def _handle(self, message: Message) -> Outcome | Awaitable[Outcome]:
        self.heard.append(message.data.decode())
        return self._outcome(message)

    def on_passing_copy(self, outcome: str, seconds: float) -> None:
        self.told[outcome] += 1

    def on_refused(self, tenant: str, count: int) -> None:
        self.told["overloaded"] += count

    def on_overload(self, wait_s: float | None) -> None:
        self.switches.append(wait_s is not None)

    def hear(self, data: str, inbox: str = "_INBOX.a.1", **headers: str) -> None:
        self.heard_ns = time_ns()
        self.live.on_request("work", inbox, data.encode(), headers or None)

    def take(self, reply: bytes, data: bytes, head: bytes | None) -> bool:
        """Whether it is taken out of a chunk; a frame that is not is all there."""
        self.heard_ns = time_ns()
        frame = a_frame(reply, data, head)
        return self.live.refusals.take(PlainFrames(SID), frame, 0) == len(frame)

    def take_stored(
        self,
        data: str,
        sequence: int,
        head: bytes | None = b"NATS/1.0\r\nReply-To: _INBOX.s.1\r\n\r\n",
        stored_ns: int = STORED_NS,
    ) -> bool:
        ack_subject = f"$JS.ACK.S.ahead.1.{sequence}.1.{stored_ns}.0".encode()
        stored = b"work", ack_subject, data.encode(), head
        share = self.live.read_share(data.encode(), head)
        return share is not None and self.live.take_stored(stored, share)

    def sent(self, inbox: str = "_INBOX.a.1") -> list[bytes]:
        return self.connection.posted(inbox)

    def is_stored_copy_answered(self, data: str) -> bool:
        """A copy that was stored when the last request was heard."""
        return self.marks.take(
            Message("work", data.encode(), {}, "S", "c", 1, self.heard_ns, 1, "")
        )


async def test_an_answer_goes_out_and_the_stored_copy_needs_only_its_ack() -> None:
    bench = Bench()
    bench.hear("acme:1")
    await until(bench.sent)
    assert (bench.sent(), bench.told) == ([b"yes"], {"answered": 1})
    assert bench.is_stored_copy_answered("acme:1")
    assert not bench.is_stored_copy_answered("acme:1")


async def test_the_same_request_asked_again_through_the_same_inbox_is_answered_again() -> None:
    bench = Bench()
    for count in (1, 2):
        bench.hear("acme:1")
        await until(lambda count=count: len(bench.sent()) == count)  # type: ignore[misc]


async def test_tenants_are_served_one_by_one_and_what_is_above_a_share_is_refused_at_once() -> None:
    bench = Bench(queue=8)
    bench.live._overload.refuses = True
    for number in range(6):
        bench.hear(f"flood:{number}", f"_INBOX.f.{number}")
    bench.hear("quiet:1", "_INBOX.q.1")
    assert [bench.sent(f"_INBOX.f.{number}") for number in (4, 5)] == [
        [b"overloaded flood 100"],
        [b"overloaded flood 100"],
    ]
    await until(lambda: bench.told["answered"] == 5)
    assert bench.heard == ["flood:0", "quiet:1", "flood:1", "flood:2", "flood:3"]
    assert bench.is_stored_copy_answered("flood:5")  # it was told that it is not handled


async def test_made_up_tenants_take_the_turns_and_the_room_of_one() -> None:
    bench = Bench(queue=8)
    bench.live._overload.refuses = True
    for number in range(6):
        bench.hear(f"made-up-{number}:1", f"_INBOX.f.{number}")
    for number in range(2):
        bench.hear(f"quiet:{number}", f"_INBOX.q.{number}")
    assert bench.sent("_INBOX.f.5") == [b"overloaded made-up-5 100"]
    assert bench.take(b"_INBOX.f.6", b"made-up-6:1", None)
    await until(lambda: bench.told["answered"] == 6)
    assert bench.heard.index("quiet:1") <= 3


async def test_a_tenant_whose_handlers_take_long_gets_fewer_turns_of_the_same_time() -> None:
    now = 0.0

    def handle(message: Message) -> Outcome:
        nonlocal now
        now += 0.020 if message.data.startswith(b"dear") else 0.001
        return YES

    bench = Bench(handle)
    bench.live._now = lambda: now
    for number in range(100):
        bench.hear(f"dear:{number}", f"_INBOX.d.{number}")
        bench.hear(f"cheap:{number}", f"_INBOX.c.{number}")
    await until(lambda: len(bench.heard) >= 105)
    dear = [one for one in bench.heard[:105] if one.startswith("dear")]
    assert len(dear) in range(5, 7)


async def test_what_is_of_high_priority_passes_the_others_of_its_tenant_and_is_not_refused_for_them() -> (
    None
):
    bench = Bench(queue=10)
    bench.live._overload.refuses = True
    for number in range(6):
        bench.hear(f"flood:{number}", f"_INBOX.f.{number}")
    bench.hear("quiet:1", "_INBOX.q.1")
    bench.hear("flood:!1", "_INBOX.h.1")
    refused = [number for number in range(6) if bench.sent(f"_INBOX.f.{number}")]
    assert refused == [4, 5]  # the second one when the one of high priority came
    await until(lambda: bench.told["answered"] == 6)
    assert bench.heard == ["flood:!1", "quiet:1", "flood:0", "flood:1", "flood:2", "flood:3"]


async def test_a_flood_of_high_priority_leaves_the_others_of_its_tenant_their_part() -> None:
    bench = Bench(queue=20)
    bench.live._overload.refuses = True
    for number in range(12):
        bench.hear(f"flood:!{number}", f"_INBOX.h.{number}")
    assert not bench.take(b"_INBOX.f.1", b"flood:1", None)
    bench.hear("flood:1", "_INBOX.f.1")
    assert bench.take(b"_INBOX.h.12", b"flood:!12", None)
    await until(lambda: bench.told["answered"] == 10)
    assert bench.heard.index("flood:1") == 4


async def test_one_that_gives_way_while_the_backlog_is_not_too_deep_is_left_to_its_stored_copy() -> (
    None
):
    bench = Bench(queue=8)
    for number in range(4):
        bench.hear(f"burst:{number}", f"_INBOX.b.{number}")
    bench.hear("burst:!1", "_INBOX.h.1")
    assert (bench.sent("_INBOX.b.3"), bench.told) == ([], {"left": 1})
    assert not bench.is_stored_copy_answered("burst:3")


async def test_of_stored_requests_one_of_high_priority_goes_first_and_the_one_that_gives_way_is_left_to_its_delivery() -> (
    None
):
    bench = Bench(queue=8)
    bench.live._overload.refuses = True
    assert [bench.take_stored(f"flood:{number}", 100 + number) for number in range(5)] == [
        True
    ] * 4 + [False]
    assert bench.take_stored("flood:!1", 105)
    await until(lambda: bench.told["answered"] == 4)
    assert bench.heard == ["flood:!1", "flood:0", "flood:1", "flood:2"]
    await bench.live.close()
    # the one that gave way is not refused: its delivery is to answer it
    assert bench.told == {"answered": 4}


async def test_while_the_backlog_is_not_too_deep_what_is_above_a_share_is_left_to_its_stored_copy() -> (
    None
):
    bench = Bench(queue=2, overloaded_after_ms=2_000)
    for number in range(2):
        bench.hear(f"burst:{number}", f"_INBOX.b.{number}")
    assert (bench.sent("_INBOX.b.1"), bench.told, bench.is_stored_copy_answered("burst:1")) == (
        [],
        {"left": 1},
        False,
    )


async def test_while_the_socket_is_behind_a_tenant_begins_no_more_than_a_few_that_wait() -> None:
    """Its handlers go on whenever an extension answers, within no budget: without a bound nothing
    else is heard.
    """
    bench = Bench(handle=lambda _: _wait_for_ever(), queue=200)
    bench.live._overload.refuses = True
    bench.connection.is_behind = True
    for number in range(20):
        bench.hear(f"piped:{number}", f"_INBOX.p.{number}")
    bench.hear("quiet:1", "_INBOX.q.1")
    await until(lambda: len(bench.heard) == MAX_WAITING_WHILE_BEHIND + 1)
    await until(lambda: bench.sent("_INBOX.p.19"))
    assert [bool(bench.sent(f"_INBOX.p.{number}")) for number in range(20)] == [
        False
    ] * MAX_WAITING_WHILE_BEHIND + [True] * 4
    assert bench.take(b"_INBOX.p.20", b"piped:20", None)
    await bench.live.close()


async def test_what_is_read_ahead_takes_its_turn_is_answered_where_it_asks_and_its_delivery_needs_only_an_ack() -> (
    None
):
    bench = Bench()
    bench.hear("flood:1", "_INBOX.f.1")
    bench.hear("flood:2", "_INBOX.f.2")
    assert bench.take_stored("quiet:1", 7)
    await until(lambda: bench.told["answered"] == 3)
    assert bench.heard == ["flood:1", "quiet:1", "flood:2"]
    assert bench.sent("_INBOX.s.1") == [b"yes"]
    headers = {"Reply-To": "_INBOX.s.1"}
    assert bench.marks.take(Message("work", b"quiet:1", headers, "S", "c", 7, STORED_NS, 1, ""))


async def test_what_is_read_ahead_is_left_to_its_delivery_without_room_or_when_that_came_first() -> (
    None
):
    bench = Bench(queue=2)
    bench.hear("quiet:1")
    assert not bench.take_stored("quiet:2", 7)  # no room
    await until(lambda: bench.told["answered"] == 1)
    assert not bench.take_stored("-quiet", 8)  # cannot be told from another
    assert bench.take_stored("quiet:3", 9)
    bench.processor.newest_sequence = 9
    bench.hear("other:4")
    await until(lambda: len(bench.heard) == 2)
    assert bench.heard == ["quiet:1", "other:4"]


@pytest.mark.parametrize("by_listener", [True, False])
@pytest.mark.parametrize("headers", [{"Nats-Msg-Id": "m-1"}, {}])
async def test_a_passing_copy_that_is_read_long_after_its_stored_one_was_answered_gets_that_answer(
    headers: dict[str, str], by_listener: bool
) -> None:
    """The stream is read ahead on another connection: while this socket is behind, a request is
    decided, and its answer given to the reply subject, before its inbox is heard here.
    """
    bench = Bench(lambda _: Retry(Fault("busy", "not now")))
    bench.answers.sent.switch(True)
    now = 100.0
    bench.answers._now = lambda: now
    stored = Message("work", b"acme:1", headers, "S", "ahead", 7, time_ns(), 1, "")
    bench.answers.send(stored, Reply(b"yes"))
    now += 1.5
    bench.answers.tick()
    assert bench.connection.posted("work.reply") == [b"yes"]
    hear = bench.answers.on_request if by_listener else bench.live.on_request
    for count in (1, 2):  # a second one without an id is another request
        hear("work", f"_INBOX.a.{count}", b"acme:1", headers or None)
    await until(lambda: bench.sent("_INBOX.a.1"))
    assert bench.sent("_INBOX.a.1") == [b"yes"]
    assert bench.sent("_INBOX.a.2") == ([b"yes"] if headers else [])


async def test_what_was_refused_is_not_read_ahead() -> None:
    bench = Bench(queue=2)
    bench.live._overload.refuses = True
    bench.hear("quiet:1", "_INBOX.q.1")
    assert bench.take(b"_INBOX.s.1", b"quiet:2", None)
    await until(lambda: bench.told["answered"] == 1)
    assert not bench.take_stored("quiet:2", 7, head=None, stored_ns=bench.heard_ns)
    assert bench.take_stored("quiet:3", 8, head=None, stored_ns=bench.heard_ns)
    assert bench.is_stored_copy_answered("quiet:2")


@pytest.mark.parametrize(("heard_s", "answers"), [(-1.0, 1), (0.5, 1), (60.0, 2)])
async def test_an_instance_that_is_told_of_an_inbox_that_it_has_answered_answers_it_once(
    heard_s: float, answers: int
) -> None:
    """Both heard it; the other one left its passing copy, after this one had answered. What was
    heard later was asked again.
    """
    bench, stored_ns = Bench(), time_ns()
    bench.answers.sent.on_answered(b"0123456789abcdef")  # another one answers passing copies
    headers = {"Nats-Msg-Id": "m-1"}
    bench.answers.on_request("work", "_INBOX.a.1", b"acme:1", headers)
    message = Message("work", b"acme:1", headers, "S", "c", 1, stored_ns, 1, "")
    bench.answers.send(message, Reply(b"yes"))
    told = {**headers, INSTANCE: "another", HEARD_AT: f"{stored_ns / 1e9 + heard_s}"}
    bench.answers.on_asker(PASSING_ASKERS, "_INBOX.a.1", b"acme:1", told)
    assert bench.sent() == [b"yes"] * answers


async def test_a_retry_through_the_same_inbox_is_answered_as_soon_as_it_is_heard() -> None:
    """A client with one inbox that obeys `retry_after_ms`."""
    bench, headers = Bench(), {"Nats-Msg-Id": "m-1"}
    for count in (1, 2):
        bench.hear("acme:1", **headers)
        await until(lambda count=count: len(bench.sent()) == count)  # type: ignore[misc]


async def test_an_answer_from_before_this_instance_listened_is_kept_while_passing_copies_wait() -> (
    None
):
    """It was started to help: the instance that is behind hears the inbox later."""
    bench, headers = Bench(), {"Nats-Msg-Id": "m-1"}
    bench.answers.sent.on_answered(b"0123456789abcdef")
    bench.answers.start_listening_from(100)
    bench.answers._old_from = 0.0
    bench.answers.send(
        Message("work", b"acme:1", headers, "S", "c", 7, time_ns(), 1, ""), Reply(b"yes")
    )
    told = {**headers, INSTANCE: "another", HEARD_AT: f"{time()}"}
    bench.answers.on_asker(PASSING_ASKERS, "_INBOX.a.1", b"acme:1", told)
    assert bench.sent() == [b"yes"]


async def test_a_switch_off_leaves_no_mark_of_what_was_heard_during_it() -> None:
    bench = Bench()
    bench.live.is_on = False
    bench.hear("acme:1")
    await until(bench.sent)
    bench.live.end_switch()
    assert not bench.is_stored_copy_answered("acme:1")


@pytest.mark.parametrize("own", ["_INBOX.own", "_INBOX.f.own"])
async def test_no_refusal_goes_to_an_inbox_of_the_router_s_own_whatever_was_asked_before(
    own: str,
) -> None:
    bench = Bench(queue=2, own=(own,))
    bench.live._overload.refuses = True
    bench.hear("flood:1", "_INBOX.f.1")
    for inbox in ("_INBOX.f.2", "_INBOX.g", f"{own}1"):
        bench.take(inbox.encode(), b"flood:2", None)
    assert [bool(bench.sent(inbox)) for inbox in ("_INBOX.f.2", "_INBOX.g", f"{own}1")] == [
        True,
        True,
        False,
    ]


async def test_a_request_that_was_read_ahead_and_is_delivered_before_it_is_handled_is_answered_by_its_delivery_alone() -> (
    None
):
    """A push waits for its record: the delivery, which comes meanwhile, waits for the same record
    and answers.
    """
    outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    bench = Bench(handle=lambda _: outcome)
    assert bench.take_stored("acme:1", 7)
    await until(lambda: bench.heard == ["acme:1"])
    bench.processor.newest_sequence = 7
    outcome.set_result(YES)
    await until(lambda: not bench.live._running)
    assert (bench.sent("_INBOX.s.1"), bench.is_stored_copy_answered("acme:1")) == ([], False)


async def test_what_cannot_be_told_from_its_stored_copy_is_answered_by_that_copy() -> None:
    bench = Bench()
    bench.hear("-acme")
    assert (bench.heard, bench.told) == ([], {"left": 1})
    stored = Message("work", b"-acme", {}, "S", "c", 1, time_ns(), 1, "")
    assert not bench.marks.take(stored)
    bench.answers.send(stored, Reply(b"late"))
    assert bench.sent() == [b"late"]


def _raises(_: Message) -> Outcome:
    raise ValueError("no")


async def _away(_: Message) -> Outcome:
    raise BrokerUnavailable("away")


async def test_what_fails_is_left_to_its_stored_copy() -> None:
    for handle in (_raises, _away, lambda _: Retry(Fault("busy", "not now"))):
        bench = Bench(handle)
        bench.hear("acme:1")
        await until(lambda bench=bench: bench.told["left"])  # type: ignore[misc]
        assert (bench.sent(), bench.is_stored_copy_answered("acme:1")) == ([], False)


async def test_an_error_that_is_final_is_told_and_the_dead_letter_is_the_stored_copy_s() -> None:
    bench = Bench(lambda _: Dead(Fault("bad", "bad"), reply=Reply(b"bad")))
    bench.hear("acme:1")
    await until(bench.sent)
    assert (bench.sent(), bench.is_stored_copy_answered("acme:1")) == ([b"bad"], False)


async def test_effects_are_stored_then_committed_before_the_answer() -> None:
    order: list[str] = []

    async def commit(publish_acks: object) -> None:
        order.append(f"commit {len(bench.publisher.asked)} {bench.sent()}")

    async def handle(_: Message) -> Outcome:
        return Done((EFFECT,), Reply(b"yes"), commit)

    bench = Bench(handle)
    bench.hear("acme:1")
    await until(bench.sent)
    assert order == ["commit 1 []"]


async def test_effects_that_cannot_be_stored_are_the_stored_copy_s() -> None:
    async def handle(_: Message) -> Outcome:
        return Done((EFFECT,), Reply(b"yes"))

    bench = Bench(handle)
    bench.publisher.refuse()
    bench.hear("acme:1")
    await until(lambda: bench.told["left"])
    assert (bench.sent(), bench.is_stored_copy_answered("acme:1")) == ([], False)


async def test_handlers_that_wait_are_bounded() -> None:
    ends = asyncio.Event()

    async def handle(_: Message) -> Outcome:
        await ends.wait()
        return YES

    bench = Bench(handle, at_once=4)
    for number in range(3):
        bench.hear(f"acme:{number}", f"_INBOX.a.{number}")
    await until(lambda: bench.told["left"] == 1)
    ends.set()
    await until(lambda: bench.told["answered"] == 2)


async def test_the_end_handles_what_waits_and_leaves_what_needs_time() -> None:
    async def handle(message: Message) -> Outcome:
        await asyncio.Event().wait()
        return YES

    bench = Bench(lambda message: YES if b"quick" in message.data else handle(message))
    bench.hear("acme:slow", "_INBOX.a.2")
    bench.hear("acme:quick")
    await bench.live.close()
    assert (bench.sent(), bench.told) == ([b"yes"], {"answered": 1, "left": 1})


async def test_a_request_that_was_begun_in_the_turn_of_the_end_is_left_to_its_stored_copy() -> None:
    bench = Bench(lambda _: _wait_for_ever())
    bench.hear("acme:slow")
    await asyncio.sleep(0)  # its task is there, and has not run
    await bench.live.close()
    assert bench.told == {"left": 1}


async def test_a_deep_backlog_switches_it_on_and_a_short_one_for_a_while_off() -> None:
    bench = Bench(fair_after_ms=100)
    now = 0.0
    bench.live._overload._now = lambda: now

    def look(pending: int, taken: int, passed: float = 0.05) -> bool:
        nonlocal now
        now += passed
        bench.processor.pending, bench.processor.taken = pending, bench.processor.taken + taken
        bench.processor.delivered += taken
        bench.answers.heard += 1
        return bench.live.look()

    assert [look(0, 500) for _ in range(20)] == [False] * 20
    assert look(400, 500) is False  # some 10 000 a second: 40 ms
    assert look(5_000, 500) is True
    assert bench.processor.most_held in range(8, 65)
    assert look(0, 500) is True  # not at once
    assert [look(0, 500) for _ in range(12)][-1] is False
    assert (bench.switches, bench.processor.most_held) == ([True, False], None)


class Subscriptions(FakeConnection):
    """What the server is told of subscriptions, in this order."""

    def __init__(self) -> None:
        super().__init__()
        self.is_connected = True
        self.told: list[str] = []

    async def _subscribe(self, subject: str, *_: object) -> int:
        self.told.append(f"SUB {subject}")
        return len(self.told)

    subscribe_direct = listen_direct = _subscribe  # type: ignore[assignment]

    async def flush(self) -> None: ...

    async def flush_last(self, within_s: float) -> None:
        self.told.append("flush")

    async def unsubscribe(self, sid: int, **_: object) -> None:
        self.told.append(f"UNSUB {sid}")


async def test_the_old_subscription_ends_when_what_the_server_matched_before_the_new_one_has_come() -> (
    None
):
    """The server matches a message, then sends it: one that it matched before SUB and sends after
    UNSUB would reach neither (8 of 2 244 swaps did, with both commands in one write).
    """
    bench, connection = Bench(), Subscriptions()
    jetstream: Any = SimpleNamespace(connection=connection)
    listener = Listener(
        jetstream,
        ListenedSubject(stream="S", subject="work", queue="g"),
        bench.answers,
        unstored=UnstoredRequests(
            "S", 0.1, find_stored_at=lambda: 0.0, on_change=lambda _: None, clock=time
        ),
        passing=bench.live,
        infos=SimpleNamespace(stream=_away),  # type: ignore[arg-type]
    )
    listening = asyncio.create_task(listener.run())
    await until(lambda: "SUB work" in connection.told)
    bench.live.look = lambda: setattr(bench.live, "is_on", True) or True  # type: ignore[method-assign, func-returns-value]
    await until(lambda: connection.told.count("SUB work") == 2)
    begun = asyncio.get_running_loop().time()
    await until(lambda: "UNSUB 1" in connection.told)
    took_s = asyncio.get_running_loop().time() - begun
    listening.cancel()
    assert connection.told[-3:] == ["SUB work", "flush", "UNSUB 1"]
    assert took_s >= OVERLAP_S / 2


async def test_stored_copies_are_held_back_while_live_ones_come_alone() -> None:
    bench = Bench(fair_after_ms=100)
    now = 0.0
    bench.live._overload._now = lambda: now

    def held(heard: int) -> int | None:
        nonlocal now
        now += 0.6
        bench.processor.pending, bench.processor.taken = 50_000, bench.processor.taken + 5_000
        bench.processor.delivered += 5_000
        bench.answers.heard += heard
        bench.live.look()
        most: int | None = bench.processor.most_held
        return most

    assert [held(1), held(1)][-1] == 41  # 5 ms of some 8 300 a second
    bench.connection.is_behind = True
    assert held(1) == 8
    assert [held(0), held(0)][-1] is None


REFUSED = b"overloaded flood 30000"


@pytest.mark.parametrize(
    ("tenant", "reply", "head", "is_taken"),
    [
        ("flood", b"_INBOX.f.9", None, True),
        ("flood", b"_INBOX.f.9", b"NATS/1.0\r\nNats-Msg-Id: m-1\r\n\r\n", True),
        (
            "flood",
            b"_INBOX.f.9",
            b"NATS/1.0\r\nNats-Msg-Id: m-1\r\nReply-To: _INBOX.f.8\r\n\r\n",
            False,
        ),
        ("flood", b"_INBOX.f.9", b"NATS/1.0\r\nNats-Msg-Id: two words\r\n\r\n", False),
        ("flood", b"", b"NATS/1.0\r\nReply-To: _INBOX.f.8\r\n\r\n", False),
        ("flood", b"$JS.API.STREAM.PURGE.S", None, False),
        ("flood", b"_INBOX.\xff", None, False),
        ("quiet", b"_INBOX.q.1", None, False),
        ("-", b"_INBOX.q.1", None, False),
    ],
)
async def test_what_a_flood_is_made_of_is_refused_without_being_decoded(
    tenant: str, reply: bytes, head: bytes | None, is_taken: bool
) -> None:
    """The same as `hear` would; what is not so plain is left to it."""
    bench = Bench(queue=4, overloaded_after_ms=2_000)
    bench.live._overload.refuses, bench.live._overload.retry_after_ms = True, 30_000
    for number in range(3):
        bench.hear(f"flood:{number}", f"_INBOX.f.{number}")
    data = f"{tenant}:9".encode()
    assert bench.take(reply, data, head) is is_taken
    assert bench.connection.posted("_INBOX.f.9") == [REFUSED] * is_taken
    message_id = "m-1" if head is not None else None
    headers = {"Nats-Msg-Id": message_id} if message_id is not None else {}
    assert (
        bench.marks.take(Message("work", data, headers, "S", "c", 1, time_ns(), 1, "")) is is_taken
    )


async def test_a_chunk_is_refused_up_to_the_first_request_that_is_not_the_flood_s_and_goes_on_behind_it() -> (
    None
):
    bench = Bench(queue=4)
    bench.live._overload.refuses = True
    for number in range(3):
        bench.hear(f"flood:{number}", f"_INBOX.f.{number}")
    head = b"NATS/1.0\r\nNats-Msg-Id: m-%d\r\n\r\n"
    flood = [
        a_frame(b"_INBOX.f.%d" % number, b"flood:%d" % number, head % number)
        for number in range(10, 13)
    ]
    broken, quiet = a_frame(b"_INBOX.b.1", b"?"), a_frame(b"_INBOX.q.1", b"quiet:1")
    other = a_frame(b"", b"flood:9").replace(b" %d " % SID, b" 8 ")  # of another subscription
    chunk = b"".join(
        (
            flood[0],
            broken,
            flood[1],
            quiet,
            flood[2],
            other,
            a_frame(b"_INBOX.f.13", b"flood:13")[:-1],
        )
    )
    stops = [chunk.index(quiet), chunk.index(other), len(chunk) - 1 - len(other)]
    ends = [
        bench.live.refusals.take(PlainFrames(SID), chunk, at)
        for at in (0, stops[0] + len(quiet), stops[1] + len(other))
    ]
    assert ends == [stops[0], stops[1], stops[1] + len(other)]  # the last frame is not whole
    assert [bool(bench.sent(f"_INBOX.f.{number}")) for number in range(10, 14)] == [True] * 3 + [
        False
    ]
    assert [str(fault) for fault in bench.connection.faults] == ["b'?'"]
    bench.live.refusals.report()
    assert bench.told["overloaded"] == 3 + 1  # and the third of the first three


@pytest.mark.parametrize("size", [b"5", b"4", b"999999", b"9999999999", b"-7", b"x"])
async def test_a_frame_whose_sizes_are_not_its_own_is_left_to_the_parser(size: bytes) -> None:
    bench = Bench(queue=0)
    bench.live._overload.refuses = True
    head = b"NATS/1.0\r\nNats-Msg-Id: m-1\r\n\r\n"
    frame = a_frame(b"_INBOX.f.1", b"flood:1", head)
    sizes = b"%d %d" % (len(head), len(head) + 7)
    assert bench.take(b"_INBOX.f.1", b"flood:1", head)
    for wrong in (b"%b %d" % (size, len(head) + 7), b"%d %b" % (len(head), size)):
        assert bench.live.refusals.take(PlainFrames(SID), frame.replace(sizes, wrong), 0) == 0


async def test_identical_requests_without_an_id_are_counted_through_the_oldest_being_forgotten() -> (
    None
):
    marks = RepliedRequests(most=4)
    stored = Message("work", b"same", {}, "S", "c", 1, time_ns(), 1, "")
    for _ in range(3):
        marks.add(b"same", {}, time())
    marks.add(b"other", {}, time())
    marks.add(b"third", {}, time())
    marks.add(b"same", {}, time())
    assert [marks.take(stored) for _ in range(5)] == [True] * 4 + [False]
    for number in range(5):
        marks.add(b"%d" % number, {}, time())
    assert not marks.take(replace(stored, data=b"0"))


async def test_a_request_without_an_inbox_is_its_stored_copy_s() -> None:
    bench = Bench()
    assert bench.take(b"", b"flood:9", None)
    assert (bench.told, bench.live._queue.take()) == ({}, None)
    assert not bench.is_stored_copy_answered("flood:9")


async def test_before_the_backlog_is_too_deep_nothing_is_refused_at_once() -> None:
    bench = Bench(queue=0, overloaded_after_ms=2_000)
    assert not bench.take(b"_INBOX.f.9", b"flood:9", None)


async def test_a_few_that_wait_are_no_backlog_however_slow_the_consumer() -> None:
    bench = Bench(fair_after_ms=100)
    bench.processor.pending = 200
    assert [bench.live.look() for _ in range(3)] == [False] * 3


async def test_a_few_that_are_dear_are_a_backlog_when_they_have_waited_for_a_while_and_until_they_are_gone() -> (
    None
):
    """Fourteen a second of 450 ms each: count alone would see them after twenty seconds."""
    bench = Bench(fair_after_ms=100)
    now = 0.0
    bench.live._overload._now = lambda: now

    def look(pending: int, taken: int) -> bool:
        nonlocal now
        now += 0.125
        bench.processor.pending, bench.processor.taken = pending, bench.processor.taken + taken
        bench.processor.delivered += taken
        return bench.live.look()

    assert [look(20, 1) for _ in range(9)] == [False] * 5 + [True] * 4
    assert look(17, 1) is True
    assert [look(3, 1) for _ in range(6)][-1] is False
    assert [look(20, 40) for _ in range(20)] == [False] * 20  # few, and cheap


def test_a_backlog_is_what_is_pending_at_the_rate_of_late() -> None:
    backlog = BacklogEstimate()
    assert backlog.wait_s(1000, 0, 0.0) == 0.0
    for step in range(1, 100):
        wait_s = backlog.wait_s(1000, step * 100, step * 0.1)
    assert 0.99 < wait_s < 1.01
    assert backlog.wait_s(1000, 0, 10.0) == 0.0  # the consumer has started again


def test_attempt_records_are_bounded_and_the_oldest_goes_first() -> None:
    marks = RepliedRequests(most=4)
    messages = [
        Message("work", data, {}, "S", "c", 1, time_ns(), 1, "")
        for data in (b"1", b"2", b"3", b"4", b"5")
    ]
    for message in messages:
        marks.add(message.data, message.headers, time())
    assert [marks.take(message) for message in messages] == [False, False, True, True, True]


def test_an_attempt_record_is_for_no_copy_that_is_stored_much_later() -> None:
    """The same bytes asked again: nothing was done for that copy."""
    marks, now_ns = RepliedRequests(), time_ns()
    again = Message("work", b"1", {"Nats-Msg-Id": "m"}, "S", "c", 1, now_ns + 5_000_000_000, 1, "")
    marks.add(again.data, again.headers, now_ns / 1e9)
    assert not marks.take(again)


async def test_handlers_that_wait_are_shared_by_tenant() -> None:
    ends = asyncio.Event()

    async def handle(_: Message) -> Outcome:
        await ends.wait()
        return YES

    bench = Bench(handle, at_once=4)
    for number in range(4):
        bench.hear(f"pushes:{number}", f"_INBOX.p.{number}")
    await until(lambda: bench.told["left"] == 2)
    bench.hear("quiet:1")
    ends.set()
    await until(bench.sent)


def test_two_copies_without_an_id_are_two_and_with_one_they_are_one() -> None:
    marks = RepliedRequests()
    for headers in ({}, {"Nats-Msg-Id": "m"}):
        message = Message("work", b"1", headers, "S", "c", 1, time_ns(), 1, "")
        marks.add(message.data, message.headers, time())
        marks.add(message.data, message.headers, time())
        assert [marks.take(message) for _ in range(3)] == [True, not headers, False]


async def test_a_publishers_request_is_left_to_its_stored_copy_and_every_instance_is_told_of_it() -> (
    None
):
    """Its PubAck says where it is stored, which a passing copy does not know."""
    bench = Bench()
    bench.answers.sent.switch(True)
    bench.hear("acme:1", **{"Router-Confirm": "stored"})
    assert (bench.heard, bench.sent()) == ([], [])
    assert [post.reply for post in bench.connection.posts if post.subject == PASSING_ASKERS] == [
        "_INBOX.a.1"
    ]
    stored = Message("work", b"acme:1", {"Router-Confirm": "stored"}, "S", "c", 7, time_ns(), 1, "")
    bench.answers.send(stored, Reply(b"yes"))
    assert bench.sent() == [b'{"stream":"S","seq":7}']
    assert bench.sent("work.reply") == [b"yes"]
