"""Messages that are done leave their stream; what no durable has settled, what no durable takes,
and the newest one stay.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from router.delivery.consume.finished import FinishedRemoval
from router.delivery.settings import declare_stream
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology, create
from tests.support.delivery import connected
from tests.support.made_anew import create_streams
from tests.support.waiting import until


class Work:
    """A stream of two subjects, and a clock that stands until it is set."""

    def __init__(self, jetstream: JetStream, name: str) -> None:
        self.jetstream = jetstream
        self.stream, self.one, self.two = f"{name}_WORK", f"{name}.one", f"{name}.two"
        self.now = 0.0
        self.counted = 0
        self.removal = self.another()

    def another(self, infos: SharedInfo | None = None) -> FinishedRemoval:
        """One more instance."""
        stream = declare_stream(self.stream, days=1, mib=1, window_ms=600_000)
        return FinishedRemoval(
            self.jetstream,
            stream,
            (self.one, self.two),
            1.0,
            on_removed=self._count,
            clock=lambda: self.now,
            infos=infos,
        )

    def _count(self, count: int) -> None:
        self.counted += count

    async def publish(self, count: int, subject: str | None = None) -> None:
        for _ in range(count):
            last = (await self.state())["last_seq"]
            await self.jetstream.publish(
                subject or self.one, b"x" * 100, {"Nats-Msg-Id": f"m-{last + 1}"}
            )

    async def durable(self, name: str, subject: str) -> None:
        await create(
            self.jetstream,
            Topology((), (ConsumerSpec(stream=self.stream, durable=name, filter_subject=subject),)),
        )

    async def settle(self, durable: str, *sequences: int) -> None:
        """Take all that is there, acknowledge some. Once for each durable."""
        client = self.jetstream.connection
        inbox = client.new_inbox()
        heard = await client.subscribe(inbox)
        next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{durable}"
        await until(lambda: self._is_pending(durable))
        await client.publish(next_subject, b'{"batch": 1000, "no_wait": true}', reply=inbox)
        while (message := await heard.next_msg(60)).subject != inbox:
            if int(message.reply.split(".")[5]) in sequences:
                await client.request(message.reply, b"+ACK", timeout=60)

    async def _is_pending(self, durable: str) -> bool:
        """Whether the durable counts all that is stored for it; right after its publish ack a
        message may not be.
        """
        consumer = await self.jetstream.consumer(self.stream, durable)
        assert consumer is not None
        subject = consumer["config"]["filter_subject"]
        stream = await self.jetstream.ask(
            f"STREAM.INFO.{self.stream}", {"subjects_filter": subject}
        )
        assert stream is not None
        return bool(consumer["num_pending"] >= stream["state"].get("subjects", {}).get(subject, 0))

    async def state(self) -> dict[str, int]:
        info = await self.jetstream.stream(self.stream)
        assert info is not None
        return info["state"]  # type: ignore[no-any-return]

    async def left(self) -> list[int]:
        state = await self.state()
        found = await asyncio.gather(
            *(self.jetstream.message(self.stream, n) for n in range(1, state["last_seq"] + 1))
        )
        return [one.sequence for one in found if one is not None]


@pytest.fixture
async def work(nats_url: str, prefix: str) -> AsyncIterator[Work]:
    async with connected(nats_url) as connection:
        work = Work(JetStream(connection), prefix)
        spec = StreamSpec(
            name=work.stream, subjects=(work.one, work.two), discard="new", max_bytes=100_000
        )
        assert await create(work.jetstream, Topology((spec,))) == []
        yield work


async def after_the_window(work: Work) -> None:
    await work.removal.look()
    work.now += 601.0


async def test_what_every_durable_has_settled_goes_after_the_duplicate_window(work: Work) -> None:
    await work.durable("worker", work.one)
    await work.publish(10)
    await work.settle("worker", *range(1, 9))
    assert await work.removal.look() == 0
    work.now = 599.0
    assert await work.removal.look() == 0
    work.now = 601.0
    assert await work.removal.look() == 8
    assert (await work.left(), work.counted) == ([9, 10], 8)


async def test_of_two_instances_one_does_a_run_and_either_can_do_the_next(
    work: Work, nats_url: str
) -> None:
    await work.durable("worker", work.one)
    await work.publish(10)
    await work.settle("worker", *range(1, 9))
    async with connected(nats_url) as other_connection:
        one, other = (
            SharedInfo(JetStream(each), lambda: work.now)
            for each in (work.jetstream.connection, other_connection)
        )
        async with one.listen(), other.listen():
            first, second = work.another(one), work.another(other)
            await other.stream(work.stream)  # its own first answer tells its domain
            second_heard = other._answers.setdefault(second.key)
            await first.take_turn()
            await until(lambda: other._answers[second.key] is not second_heard)
            await second.take_turn()
            work.now = 601.0
            await second.take_turn()  # it did not look before, and knows how far the stream was
            assert work.counted == 8


async def test_what_an_instance_of_another_version_tells_is_not_taken_for_this_stream_s(
    work: Work, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work.publish(1)

    infos = SharedInfo(work.jetstream, lambda: work.now)
    removal, ask = work.another(infos), infos.read

    async def read(key: str, *rest: Any) -> Any:
        return (
            {"last_seq": 1_000, "is_held": False} if key == removal.key else await ask(key, *rest)
        )

    monkeypatch.setattr(infos, "read", read)
    await removal.take_turn()
    await work.publish(1)
    assert await removal.look() == 0


async def test_the_newest_stays_though_all_is_settled(work: Work) -> None:
    """A server that is killed with an empty stream may begin its sequences again."""
    await work.durable("worker", work.one)
    await work.publish(5)
    await work.settle("worker", *range(1, 6))
    await after_the_window(work)
    await work.removal.look()
    assert await work.left() == [5]


async def test_a_second_durable_that_has_not_settled_them_holds_them(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a further page of the server's list."""
    ask, offsets = work.jetstream.ask, list[int]()

    async def ask_for_pages_of_one(api: str, body: Any = None) -> Any:
        answer = await ask(api, body)
        if api.startswith("CONSUMER.LIST."):
            offsets.append(body["offset"])
            answer["consumers"] = answer["consumers"][:1]
        return answer

    monkeypatch.setattr(work.jetstream, "ask", ask_for_pages_of_one)
    for name in ("worker", "other"):
        await work.durable(name, work.one)
    await work.publish(5)
    await work.settle("worker", *range(1, 6))
    await work.settle("other", 1, 2)
    await after_the_window(work)
    assert (await work.removal.look(), offsets) == (2, [0, 1] * 2)


async def test_what_no_durable_takes_stays(work: Work) -> None:
    await work.durable("worker", work.one)
    await work.publish(3, work.two)
    await work.publish(3)
    await work.settle("worker", 4, 5, 6)
    await after_the_window(work)
    await work.removal.look()
    assert await work.left() == [1, 2, 3, 6]


async def test_without_any_durable_all_stays(work: Work) -> None:
    await work.publish(5)
    await after_the_window(work)
    assert await work.removal.look() == 0


async def test_one_that_is_never_settled_holds_back_none_whose_result_is_known(work: Work) -> None:
    await work.durable("worker", work.one)
    await work.publish(6)
    await work.settle("worker", 1, 3, 5, 6)
    for number in (3, 5):
        work.removal.finish(f"m-{number}")
    await after_the_window(work)
    assert (await work.removal.look(), work.counted) == (3, 3)
    assert await work.left() == [2, 4, 6]


async def test_the_oldest_is_removed_by_its_name_too(work: Work) -> None:
    await work.durable("worker", work.one)
    await work.publish(3)
    await work.settle("worker", 3)
    work.removal.finish("m-1")
    await after_the_window(work)
    assert (await work.removal.look(), await work.left()) == (1, [2, 3])


async def test_where_the_stream_is_a_quarter_full_nothing_waits_for_the_window(work: Work) -> None:
    """Long before it is half full, from where a tenant's share is counted, finished messages with
    the others.
    """
    await work.durable("worker", work.one)
    await work.publish(150)
    assert 25_000 < (await work.state())["bytes"] < 50_000
    await work.settle("worker", *range(1, 151))
    assert await work.removal.look() == 149


async def test_another_instance_that_removed_them_first_is_no_matter(work: Work) -> None:
    await work.durable("worker", work.one)
    other = work.another()
    await work.publish(5)
    await work.settle("worker", *range(1, 6))
    await after_the_window(work)
    work.now = 0.0
    await other.look()
    work.now = 601.0
    assert (await other.look(), await work.removal.look()) == (4, 0)


async def test_a_stream_that_was_made_anew_is_waited_for_anew(work: Work) -> None:
    await work.durable("worker", work.one)
    await work.publish(9)
    await after_the_window(work)
    await work.jetstream.ask(f"STREAM.PURGE.{work.stream}", {})
    await work.jetstream.ask(f"STREAM.DELETE.{work.stream}")
    assert await work.removal.look() == 0
    await create_streams(
        work.jetstream, StreamSpec(name=work.stream, subjects=(work.one, work.two))
    )
    await work.durable("worker", work.one)
    await work.publish(5)
    await work.settle("worker", *range(1, 6))
    assert await work.removal.look() == 0


async def test_a_stream_that_was_made_anew_and_has_grown_longer_is_waited_for_anew(
    work: Work,
) -> None:
    """Its last sequence alone does not show it."""
    await work.durable("worker", work.one)
    await work.publish(5)
    await after_the_window(work)
    await work.jetstream.ask(f"STREAM.DELETE.{work.stream}")
    await create_streams(
        work.jetstream, StreamSpec(name=work.stream, subjects=(work.one, work.two))
    )
    await work.durable("worker", work.one)
    await work.publish(9)
    await work.settle("worker", *range(1, 10))
    assert await work.removal.look() == 0
