"""Rows of an outbox, published by a relay, handled by an inbox into another database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from router.mailbox.outbox.add import new_id
from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.chains.chain import Effect, Surroundings
from tests.rigs.faults.cluster.groups import Group
from tests.rigs.faults.standing import standing
from tests.support.inbox import EFFECTS
from tests.support.inbox_process import HANDLER
from tests.support.postgres import Postgres, rows

STREAM = "SEA_EVENTS"
ADD = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    VALUES (%s::uuid, 'order', 'o-' || %s::int, 'order_paid', '{}')"""
QUICK = {
    "mailbox.events.max_bytes": -1,
    "mailbox.relay.poll_most_ms": 50,
    "mailbox.relay.backoff_ms": 1000,
    "inbox.ack_wait_ms": 3000,
    "inbox.sweep_ms": 5000,
}
AGGREGATES = 20


class MailboxChain:
    """PostgreSQL has no fault: what is committed stands."""

    name = "mailbox"
    groups = (Group(STREAM), Group(STREAM, "vibespro__from_sea"), Group("VIBESPRO_DLQ"))

    async def start(self, stage: Surroundings) -> list[Child]:
        self._stage = stage
        self._postgres = await asyncio.to_thread(Postgres().start)
        self._here, self._there = await self._postgres.database(), await self._postgres.database()
        await rows(self._there, EFFECTS)
        relay = await stage.add_child(
            "relay",
            ("router", "outbox", "relay"),
            "outbox.ready",
            **QUICK,
            **{"mailbox.dsn": self._here},
        )
        other = {"mailbox.dsn": self._there, "mailbox.context": "vibespro", "inbox.source": "sea"}
        inbox = await stage.add_child(
            "inbox", ("router", "inbox", "consume", HANDLER), "inbox.ready", **QUICK, **other
        )
        return [relay, inbox]

    async def open(self) -> None: ...

    async def send(self, number: int) -> str:
        event = str(new_id())
        await rows(self._here, ADD, event, number % AGGREGATES)
        return event

    async def count(self) -> int:
        ((count,),) = await rows(self._there, "SELECT count(*) FROM effects")
        return int(str(count))

    async def read(self) -> Mapping[str, Sequence[Effect]]:
        published = [
            Effect(one.msg_id, one.stored_at)
            for one in await standing(self._stage.clients.current, STREAM)
        ]
        handled = await rows(self._there, "SELECT message_id::text, at FROM effects")
        return {
            "published": published,
            "handled": [Effect(str(one), cast("datetime", at).timestamp()) for one, at in handled],
        }

    async def close(self) -> None:
        await asyncio.to_thread(self._postgres.remove)
