"""The supervised child on a real server: it comes back by itself, and it leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from router.core.message import Effect, Message
from router.core.outcome import Done, Handler, Outcome
from router.delivery.consume import consumer as consumers
from router.delivery.consume.consumer import Consumer, Deadlines, Health
from router.delivery.wire import connection as connections
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import create
from tests.support.beside import beside
from tests.support.broker import Broker
from tests.support.cluster import started_cluster, wait_for_cluster
from tests.support.delivery import (
    CallRecorder,
    RecordingObserver,
    WorkStreams,
    a_subscription,
    connected,
    some_work_streams,
)
from tests.support.vanishing import a_path_to
from tests.support.waiting import until

SOON = Deadlines(soft=0.5, hard=1.0)


class Working:
    """A consumer at work on a place, and what it was begun on."""

    def __init__(
        self,
        place: WorkStreams,
        handle: Handler | None = None,
        *,
        heartbeat: float = 0.2,
        deadlines: Deadlines = SOON,
    ) -> None:
        self.place = place
        self.begun: list[bytes] = []
        self.watcher = RecordingObserver()
        self.creates = True
        self._handle = handle or (lambda _: Done())
        subscription = a_subscription(
            self._begin,
            stream=place.stream,
            durable=place.durable,
            observer=self.watcher,
            ack_wait=place.ack_wait,
            heartbeat=heartbeat,
            pull_expires=5 * heartbeat,
            backoff=(0.02,),
        )
        self.consumer = Consumer(
            subscription,
            place.jetstream,
            attempts_bucket=place.bucket,
            create=self._create,
            deadlines=deadlines,
        )

    async def _create(self) -> None:
        if self.creates:
            await create(self.place.jetstream, self.place.topology())

    def _begin(self, message: Message) -> object:
        self.begun.append(message.data)
        return self._handle(message)

    async def publish(self, *data: bytes, within_s: float = 60.0) -> None:
        for one in data:
            await self.place.connection.request(self.place.work, one, timeout=within_s)


HOUR_S = 3600.0
LOOKS = 100  # a consumer looks four times a second


@asynccontextmanager
async def at_work(working: Working) -> AsyncIterator[Working]:
    async with beside(working.consumer.run()) as task:
        await until(lambda: working.consumer.health.is_ready or task.done())
        yield working


async def test_a_consumer_is_ready_when_it_pulls_from_what_is_there(place: WorkStreams) -> None:
    async with at_work(Working(place)) as working:
        assert working.consumer.health == Health(True, True, None)
        await working.publish(*[b"x"] * 100)
        await until(place.is_settled)
        assert len(working.begun) == 100


async def test_a_consumer_that_is_deleted_while_pulling_is_restored_and_pulled_from(
    place: WorkStreams,
) -> None:
    async with at_work(Working(place)) as working:
        await place.jetstream.ask(f"CONSUMER.DELETE.{place.stream}.{place.durable}")
        await working.publish(b"after")
        await until(lambda: working.begun == [b"after"])


@pytest.mark.parametrize("what", ["CONSUMER.DELETE.{stream}.{durable}", "STREAM.DELETE.{stream}"])
async def test_a_deletion_is_told_and_not_missed_by_a_heartbeat(
    place: WorkStreams, what: str
) -> None:
    """So heartbeats may be rare."""
    async with at_work(Working(place, heartbeat=HOUR_S)) as working:
        assert working.consumer.puller is not None
        assert working.consumer.puller.lost_is_told
        await place.jetstream.ask(what.format(stream=place.stream, durable=place.durable))
        await until(
            lambda: working.consumer.puller.state.resets >= 2 and working.consumer.health.is_ready
        )  # type: ignore[union-attr]
        await working.publish(b"after")
        await until(lambda: working.begun == [b"after"])


async def test_a_pull_request_that_the_server_ends_is_followed_by_another(
    place: WorkStreams, nc: Client
) -> None:
    """As the new leader of a durable does it with the pull requests of the old one."""
    async with at_work(Working(place, heartbeat=HOUR_S)) as working:
        puller = working.consumer.puller
        assert puller is not None
        before = puller.state.resets
        await nc.publish(
            f"{puller._inbox}.{puller._generation}",
            headers={"Status": "409", "Description": "Leadership Change"},
        )
        await until(lambda: puller.state.resets > before)
        await working.publish(b"after")
        await until(lambda: working.begun == [b"after"])


# an election takes the servers four to nine seconds; the test before this one is the short version
@pytest.mark.matrix
async def test_after_the_leader_of_its_durable_was_killed_an_idle_consumer_begins_the_next_message(
    prefix: str,
) -> None:
    """By the new leader, which ends the old one's pull requests. Heartbeats, which would tell it
    late, are an hour apart here.
    """
    with started_cluster() as cluster:
        await wait_for_cluster(cluster)
        async with some_work_streams(cluster.servers[0].url, prefix, replicas=3) as place:
            info = await place.jetstream.consumer(place.stream, place.durable)
            assert info is not None
            leader = cluster.find(info["cluster"]["leader"])
            async with connected(
                next(server.url for server in cluster.servers if server is not leader)
            ) as connection:
                place.connection, place.jetstream = connection, JetStream(connection)
                working = Working(place, heartbeat=HOUR_S)
                # as the topology monitor tells it
                working.consumer._quorum_seen_at = asyncio.get_running_loop().time
                async with at_work(working):
                    assert working.consumer.puller is not None
                    assert working.consumer.puller.lost_is_told
                    await working.publish(b"before")
                    # its frame shows that the pull request after it is not lost
                    await until(place.is_settled)
                    leader.kill()
                    await until(lambda: _is_stored(working, b"after"), within_s=30)
                    await until(lambda: b"after" in working.begun)
                    assert connection.reconnect_count == 0


async def _is_stored(working: Working, data: bytes) -> bool:
    with suppress(NatsError):
        await working.publish(data, within_s=0.5)
        return True
    return False


@pytest.mark.parametrize(
    ("cluster", "copies", "domain", "is_told"),
    [
        ("", 1, None, True),
        ("", 1, "hub", False),  # a leaf node may be cut off from it
        ("c", 3, None, True),
        ("c", 1, None, False),  # it has no elections
    ],
)
async def test_where_heartbeats_alone_tell_of_a_lost_durable(
    place: WorkStreams, cluster: str, copies: int, domain: str | None, is_told: bool
) -> None:
    place.connection._server_info["cluster"] = cluster
    place.jetstream = JetStream(place.connection, domain)
    consumer = Working(place).consumer
    assert consumer._is_loss_told({"leader": "a", "replicas": [{}] * (copies - 1)}) is is_told


async def test_a_stream_that_is_deleted_and_made_anew_counts_from_one_again(
    place: WorkStreams,
) -> None:
    async with at_work(Working(place)) as working:
        await working.publish(b"before")
        await until(place.is_settled)
        await place.jetstream.ask(f"STREAM.DELETE.{place.stream}")
        await until(lambda: place.jetstream.stream(place.stream))
        await working.publish(b"after")
        await until(lambda: working.begun == [b"before", b"after"])


async def test_while_its_durable_cannot_be_found_after_a_reconnect_it_asks_after_pauses(
    place: WorkStreams, nc: Client
) -> None:
    """Without a quorum each of many consumers asks, and the servers that are left must not be kept
    busy by that.
    """
    calls = CallRecorder()
    await nc.subscribe(f"$JS.API.CONSUMER.INFO.{place.stream}.>", cb=calls.on_message)
    await nc.flush()
    async with at_work(Working(place)) as working:
        puller = working.consumer.puller
        assert puller is not None
        working.creates = False
        await place.jetstream.ask(f"CONSUMER.DELETE.{place.stream}.{place.durable}")
        await until(lambda: not working.consumer.health.is_ready)
        calls.heard.clear()
        place.connection.stats["reconnects"] += 1
        for _ in range(LOOKS):
            await working.consumer._look(puller)
        await nc.flush()
        assert len(calls.heard) <= LOOKS / 10


async def test_a_drain_hands_back_what_was_never_begun_and_leaves_no_subscription(
    nats_url: str, prefix: str
) -> None:
    # by the drain, it comes again sooner
    async with some_work_streams(nats_url, prefix, ack_wait=60.0) as place:
        await _drain_amid_work(place)


async def _drain_amid_work(place: WorkStreams) -> None:
    ends, begun = asyncio.Event(), list[Message]()

    async def wait(message: Message) -> Outcome:
        begun.append(message)
        await ends.wait()
        return Done()

    before = set(place.connection._subs)
    working = Working(place, wait, deadlines=Deadlines(soft=60.0, hard=61.0))
    async with at_work(working):
        # more than there are slots
        await working.publish(*[b"%d" % number for number in range(70)])
        await until(lambda: len(begun) == 64)
        assert working.consumer.is_in_hand(begun[0])
        processor = working.consumer.processor
        assert processor is not None
        drain = processor.drain

        async def release_and_drain(soft_s: float, hard_s: float) -> bool:
            ends.set()
            return await drain(soft_s, hard_s)

        processor.drain = release_and_drain  # type: ignore[method-assign]
    assert (working.consumer.was_clean, working.consumer.is_in_hand(begun[0])) == (True, False)
    assert set(place.connection._subs) == before
    async with at_work(Working(place)) as another:
        await until(place.is_settled)
        assert sorted(another.begun) == [b"64", b"65", b"66", b"67", b"68", b"69"]


async def test_a_drain_from_a_server_that_says_nothing_ends_as_a_cancellation(
    broker: Broker, place: WorkStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that stops it must not take that for a failure of the consumer."""
    monkeypatch.setattr(connections, "LAST_FLUSH_S", 0.1)
    async with a_path_to(broker) as path, connected(path.url, ping_interval=3600) as connection:
        subscription = a_subscription(lambda _: Done(), stream=place.stream, durable=place.durable)
        consumer = Consumer(subscription, JetStream(connection), attempts_bucket=place.bucket)
        async with beside(consumer.run()) as task:
            await until(lambda: consumer.health.is_ready)
            path.is_cut.set()
    assert task.cancelled()


async def test_a_life_that_ended_while_paused_does_not_pause_the_next_one(
    place: WorkStreams,
) -> None:
    working = Working(
        place, lambda message: Done((Effect(place.effects, b"", message.data.decode()),))
    )
    async with at_work(working):
        await place.jetstream.ask(f"STREAM.DELETE.{place.out}")
        working.creates = False
        await working.publish(b"x")
        await until(lambda: working.consumer.health.paused_for)
    await place.create()
    async with at_work(working):
        assert working.consumer.health.is_ready
        await until(place.is_settled)


async def test_a_consumer_without_a_reason_to_pull_leaves_a_server_that_says_nothing(
    broker: Broker, place: WorkStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its slots are taken, so no heartbeat is due: the silence of the server must be noticed in
    another way.
    """
    monkeypatch.setattr(consumers, "NOT_PULLING_CHECK_S", 0.2)
    monkeypatch.setattr(consumers, "LEAVE_AFTER_S", 2.0)
    begun: list[bytes] = []

    async def hang(message: Message) -> Outcome:
        begun.append(message.data)
        await asyncio.Event().wait()
        raise AssertionError

    async with a_path_to(broker) as path:
        connection = await connect(
            {"servers": [path.url, broker.url], "dont_randomize": True, "ping_interval": 3600}
        )
        subscription = a_subscription(
            hang,
            stream=place.stream,
            durable=place.durable,
            slots=1,
            prefetch=1,
            heartbeat=0.2,
            pull_expires=1.0,
        )
        consumer = Consumer(
            subscription,
            JetStream(connection, timeout_s=1.0),
            attempts_bucket=place.bucket,
            deadlines=Deadlines(soft=0.0, hard=0.1),
        )
        task = asyncio.create_task(consumer.run())
        try:
            await place.connection.request(place.work, b"x", timeout=60)
            await until(
                lambda: begun and consumer.puller is not None and not consumer.puller.outstanding
            )
            path.is_cut.set()
            await until(lambda: "no answer" in consumer.health.detail)
            await until(lambda: connection.reconnect_count >= 1)
            await until(lambda: consumer.health.is_ready)
        finally:
            task.cancel()
            await asyncio.wait({task})
            await connection.close()


class CutOff:
    """A server whose followers have not answered for a minute once it is cut off: it goes on
    sending heartbeats.
    """

    def __init__(self, place: WorkStreams) -> None:
        self.is_cut = False
        self.left = asyncio.Event()
        self._consumer = place.jetstream.consumer

    async def describe(self, stream: str, durable: str) -> Json | None:
        alone = {
            "leader": "here",
            "replicas": [{"active": 60_000_000_000}, {"active": 60_000_000_000}],
        }
        return {
            **(await self._consumer(stream, durable) or {}),
            **({"cluster": alone} if self.is_cut else {}),
        }

    async def leave(self) -> bool:
        self.left.set()
        return True


@pytest.fixture
def server(place: WorkStreams, monkeypatch: pytest.MonkeyPatch) -> CutOff:
    server = CutOff(place)
    monkeypatch.setattr(consumers, "QUORUM_CHECK_S", 0.2)
    monkeypatch.setitem(place.connection._server_info, "cluster", "c")
    monkeypatch.setattr(place.jetstream, "consumer", server.describe)
    monkeypatch.setattr(place.connection, "leave_server", server.leave)
    return server


async def test_a_consumer_leaves_a_server_that_is_cut_off_though_its_heartbeats_come(
    place: WorkStreams, server: CutOff
) -> None:
    async with at_work(Working(place)) as working:
        server.is_cut = True
        await asyncio.wait_for(server.left.wait(), 30)
        assert "lost its quorum" in working.consumer.health.detail


async def test_a_consumer_that_is_told_of_a_quorum_asks_for_nothing(
    place: WorkStreams, nc: Client, server: CutOff
) -> None:
    """Of fifty idle instances one asks, and all hear it."""
    calls = CallRecorder()
    await nc.subscribe(f"$JS.API.CONSUMER.INFO.{place.stream}.>", cb=calls.on_message)
    await nc.flush()
    consumer = Working(place).consumer
    consumer._quorum_seen_at = asyncio.get_running_loop().time
    puller = consumer.puller = consumer._make_puller(
        SimpleNamespace(on_delivery=None, free_capacity=lambda: 0)
    )  # type: ignore[arg-type]
    puller.state.heard_at = asyncio.get_running_loop().time() + 3600.0
    consumer._identity = "there"
    for _ in range(LOOKS):
        await consumer._look(puller)
    await nc.flush()
    assert (calls.heard, server.left.is_set()) == ([], False)
    consumer._quorum_seen_at, server.is_cut = lambda: 0.0, True
    await consumer._look(puller)
    assert server.left.is_set()


@pytest.mark.parametrize(
    ("health", "detail"),
    [
        (Health(True, True, None), "pulling"),
        (Health(False, True, None), "not pulling"),
        (Health(False, False, None), "its stream or consumer is missing"),
        (Health(False, True, "full"), "paused: full"),
        (Health(True, False, None, unreachable_for="no answer"), "unreachable: no answer"),
    ],
)
def test_health_says_what_is_wrong(health: Health, detail: str) -> None:
    assert (health.detail, health.is_ready) == (detail, detail == "pulling")
