"""T20: a relay and the inbox at the other end of its stream, at a steady rate for an hour: nothing
grows that should not.

    python -m tests.mailbox.soak --minutes 60             at half of the rate at which both empty a
                                                          backlog, measured first
    python -m tests.mailbox.soak --minutes 15 --rate 100

Everything that is kept has an end here: published rows, processed rows and the stream's events
leave after three minutes, and what has not been handled by then is gone. So the sender holds its
rows back while a minute of them is on the way, and says how long it did: a machine that others need
too is no loss of ours. Every ten seconds both processes' resident memory, the tables' dead rows and
sizes are written down; the table goes to bench/results.
"""

import argparse
import asyncio
import contextlib
import subprocess
import time
from collections.abc import Sequence

import psycopg
from msgspec import Struct

from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.inbox_process import InboxProcess
from tests.support.postgres import Postgres, rows
from tests.support.relay import Relay, names_for
from tests.support.result_pages import write_page
from tests.support.waiting import until

KEEP_MS = 180_000
WINDOW_MS = 60_000
BACKLOG = 10_000  # emptied once, to know the peak
TICK_S = 0.2
LOOK_S = 10.0
BEHIND_S = 60.0  # of rows may be on their way
WARM_UP = 0.25  # of the time: until the first rows leave and the allocators have what they need
MIB = 1024 * 1024
TABLES = ("outbox_events", "outbox_publish_acks", "inbox_messages")
HANDLER = "tests.mailbox.soak:count"
COUNTER = "CREATE TABLE handled (n BIGINT NOT NULL); INSERT INTO handled VALUES (0)"
INSERT = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT gen_random_uuid(), 'order', 'o-' || n %% 1000, 'order_paid', jsonb_build_object('n', n, 'note', repeat('x', 100))
    FROM generate_series(1, %s) AS n"""
FIGURES = """
    SELECT sum(n_dead_tup)::bigint, sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables
    WHERE relname = ANY(%s)"""


async def count(connection: Driver, _: InboxEvent) -> HandlerResult:
    """The inbox's handler: one effect, in a table that does not grow."""
    await connection.execute("UPDATE handled SET n = n + 1")
    return HandlerResult.PROCESSED


class Look(Struct, frozen=True):
    """One moment: seconds since the beginning, rows, bytes."""

    at: float
    sent: int
    handled: int
    relay_rss: int
    inbox_rss: int
    outbox_dead: int
    outbox_bytes: int
    inbox_dead: int
    inbox_bytes: int


class Ground:
    """Two databases, a broker, a process on each side; how many rows were committed."""

    def __init__(self, url: str, outbox: str, inbox: str) -> None:
        self.outbox, self.inbox, self.sent = outbox, inbox, 0
        events = {
            "mailbox.events.max_age_ms": KEEP_MS,
            "mailbox.events.duplicate_window_ms": WINDOW_MS,
        }
        self._relay = Relay(
            {
                **names_for(url, outbox),
                **events,
                "mailbox.relay.round": 8000,
                "mailbox.relay.keep_ms": KEEP_MS,
            },
            None,
        )
        of = {"mailbox.context": "vibespro", "inbox.source": "sea", "inbox.keep_ms": KEEP_MS}
        self._inbox = InboxProcess(url, inbox, HANDLER, ack_wait_ms=120_000, settings=of)

    async def start(self) -> None:
        await rows(self.inbox, COUNTER)
        for process in (self._relay, self._inbox):
            await asyncio.to_thread(process.start)

    async def send(
        self, connection: psycopg.AsyncConnection[tuple[object, ...]], number: int
    ) -> None:
        await connection.execute(INSERT, (number,))
        self.sent += number

    async def handled(self) -> int:
        return int(str((await rows(self.inbox, "SELECT n FROM handled"))[0][0]))

    async def is_done(self) -> bool:
        return await self.has_at_most(0)

    async def has_at_most(self, most: float) -> bool:
        """Whether no more rows than that are on their way."""
        return self.sent - await self.handled() <= most

    async def look(self, since: float) -> Look:
        ((outbox_dead, outbox_bytes),) = await rows(self.outbox, FIGURES, list(TABLES))
        ((inbox_dead, inbox_bytes),) = await rows(self.inbox, FIGURES, list(TABLES))
        facts = (outbox_dead, outbox_bytes, inbox_dead, inbox_bytes)
        memory = (_resident(self._relay.pid), _resident(self._inbox.pid))
        return Look(
            time.monotonic() - since,
            self.sent,
            await self.handled(),
            *memory,
            *(int(str(one)) for one in facts),
        )

    def remove(self) -> None:
        self._relay.remove()
        self._inbox.remove()


def _resident(pid: int) -> int:
    """Bytes."""
    said = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(said.stdout) * 1024


async def peak(ground: Ground) -> float:
    """Events a second, from the outbox to their effects, while a backlog lasts."""
    async with await psycopg.AsyncConnection.connect(ground.outbox, autocommit=True) as connection:
        await ground.send(connection, BACKLOG)
    since = time.monotonic()
    await until(ground.is_done, within_s=600)
    return BACKLOG / (time.monotonic() - since)


async def steadily(
    ground: Ground, rate: float, minutes: float, most: float
) -> tuple[list[Look], float]:
    """The looks, while so many rows a second are committed; and how many seconds they were held
    back, for more than `most` were behind.
    """
    since, looks, paid, held = time.monotonic(), list[Look](), 0, 0.0
    async with await psycopg.AsyncConnection.connect(ground.outbox, autocommit=True) as connection:
        while (now := time.monotonic() - since) < minutes * 60:
            due = int(rate * (now - held)) - paid
            if due > 0:
                await ground.send(connection, due)
                paid += due
            if not looks or now >= looks[-1].at + LOOK_S:
                looks.append(await ground.look(since))
                held += await _held_back(ground, most)
            await asyncio.sleep(TICK_S)
    return looks, held


async def _held_back(ground: Ground, most: float) -> float:
    """Seconds until no more rows than `most` are on their way, and half of that where there were
    more.
    """
    if await ground.has_at_most(most):
        return 0.0
    since = time.monotonic()
    await until(
        lambda: ground.has_at_most(most / 2),
        within_s=600,
        what="half of what is on its way handled",
    )
    return time.monotonic() - since


def slope_of(looks: Sequence[tuple[float, float]]) -> float:
    """Least squares: how much more in an hour, for (seconds, amount)."""
    times, amounts = [at for at, _ in looks], [amount for _, amount in looks]
    middle, mean = sum(times) / len(times), sum(amounts) / len(amounts)
    spread = sum((at - middle) ** 2 for at in times)
    return sum((at - middle) * (amount - mean) for at, amount in looks) / spread * 3600


def told(looks: Sequence[Look]) -> str:
    """Four moments, and the slopes after the warm-up, as Markdown."""
    heads = (
        "minute",
        "sent",
        "handled",
        "relay, RSS MiB",
        "inbox, RSS MiB",
        "outbox, dead rows",
        "its tables, MiB",
        "inbox, dead rows",
        "its table, MiB",
    )
    last = len(looks) - 1
    lines = [
        heads,
        ("---:",) * len(heads),
        *(_line(looks[round(last * part)]) for part in (WARM_UP, 0.5, 0.75, 1.0)),
    ]
    after = looks[round(last * WARM_UP) :]
    lines.append(("most, after the warm-up", "", "", *_most(after)))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    relay, inbox = (
        slope_of([(look.at, getattr(look, name) / MIB) for look in after])
        for name in ("relay_rss", "inbox_rss")
    )
    return (
        f"{table}\n\nResident memory grows by {relay:+.1f} MiB/h (relay) and {inbox:+.1f} "
        "MiB/h (inbox), by least squares.\n"
    )


def _line(look: Look) -> tuple[str, ...]:
    return (f"{look.at / 60:.1f}", str(look.sent), str(look.handled), *_figures(look))


def _figures(look: Look) -> tuple[str, ...]:
    memory = (f"{look.relay_rss / MIB:.1f}", f"{look.inbox_rss / MIB:.1f}")
    return (
        *memory,
        str(look.outbox_dead),
        f"{look.outbox_bytes / MIB:.1f}",
        str(look.inbox_dead),
        f"{look.inbox_bytes / MIB:.1f}",
    )


def _most(looks: Sequence[Look]) -> tuple[str, ...]:
    return _figures(
        Look(*(max(getattr(look, name) for look in looks) for name in Look.__struct_fields__))
    )


async def soak(minutes: float, rate: float | None, note: str) -> None:
    postgres, broker = Postgres(16).start(), Broker().start()
    ground = Ground(broker.url, await postgres.database(), await postgres.database())
    try:
        await ground.start()
        fastest = await peak(ground)
        steady = rate or fastest / 2
        looks, held = await steadily(ground, steady, minutes, min(steady, fastest) * BEHIND_S)
        with contextlib.suppress(AssertionError):
            await until(ground.is_done, within_s=120)
        handled = await ground.handled()
    finally:
        ground.remove()
        broker.remove()
        postgres.remove()
    text = told(looks)
    facts = (
        f"{minutes:g} minutes at {steady:.0f} events/s, {steady / fastest:.0%} of the "
        f"{fastest:.0f}/s at which both emptied a backlog of "
        f"{BACKLOG} just before; the sender held back for {held:.0f} s. Of {ground.sent} "
        f"events {handled} were handled. "
        f"Rows and events are kept for {KEEP_MS // 1000} s. PostgreSQL 16, fsync on. {note}"
    )
    write_page("mailbox_soak", "A relay and an inbox at a steady rate", text, facts.strip())
    print(text, facts, sep="\n")
    assert handled == ground.sent, "an event was lost or handled twice"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.mailbox.soak",
        description=__doc__.partition("\n\n")[0] if __doc__ else None,
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument(
        "--rate", type=float, help="events a second; default: half of what is measured"
    )
    parser.add_argument(
        "--note", default="", help="what is to be known about the machine, for the table"
    )
    options = parser.parse_args()
    asyncio.run(soak(options.minutes, options.rate, options.note))
