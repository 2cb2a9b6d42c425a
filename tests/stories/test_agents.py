"""Agents on a real server: duplicates, failures, poison, durables of other programs, a broker and a
store that go away.
"""

import asyncio
import contextlib
import json
import random
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from router.agents.adapter import Context, Outgoing
from router.agents.database import open_read_only
from router.agents.envelope import Envelope
from router.agents.replay import hashes_of, replay
from router.agents.store import Store
from router.agents.topology import AgentTopology
from router.core.errors import Misconfigured, Poison
from router.delivery.consume.advisories import advisory_subject
from router.delivery.wire.api import JetStream
from router.process.supervision import SupervisionFailed
from tests.support.agents import (
    AgentProcess,
    a_command,
    an_agent,
    count_applied,
    count_unsent,
    is_empty,
    publish_until_stored,
    read_sent,
)
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.counting_agent import COUNTED, SUBJECT, CountingAgent
from tests.support.delivery import connected
from tests.support.kills import KILLED
from tests.support.made_anew import create_streams
from tests.support.patient_client import connect_patiently
from tests.support.waiting import until

DURABLE = "witness_consumer"


async def letters(jetstream: JetStream) -> list[dict[str, Any]]:
    return await read_sent(jetstream, "meshforge.failed.>", "MESHFORGE_FAILED")


async def record_acks(nc: Client) -> list[bytes]:
    """What the agent says of its messages, as the server hears it; it grows."""
    acks: list[bytes] = []

    async def hear(message: Msg) -> None:
        acks.append(message.data)

    await nc.subscribe(f"$JS.ACK.MESHFORGE_COMMANDS.{DURABLE}.>", cb=hear)
    await nc.flush()
    return acks


def final_of(acks: list[bytes]) -> list[bytes]:
    """Without those of messages in progress: the busier the machine, the more of them."""
    return [ack for ack in acks if ack != b"+WPI"]


async def settled(jetstream: JetStream) -> None:
    await until(lambda: is_empty(jetstream))


async def send(nc: Client, *bodies: bytes, subject: str = SUBJECT) -> None:
    js = nc.jetstream()
    await asyncio.gather(*(publish_until_stored(js, body, subject) for body in bodies))


async def test_each_id_has_one_effect_however_often_it_is_published(
    broker: Broker, tmp_path: Path
) -> None:
    """MF-7, T5: each one to five times, some after the broker was killed and started again."""
    times = {f"k-{number}": random.Random(number).randint(1, 5) for number in range(60)}
    copies = [a_command(key) for key, count in times.items() for _ in range(count)]
    random.Random(7).shuffle(copies)
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db"):
            nc = await connect_patiently(broker.url, reconnect_time_wait=0.05)
            await send(nc, *copies[: len(copies) // 2])
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await send(nc, *copies[len(copies) // 2 :])
            await settled(jetstream)
            await nc.close()
        assert count_applied(tmp_path / "w.db") == dict.fromkeys(times, 1)
        told = [one["payload"]["key"] for one in await read_sent(jetstream)]
        assert sorted(told) == sorted(times)


@pytest.mark.parametrize("pending", [1, 50, 1000])
async def test_what_fails_at_first_comes_late_and_changes_no_hash(
    broker: Broker, nc: Client, tmp_path: Path, pending: int
) -> None:
    """MF-11, T6: one of ten is sent back once; the state hash is that of an agent that never
    failed.
    """
    bodies = [a_command(f"k-{number}", fail=int(number % 10 == 3)) for number in range(30)]
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", max_ack_pending=pending):
            for body in bodies:
                await send(nc, body)
            await settled(jetstream)
    with open_read_only(tmp_path / "w.db") as db:
        found = hashes_of(db)
        ordered = [
            row[0] for row in db.execute("SELECT idempotency_key FROM events ORDER BY stream_seq")
        ]
    assert count_applied(tmp_path / "w.db") == {f"k-{number}": 1 for number in range(30)}
    assert ordered == [f"k-{number}" for number in range(30)]
    assert found.events == 30


class Undecided(CountingAgent):
    """Fails until it is told to go on; `name` and `filters` make two agents of it that read the
    same events.
    """

    def __init__(self, name: str, go_on: threading.Event) -> None:
        self.name = name
        self.filters = ("evt.default.demo.changed",)
        self.go_on = go_on
        self.begun = 0

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        self.begun += 1
        if not self.go_on.is_set():
            raise RuntimeError("not yet")
        ctx.state.put(ctx.idempotency_key, envelope.payload["note"])
        return [Outgoing(COUNTED, "counted", envelope.payload)]


async def test_stores_that_saw_changed_content_while_they_retried_replay_to_equal_hashes(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-10, MF-11: each key is published again, with other content and another time, while the
    first message waits for its retry.
    """
    keys = [f"k-{number}" for number in range(20)]
    go_on = threading.Event()
    agents = [Undecided("one", go_on), Undecided("two", go_on)]
    stores = [tmp_path / f"{agent.name}.db" for agent in agents]
    async with (
        an_agent(broker.url, stores[0], agents[0], ack_wait=30.0) as one,
        an_agent(broker.url, stores[1], agents[1], ack_wait=30.0) as two,
    ):
        await send(
            nc, *(a_command(key, note="first") for key in keys), subject="evt.default.demo.changed"
        )
        await until(lambda: all(agent.begun >= len(keys) for agent in agents))
        go_on.set()
        await send(
            nc, *(a_command(key, note="second") for key in keys), subject="evt.default.demo.changed"
        )
        await until(lambda: all(running.stats.applied >= 2 * len(keys) for running in (one, two)))
    found = [
        replay(agent, store, tmp_path / f"{agent.name}.replayed")
        for agent, store in zip(agents, stores, strict=True)
    ]
    assert [result.is_same for result in found] == [True, True]
    assert found[0].stored.state == found[1].stored.state, "both hold what came first"
    assert {note_of(store) for store in stores} == {("first",)}


def note_of(store: Path) -> tuple[str, ...]:
    """What the state says of all keys."""
    with contextlib.closing(sqlite3.connect(store)) as db:
        return tuple({json.loads(value) for (value,) in db.execute("SELECT value FROM memory")})


async def test_a_poisonous_message_is_one_dead_letter_and_is_terminated(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8: on `meshforge.failed.{original_subject}`, with its body; the queue is empty afterwards."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", ack_wait=30.0):
            acks = await record_acks(nc)
            await send(
                nc,
                a_command("good"),
                a_command("bad", poison=True),
                b"unreadable",
                a_command("other"),
            )
            await settled(jetstream)
            await until(lambda: len(final_of(acks)) >= 4)
        assert sorted(final_of(acks)) == [b"+ACK", b"+ACK", b"+TERM", b"+TERM"]
        found = sorted(await letters(jetstream), key=lambda letter: letter["reason"])
        assert [letter["reason"] for letter in found] == ["processing_error", "validation_failed"]
        assert found[0]["original_subject"] == SUBJECT
        assert (
            await jetstream.get_last("MESHFORGE_FAILED", f"meshforge.failed.{SUBJECT}") is not None
        )
        assert found[0]["message"]["payload"].encode() == a_command("bad", poison=True)
        assert count_applied(tmp_path / "w.db") == {"good": 1, "other": 1}


class Broken(CountingAgent):
    def receive(self, envelope: Envelope) -> None:
        raise Poison("broken")


async def test_a_dead_letter_that_an_operator_replays_is_applied_once_the_agent_is_mended(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", Broken()):
            await send(nc, a_command("k-1"))
            await settled(jetstream)
        listed = await call_command_async(
            "dlq", "list", "--of", "agents", "--json", "--nats-url", broker.url
        )
        assert [line["original_subject"] for line in listed.lines] == [SUBJECT]
        async with an_agent(broker.url, tmp_path / "w.db"):
            replayed = await call_command_async(
                "dlq", "replay", "--of", "agents", "--all", "--nats-url", broker.url
            )
            assert replayed.status == 0, replayed.err
            await settled(jetstream)
        assert count_applied(tmp_path / "w.db") == {"k-1": 1}
        assert await letters(jetstream) == []


@pytest.mark.slow  # a process dies five times
async def test_a_message_that_kills_the_process_is_given_up_after_five_starts_and_harms_no_other(
    broker: Broker, nc: Client
) -> None:
    """MF-8, T14."""
    agent = AgentProcess(broker.url)
    deaths = 0
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        try:
            await asyncio.to_thread(agent.start)
            await send(
                nc,
                *(
                    a_command(f"k-{number}", **({"kill": True} if number == 15 else {}))
                    for number in range(30)
                ),
            )
            while not await is_empty(jetstream):
                if not agent.is_alive():
                    assert agent.wait() == KILLED
                    deaths += 1
                    agent.spawn()
                await asyncio.sleep(0.02)
        finally:
            agent.remove()
        (letter,) = await letters(jetstream)
        assert (letter["reason"], letter["message"]["payload"].encode()) == (
            "maxdeliver_exhausted",
            a_command("k-15", kill=True),
        )
        assert deaths == 5
        assert count_applied(agent.store) == {
            f"k-{number}": 1 for number in range(30) if number != 15
        }


async def test_one_that_always_fails_is_tried_as_often_as_allowed_and_told_to_operators(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8, T14: once in the dead letters, with its body."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", max_deliver=2, ack_wait=30.0) as agent:
            await send(nc, a_command("bad", fail=99), a_command("good"))
            await settled(jetstream)
        (letter,) = await letters(jetstream)
        assert (letter["reason"], letter["source"]["deliveries"]) == ("maxdeliver_exhausted", 2)
        assert agent.causes == {f"delivery_limit:{DURABLE}"}
        assert (agent.stats.retried, agent.stats.dead, count_applied(tmp_path / "w.db")) == (
            1,
            1,
            {"good": 1},
        )


async def strand(jetstream: JetStream, nc: Client) -> None:
    """Deliver everything as often as the server allows, to a subscriber that never acks."""
    pull = f"$JS.API.CONSUMER.MSG.NEXT.MESHFORGE_COMMANDS.{DURABLE}"
    sub = await nc.subscribe("strand.>")
    # forty seconds at least; on a quiet machine it is done after half a second
    for number in range(2_000):
        await nc.publish(
            pull, json.dumps({"batch": 10, "no_wait": True}).encode(), reply=f"strand.{number}"
        )
        info = await jetstream.consumer("MESHFORGE_COMMANDS", DURABLE) or {}
        if (
            info["num_ack_pending"] == 0
            and info["num_pending"] == 0
            and info["delivered"]["consumer_seq"] >= 10
        ):
            break
        await asyncio.sleep(0.02)
    await sub.unsubscribe()


@pytest.mark.parametrize("is_advised", [True, False], ids=["advisory", "sweep"])
async def test_what_the_server_gave_up_is_applied_all_the_same(
    broker: Broker, nc: Client, tmp_path: Path, is_advised: bool
) -> None:
    """MF-8: five deliveries to a process that died each time are no attempt; also when the advisory
    was lost.
    """
    store = tmp_path / "w.db"
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, store, ack_wait=0.1):
            pass  # streams and durables are there
        await send(nc, a_command("k-1"), a_command("k-2", poison=True))
        await strand(jetstream, nc)
        await until(lambda: is_told(jetstream))
        assert (
            await jetstream.get_last(
                "ROUTER_ADVISORIES", advisory_subject("MESHFORGE_COMMANDS", DURABLE)
            )
            is not None
        )
        if not is_advised:
            await jetstream.ask("STREAM.PURGE.ROUTER_ADVISORIES")
        assert not await is_empty(jetstream)
        async with an_agent(broker.url, store, ack_wait=0.1, sweep=0.2) as agent:
            await settled(jetstream)
        assert agent.causes == {f"safety_net:{DURABLE}"}
        assert count_applied(store) == {"k-1": 1}
        assert [letter["original_subject"] for letter in await letters(jetstream)] == [SUBJECT]
        assert len(await read_sent(jetstream)) == 1


async def strand_first(jetstream: JetStream, nc: Client, deliveries: int) -> None:
    """Send the first message back as often as the server delivers it, and lose its advisory."""
    pull = f"$JS.API.CONSUMER.MSG.NEXT.MESHFORGE_COMMANDS.{DURABLE}"
    for _ in range(deliveries):
        delivery = await nc.request(pull, b"", timeout=10, old_style=True)
        await nc.request(delivery.reply, b"-NAK", timeout=10)
    with contextlib.suppress(TimeoutError, NatsError):
        await nc.request(
            pull, json.dumps({"batch": 1, "no_wait": True}).encode(), timeout=10, old_style=True
        )
    await until(
        lambda: jetstream.get_last(
            "ROUTER_ADVISORIES", advisory_subject("MESHFORGE_COMMANDS", DURABLE)
        )
    )
    await jetstream.ask("STREAM.PURGE.ROUTER_ADVISORIES")


async def test_a_message_that_waits_for_its_next_attempt_is_not_rescued_along_with_one_that_was_given_up(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8: it would have a second chain of attempts, so the message would be given up sooner."""
    store = tmp_path / "w.db"
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, store, ack_wait=300.0):
            pass  # streams and durables are there
        await send(nc, a_command("k-1"))
        await strand_first(jetstream, nc, AgentTopology().max_deliver)
        await send(nc, a_command("k-2", fail=2))
        async with an_agent(broker.url, store, ack_wait=300.0, sweep=0.1) as agent:
            await settled(jetstream)
        assert count_applied(store) == {"k-1": 1, "k-2": 1}
        assert agent.stats.rescued == 1


def keyless(*numbers: int) -> list[bytes]:
    return [
        json.dumps({"type": "count", "payload": {"note": number}}).encode() for number in numbers
    ]


async def test_commands_without_a_key_are_applied_after_their_stream_was_made_anew(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-4: sequences begin again there, the store does not."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        for commands in (keyless(*range(5)), keyless(*range(5, 13))):
            async with an_agent(broker.url, tmp_path / "w.db"):
                await send(nc, *commands)
                await settled(jetstream)
            await nc.jetstream().delete_stream("MESHFORGE_COMMANDS")
        assert sorted(one["payload"]["note"] for one in await read_sent(jetstream)) == list(
            range(13)
        )


async def test_what_the_server_gave_up_in_an_earlier_stream_says_nothing_of_the_new_one(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8: an advisory names a sequence alone; in the new stream another message has it, which the
    server did not give up.
    """
    store = tmp_path / "w.db"
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, store, ack_wait=0.1):
            pass  # streams and durables are there
        await send(nc, a_command("k-1"), a_command("k-2"))
        await strand(jetstream, nc)
        await until(lambda: is_told(jetstream))
        await nc.jetstream().delete_stream("MESHFORGE_COMMANDS")
        await create_streams(jetstream, *AgentTopology().streams())
        await send(nc, a_command("k-3"), a_command("k-4"))
        async with an_agent(broker.url, store, ack_wait=30.0) as agent:
            await until(lambda: net_is_done(jetstream))
            await settled(jetstream)
        assert count_applied(store) == {"k-3": 1, "k-4": 1}
        assert (agent.causes, agent.stats.rescued) == (set(), 0)


async def test_the_sweep_tells_of_a_sequence_again_after_the_stream_was_made_anew(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-8: the advisories' stream drops an id that it had a moment ago."""
    store = tmp_path / "w.db"
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        for keys in (("k-1", "k-2"), ("k-3", "k-4")):
            async with an_agent(broker.url, store, ack_wait=0.1):
                pass  # streams and durables are there
            await send(nc, *map(a_command, keys))
            await strand(jetstream, nc)
            await until(lambda: is_told(jetstream))
            await jetstream.ask("STREAM.PURGE.ROUTER_ADVISORIES")
            async with an_agent(broker.url, store, ack_wait=0.1, sweep=0.2):
                await settled(jetstream)
            await jetstream.ask("STREAM.PURGE.ROUTER_ADVISORIES")
            await nc.jetstream().delete_stream("MESHFORGE_COMMANDS")
        assert count_applied(store) == {f"k-{number}": 1 for number in range(1, 5)}


async def is_told(jetstream: JetStream) -> bool:
    """Whether the server said that it gave both messages up."""
    info = await jetstream.stream("ROUTER_ADVISORIES")
    return info is not None and info["state"]["messages"] >= 2


async def net_is_done(jetstream: JetStream) -> bool:
    info = await jetstream.consumer("ROUTER_ADVISORIES", f"MESHFORGE_COMMANDS_{DURABLE}_stranded")
    return info is not None and info["num_pending"] == 0 and info["num_ack_pending"] == 0


async def test_a_durable_belongs_to_one_store(broker: Broker, tmp_path: Path) -> None:
    """MF-12, T16: another store would find every redelivery new."""
    async with an_agent(broker.url, tmp_path / "one.db"):
        with pytest.raises(Misconfigured, match="belongs to another store"):
            async with an_agent(broker.url, tmp_path / "two.db"):
                pass
        with pytest.raises(Misconfigured, match="one process per store"):
            async with an_agent(broker.url, tmp_path / "one.db"):
                pass


class Nosy(CountingAgent):
    name = "nosy"
    filters = ("cmd.default.demo.*.count",)


async def test_filters_that_overlap_on_a_work_queue_are_refused_with_both_names(
    broker: Broker, tmp_path: Path
) -> None:
    """MF-12."""
    async with an_agent(broker.url, tmp_path / "one.db"):
        with pytest.raises(
            Misconfigured,
            match=(
                r"cmd\.default\.demo\.\*\.count overlaps with cmd\.default\.demo\.witness\.> "
                r"of witness_consumer"
            ),
        ):
            async with an_agent(broker.url, tmp_path / "two.db", Nosy()):
                pass


class Both(CountingAgent):
    filters = ("cmd.default.demo.witness.>", "evt.default.demo.heard", "evt.other.>")


async def test_an_agent_may_listen_to_events_and_to_commands(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-1, MF-3."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", Both()) as agent:
            await send(nc, a_command("a"))
            await send(nc, a_command("b"), subject="evt.default.demo.heard")
            await send(nc, a_command("c"), subject="evt.other.x.y")
            await send(nc, a_command("d"), subject="evt.default.demo.unheard")
            await until(lambda: agent.stats.applied >= 3)
        assert set(count_applied(tmp_path / "w.db")) == {"a", "b", "c"}
        info = await jetstream.stream("MESHFORGE_EVENTS") or {}
        assert info["state"]["messages"] == 6, "events are kept by limits: three sent, three told"


async def test_nothing_is_acknowledged_while_its_messages_cannot_be_stored(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-4: the stream of events is gone; the consumer waits, and goes on where it was."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db") as agent:
            await jetstream.ask("STREAM.DELETE.MESHFORGE_EVENTS")
            await send(nc, a_command("k-1"))
            await until(lambda: count_applied(tmp_path / "w.db") == {"k-1": 1})
            assert (agent.stats.applied, await is_empty(jetstream)) == (0, False)
            await create_streams(jetstream, AgentTopology().streams()[0])
            await settled(jetstream)
        assert [one["payload"] for one in await read_sent(jetstream)] == [
            {"key": "k-1", "times": 1}
        ]


async def test_what_was_applied_and_not_sent_is_sent_before_anything_is_fetched(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-6: start-up."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db"):
            await jetstream.ask("STREAM.DELETE.MESHFORGE_EVENTS")
            await send(nc, a_command("k-1"))
            await until(lambda: count_applied(tmp_path / "w.db") == {"k-1": 1})
        async with an_agent(broker.url, tmp_path / "w.db"):
            assert [one["payload"]["key"] for one in await read_sent(jetstream, COUNTED)] == ["k-1"]
            await settled(jetstream)
        assert len(await read_sent(jetstream)) == 1


async def test_a_store_that_fails_ends_the_agent_and_its_messages_stay(
    broker: Broker, nc: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MF-4: nothing is acknowledged that is not stored."""
    stores = opened_stores(monkeypatch)
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)

        async def work_on_a_full_disk() -> None:
            async with an_agent(broker.url, tmp_path / "w.db") as agent:
                db = stores[0].database.connection
                db.execute(
                    f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}"
                )
                await send(nc, *(a_command(f"k-{number}", note="x" * 500) for number in range(200)))
                await until(agent.work.done)

        with pytest.raises(SupervisionFailed) as caught:
            await work_on_a_full_disk()
        assert "the disk is full" in str(caught.value.__cause__)
        info = await jetstream.stream("MESHFORGE_COMMANDS") or {}
        stored_and_applied = len(count_applied(tmp_path / "w.db"))
        assert info["state"]["messages"] >= 200 - stored_and_applied
        async with an_agent(broker.url, tmp_path / "w.db"):
            await settled(jetstream)
        assert count_applied(tmp_path / "w.db") == {f"k-{number}": 1 for number in range(200)}


def opened_stores(monkeypatch: pytest.MonkeyPatch) -> list[Store]:
    """Every store that is opened from now on."""
    stores: list[Store] = []
    open_store = Store.__init__
    monkeypatch.setattr(
        Store, "__init__", lambda self, *given: (open_store(self, *given), stores.append(self))[0]
    )
    return stores


@pytest.mark.parametrize("after", [0, 20, 80])
async def test_an_agent_that_is_told_to_stop_leaves_nothing_half_done(
    broker: Broker, nc: Client, tmp_path: Path, after: int
) -> None:
    """MF-7: under load; what it applied is sent and acknowledged, what it did not begin is another
    life's.
    """
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", drain_s=60.0) as agent:
            sending = asyncio.create_task(
                send(nc, *(a_command(f"k-{number}") for number in range(200)))
            )
            await until(lambda: agent.stats.applied >= after)
        done = count_applied(tmp_path / "w.db")
        assert count_unsent(tmp_path / "w.db") == 0
        assert len(await read_sent(jetstream)) == len(done)
        await sending
        async with an_agent(broker.url, tmp_path / "w.db"):
            await settled(jetstream)
        assert count_applied(tmp_path / "w.db") == {f"k-{number}": 1 for number in range(200)}
        assert len(await read_sent(jetstream)) == 200


class Blocked(CountingAgent):
    """Its `apply` waits until the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        assert self.go.wait(120)
        return super().apply(ctx, envelope)


async def test_work_that_takes_longer_than_the_ack_wait_is_not_delivered_again(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-7: the store has a thread of its own, so in-progress signals go out while it is busy."""
    blocked = Blocked()
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", blocked, ack_wait=6.0):
            acks = await record_acks(nc)
            await send(nc, a_command("k-1"))
            try:
                # one each quarter of the ack wait
                await until(lambda: acks.count(b"+WPI") >= 6, within_s=30.0)
            finally:
                blocked.go.set()
            await settled(jetstream)
            info = await jetstream.consumer("MESHFORGE_COMMANDS", DURABLE) or {}
        assert info["delivered"]["consumer_seq"] == 1
        assert count_applied(tmp_path / "w.db") == {"k-1": 1}
