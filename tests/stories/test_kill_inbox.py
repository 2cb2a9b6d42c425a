"""Issue 8: an inbox killed anywhere between a delivery and its acknowledgement has each effect once, and each dead letter once (T3)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import orjson
import pytest
from nats.aio.client import Client

from router.delivery import topology
from router.delivery.api import JetStream
from router.delivery.connection import connect
from router.delivery.topology import Topology
from router.mailbox.inbox.rules import InboxRules, durable_of
from router.sdk.samples.service import SampleService
from tests.support.inbox import EFFECTS, EVENTS, SUBJECT, a_service, an_id, effects, is_settled, letters, unprocessed
from tests.support.inbox_process import HANDLER, InboxProcess, LiteralInbox
from tests.support.kills import Plan, a_server, killed, publish
from tests.support.postgres import Postgres, rows
from tests.support.waiting import until

POINTS = ("inbox_received", "inbox_handling", "inbox_handled", "inbox_marked", "inbox_dead_letter_stored", "after_commit", "after_ack")
BATCHES = {
    "inbox_received": (1, 1),  # a whole share may arrive at once
    "inbox_handled": (1, 3),  # batches of 1, 2, 4 …
    "inbox_marked": (1, 3),
}
OVER_HTTP = ("inbox_handled", "inbox_marked")
POISON = 10  # one in so many
ACK_WAIT_S = 1.0
NOTE = (
    f"One event in {POISON} is poison. Acknowledgements are waited for {ACK_WAIT_S:g} s; all other settings are the defaults. "
    "PostgreSQL with fsync on; a kill at random is a SIGKILL within the first 40 ms of a life's work. Calls beyond one for each "
    "event are what the handler's own memory (409) is for; in the row's transaction they have no effect."
)


class Row(NamedTuple):
    """One line of the table."""

    killed: str
    handler: str
    kills: int
    events: int
    effects: int
    lost: int
    double: int
    letters: int
    twice: int  # dead letters of one message beyond the first
    unmarked: int
    more_calls: int | None  # calls beyond one an event; None: they are not counted

    @property
    def is_exact(self) -> bool:
        return self.effects + self.letters == self.events and not (self.lost or self.double or self.twice or self.unmarked)


@pytest.mark.timeout(180)
@pytest.mark.slow  # eight deaths and restarts of a process
async def test_an_event_has_one_effect_wherever_the_inbox_is_killed(postgres: Postgres) -> None:
    """SD-15, SD-16, SD-36: in the row's own transaction. A kill at each point and one at random."""
    row = await _in_process(postgres, _plan(POINTS, kills=1, share=20, at_random=1))
    assert row.is_exact, row


@pytest.mark.slow  # two deaths and restarts of a process
async def test_a_service_hears_of_an_event_again_and_knows_it(postgres: Postgres) -> None:
    """SD-33, SD-36: over HTTP a call is at least once, and 409 is what makes one effect of it."""
    row = await _over_http(postgres, Plan(OVER_HTTP, 1, 0, 30, dict.fromkeys(OVER_HTTP, (1, 20))))
    assert row.is_exact, row


@pytest.mark.slow  # as above
async def test_the_literal_order_of_steps_loses_what_it_began(postgres: Postgres) -> None:
    """The control (X14): one lost for each kill."""
    row = await _literal(postgres)
    assert (row.lost, row.double) == (row.kills, 0), row


@pytest.mark.matrix
@pytest.mark.slow  # ten thousand events and a hundred kills
async def test_ten_thousand_events_and_kills_at_every_point(postgres: Postgres) -> None:
    """The whole table; it is kept in bench/results."""
    found = [await _in_process(postgres, _plan(point, kills=10, share=125)) for point in POINTS]
    found.append(await _in_process(postgres, Plan(None, 0, 10, 125)))
    over_http = [await _over_http(postgres, Plan(point, 5, 0, 40, {point: (1, 20)})) for point in OVER_HTTP]
    control = await _literal(postgres)
    text = _table([*found, *over_http, control])
    print(text)
    publish("kill_inbox", "An event has one effect, and poison one letter, whatever dies when", text, NOTE)
    assert all(row.is_exact for row in [*found, *over_http]), text
    assert sum(row.events for row in found) >= 10_000
    assert control.lost


def _plan(point: str | tuple[str, ...], *, kills: int, share: int, at_random: int = 0) -> Plan:
    """A share of new events reaches each pass that is asked for, whatever the life before left."""
    letters = (1, share // POISON)
    return Plan(point, kills, at_random, share, {**BATCHES, "inbox_dead_letter_stored": letters, "after_commit": letters})


async def _in_process(postgres: Postgres, plan: Plan) -> Row:
    async with _ground(postgres) as (url, nc, dsn):
        await _killed(InboxProcess(url, dsn, HANDLER, ack_wait_ms=int(ACK_WAIT_S * 1000)), plan, nc)
        return await _counted(plan, "its own transaction", nc, dsn, await effects(dsn))


async def _over_http(postgres: Postgres, plan: Plan) -> Row:
    service = SampleService()
    async with _ground(postgres) as (url, nc, dsn), a_service(service.app) as handler:
        await _killed(InboxProcess(url, dsn, "--url", handler, ack_wait_ms=int(ACK_WAIT_S * 1000)), plan, nc)
        row = await _counted(plan, "HTTP", nc, dsn, list(service.handled.elements()))
        return row._replace(more_calls=service.calls.total() - plan.messages)


async def _literal(postgres: Postgres) -> Row:
    plan = Plan("inbox_received", 2, 0, 20, {"inbox_received": (1, 15)})
    async with _ground(postgres) as (url, nc, dsn):
        await _killed(LiteralInbox(url, dsn), plan, nc, poison=0)
        row = await _counted(plan, "control: the literal order", nc, dsn, await effects(dsn), poison=0)
        return row._replace(killed="inbox_received", unmarked=0)


async def _killed(victim: InboxProcess, plan: Plan, nc: Client, *, poison: int = POISON) -> None:
    try:
        await killed(victim, plan, lambda share: _told(nc, share, poison))
        await until(lambda: is_settled(nc), within_s=60)
    finally:
        victim.remove()


async def _counted(plan: Plan, handler: str, nc: Client, dsn: str, found: list[str], *, poison: int = POISON) -> Row:
    there = Counter(found)
    sent = {an_id(number) for number in range(plan.messages) if not _is_poison(number, poison)}
    written = Counter(str(letter["message_id"]) for letter in await letters(nc)) if poison else Counter[str]()
    return Row(
        killed=plan.point if isinstance(plan.point, str) else "everywhere" if plan.point else "at random",
        handler=handler,
        kills=len(plan.ends),
        events=plan.messages,
        effects=len(there),
        lost=len(sent - set(there)),
        double=sum(there.values()) - len(there) + len(set(there) - sent),
        letters=len(written),
        twice=sum(written.values()) - len(written),
        unmarked=await unprocessed(dsn),
        more_calls=None,
    )


async def _told(nc: Client, share: range, poison: int) -> None:
    js = nc.jetstream()
    for_each = ((number, orjson.dumps({"poison": True, "answer": 422} if _is_poison(number, poison) else {})) for number in share)
    await asyncio.gather(*(js.publish(SUBJECT, data, headers={"Nats-Msg-Id": an_id(number)}) for number, data in for_each))


def _is_poison(number: int, one_in: int) -> bool:
    return one_in > 0 and number % one_in == one_in - 1


@asynccontextmanager
async def _ground(postgres: Postgres) -> AsyncIterator[tuple[str, Client, str]]:
    """A server, a client, a database; the stream and its durable are there already."""
    async with a_server() as (url, nc):
        connection = await connect({"servers": [url]})
        await topology.create(JetStream(connection), Topology((EVENTS,), (durable_of(InboxRules(ack_wait=ACK_WAIT_S)),)))
        await connection.close()
        dsn = await postgres.database()
        await rows(dsn, EFFECTS)
        yield url, nc, dsn


def _table(found: list[Row]) -> str:
    heads = (
        "killed",
        "handler",
        "kills",
        "events",
        "effects",
        "lost",
        "double",
        "dead letters",
        "letters twice",
        "rows left",
        "more calls",
    )
    lines = [heads, ("---", "---", *["---:"] * 9), *(tuple("–" if cell is None else str(cell) for cell in row) for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
