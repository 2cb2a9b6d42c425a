"""T5: an id that is published again and again has one effect; what the server let through meanwhile
is counted.

Each id comes one to five times by two connections, once more when the server's memory of ids is
over, and once more by each connection after the server was killed and started again. A work queue
forgets ids with its last message, a stream kept by limits remembers them as long as its duplicate
window.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from router.contracts.envelope import envelope_bytes
from router.delivery.wire.api import JetStream
from router.sdk.bus import Bus
from tests.support.agents import (
    a_command,
    an_agent,
    count_applied,
    is_empty,
    publish_until_stored,
    read_sent,
)
from tests.support.broker import Broker
from tests.support.bus import a_bus, an_envelope, run_consumer, wait_until_settled
from tests.support.counting_agent import COUNTED, SUBJECT, CountingAgent
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently
from tests.support.result_pages import write_page
from tests.support.waiting import until

SHORT_S, LONG_S = 0.2, 120.0
HEARD = "evt.default.demo.heard"
NOTE = (
    "Each id comes one to five times by two connections, once more when the window is over "
    "(short windows only), and once more by each"
    " connection after the server was killed and started again. Let through: copies beyond "
    "the first that were stored. Sent twice:"
    " messages of the agent's own that it stored again after the kill, when their stream "
    "had forgotten them; that window is to be"
    " longer than a broker may be away."
)

Copy = tuple[str, bytes, str]  # subject, body, Nats-Msg-Id


class Row(NamedTuple):
    """One line of the table."""

    consumer: str
    stream: str
    window_s: float
    ids: int
    published: int
    let_through: int
    effects: int  # ids that have exactly one
    sent_twice: int  # of the agent's own messages, whose stream forgets ids as fast


class Listening(CountingAgent):
    filters = ("cmd.default.demo.witness.>", HEARD)


async def test_copies_have_one_effect_on_an_agent_whatever_the_server_lets_through(
    broker: Broker, tmp_path: Path
) -> None:
    """MF-7: a work queue that is empty has forgotten every id, well within its window."""
    queue, kept = await _agent(broker, tmp_path / "w.db", LONG_S, 30)
    assert (queue.effects, kept.effects, queue.sent_twice, kept.sent_twice) == (30, 30, 0, 0)
    assert (queue.let_through > 0, kept.let_through) == (True, 0)


async def test_copies_have_one_effect_on_the_bus_though_its_window_is_over(
    broker: Broker, tmp_path: Path
) -> None:
    """SR-22, SR-23."""
    row = await _bus(broker, tmp_path / "keys.db", SHORT_S, 30)
    assert row.effects == 30
    assert row.let_through >= 30


@pytest.mark.matrix
@pytest.mark.slow  # thousands of copies
async def test_copies_of_a_thousand_ids(tmp_path: Path) -> None:
    """The whole table; it is kept in bench/results."""
    found: list[Row] = []
    for window_s in (SHORT_S, LONG_S):
        for run in (_agent, _bus):
            with Broker() as broker:
                row = await run(broker, tmp_path / f"{run.__name__}{window_s}.db", window_s, 1000)
            found += row if isinstance(row, list) else [row]
    heads = (
        "consumer",
        "stream",
        "window s",
        "ids",
        "published",
        "let through",
        "effects",
        "sent twice",
    )
    lines = [
        heads,
        ("---", "---", *["---:"] * 6),
        *(tuple(str(cell) for cell in row) for row in found),
    ]
    write_page(
        "copies",
        "Copies have one effect",
        "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n",
        NOTE,
    )
    assert all(row.effects == row.ids for row in found), found
    assert not any(row.sent_twice for row in found if row.window_s == LONG_S), found


async def _agent(broker: Broker, store: Path, window_s: float, ids: int) -> list[Row]:
    """A work queue and a stream kept by limits at once. `effects` counts the ids whose effect, in
    state and as a message, is one.
    """
    queued = [(SUBJECT, a_command(f"q-{number}"), f"q-{number}") for number in range(ids)]
    heard = [(HEARD, a_command(f"h-{number}"), f"h-{number}") for number in range(ids)]
    async with (
        connected(broker.url) as connection,
        an_agent(broker.url, store, Listening(), duplicate_window=window_s),
    ):
        jetstream = JetStream(connection)
        published = await _published(
            broker, [*queued, *heard], window_s, lambda: _agent_is_idle(jetstream)
        )
        of_queue = int(((await jetstream.stream("MESHFORGE_COMMANDS")) or {})["state"]["last_seq"])
        of_limits = len(await read_sent(jetstream, HEARD))
        told = Counter(one["payload"]["key"] for one in await read_sent(jetstream, COUNTED))
    applied = count_applied(store)
    assert set(told) == set(applied), "each effect was told, and nothing else"
    return [
        Row(
            "agent",
            "work queue",
            window_s,
            ids,
            published[SUBJECT],
            of_queue - ids,
            _once(applied, "q"),
            _twice(told, "q"),
        ),
        Row(
            "agent",
            "limits",
            window_s,
            ids,
            published[HEARD],
            of_limits - ids,
            _once(applied, "h"),
            _twice(told, "h"),
        ),
    ]


def _once(times: Counter[str], head: str) -> int:
    return sum(count == 1 for key, count in times.items() if key.startswith(head))


def _twice(times: Counter[str], head: str) -> int:
    return sum(count - 1 for key, count in times.items() if key.startswith(head))


async def _agent_is_idle(jetstream: JetStream) -> bool:
    """Nothing waits on either stream, and the durable has been given all that was heard."""
    if not await is_empty(jetstream):
        return False
    info = await jetstream.consumer("MESHFORGE_EVENTS", "witness_consumer") or {}
    last = await jetstream.get_last("MESHFORGE_EVENTS", HEARD)
    return (
        not info["num_ack_pending"]
        and last is not None
        and info["delivered"]["stream_seq"] >= last.sequence
    )


async def _bus(broker: Broker, store: Path, window_s: float, ids: int) -> Row:
    seen: Counter[str] = Counter()
    envelopes = [an_envelope(number) for number in range(ids)]
    copies = [("sr.events.loop", envelope_bytes(one), one.idempotency_key) for one in envelopes]
    async with (
        _a_bus_with(broker.url, window_s) as bus,
        run_consumer(bus, lambda one: seen.update([one.message_id]), store=store),
    ):

        async def is_idle() -> bool:
            await wait_until_settled(bus)
            return True

        published = await _published(broker, copies, window_s, is_idle)
        last = int(((await bus.jetstream.stream("sr-events")) or {})["state"]["last_seq"])
    return Row(
        "bus", "limits", window_s, ids, published.total(), last - ids, _once(seen, "evt_"), 0
    )


@asynccontextmanager
async def _a_bus_with(url: str, window_s: float) -> AsyncIterator[Bus]:
    """Its variable knows whole seconds only."""
    async with a_bus(url, "sr", consumer_prefix="sr-consumer") as bus:
        info = await bus.jetstream.stream("sr-events") or {}
        await bus.jetstream.ask(
            "STREAM.UPDATE.sr-events", {**info["config"], "duplicate_window": int(window_s * 1e9)}
        )
        bus.settings = bus.settings.model_copy(update={"duplicate_window_secs": window_s})
        yield bus


async def _published(
    broker: Broker, copies: Sequence[Copy], window_s: float, is_idle: Callable[[], Awaitable[bool]]
) -> Counter[str]:
    """All the copies of them, counted by subject; everything that was let through is settled when
    this returns.
    """
    often = [copy for copy in copies for _ in range(random.Random(copy[2]).randint(1, 5))]
    random.Random(5).shuffle(often)
    async with AsyncExitStack() as opened:
        clients = [await _client(opened, broker) for _ in range(2)]
        await _all(clients, often)
        await until(is_idle, within_s=120)
        if window_s == SHORT_S:
            await until(lambda: _is_forgotten(clients[0].jetstream(), copies[-1]))
            await _all(clients, copies)
            await until(is_idle, within_s=120)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await _all(clients, [*copies, *copies])
        await until(is_idle, within_s=120)
    return Counter(
        subject for subject, _, _ in [*often, *copies * (3 if window_s == SHORT_S else 2)]
    )


async def _client(opened: AsyncExitStack, broker: Broker) -> Client:
    client = await connect_patiently(
        broker.url, reconnect_time_wait=0.02, max_reconnect_attempts=-1
    )
    opened.push_async_callback(client.close)
    return client


async def _all(clients: Sequence[Client], copies: Sequence[Copy]) -> None:
    """Stored or known, each of them, by the connections in turn."""
    for start in range(0, len(copies), 200):
        some = enumerate(copies[start : start + 200])
        await asyncio.gather(*(_one(clients[place % 2].jetstream(), copy) for place, copy in some))


async def _one(js: JetStreamContext, copy: Copy) -> None:
    subject, body, msg_id = copy
    await publish_until_stored(js, body, subject, _named(msg_id))


async def _is_forgotten(js: JetStreamContext, copy: Copy) -> bool:
    """Whether the server has no memory of the id any more: it is stored again then."""
    subject, body, msg_id = copy
    return not (await js.publish(subject, body, headers=_named(msg_id))).duplicate


def _named(msg_id: str) -> dict[str, str]:
    return {"Nats-Msg-Id": msg_id}
