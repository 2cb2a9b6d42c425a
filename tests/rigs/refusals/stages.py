"""The kinds of processes of the matrix: the bus, agents, the inbox; `router_stage` has the router,
`work_stages` workers and the relay.

Each has the stores of its effects and of its input, the message that needs each, and messages that
need none.

`need` sends the message and returns the word for its end: what its requester is told, or what is
stored in the end. `ask_others` returns how many of the others fail; `is_troubled` whether the
process says that some wait; `is_well` readiness; `make_whole` does what an operator does once the
streams are as they were.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from nats.aio.client import Client

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope
from router.bus import Nak, Term
from router.contracts.envelope import MessageEnvelope
from router.core.errors import Poison
from router.delivery.consume.advisories import ADVISORY_STREAM
from router.delivery.wire.api import JetStream
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.postgres import Driver
from router.sdk.bus import Bus
from tests.support import inbox as inboxes
from tests.support.agents import Running as RunningAgent
from tests.support.agents import a_command, an_agent, publish_until_stored, read_sent
from tests.support.bus import QUICK, a_bus, an_envelope, read_bus_stream
from tests.support.counting_agent import COUNTED, SUBJECT
from tests.support.delivery import connected
from tests.support.waiting import until

OTHERS = 13
WITHIN_S = 20.0
NEEDS_IT = 99  # the number of the message that needs the store


class Stage(Protocol):
    stores: Mapping[str, str]  # the stream of each store

    async def need(self, store: str) -> str: ...

    async def ask_others(self) -> int: ...

    async def is_troubled(self) -> bool: ...

    async def is_well(self) -> bool: ...

    async def make_whole(self) -> None: ...


class BusStage:
    """A consumer of the bus: it refuses one event for good, sends one back once, and takes the
    others.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.stores = {
            "dead letters": f"{bus.settings.stream_prefix}-dlq",
            "attempts": f"KV_{bus.settings.attempts.name}",
        }
        self._taken: set[str] = set()
        self._tries = 0

    def handle(self, envelope: MessageEnvelope) -> Nak | Term | None:
        if envelope.payload.get("refused"):
            return Term("refused")
        if envelope.payload.get("late"):
            self._tries += 1
            if self._tries == 1:
                return Nak("later")
        self._taken.add(envelope.message_id)
        return None

    async def need(self, store: str) -> str:
        fields = {"refused": True} if store == "dead letters" else {"late": True}
        await self._bus.publisher.event(an_envelope(NEEDS_IT, payload=fields))
        await until(self._is_booked, within_s=WITHIN_S)
        if store == "attempts":
            return "taken"
        return "dead letter" if await read_bus_stream(self._bus, "dlq") else "left out"

    async def _is_booked(self) -> bool:
        """All that is delivered has its ack, and the message was handled."""
        info = await self._bus.jetstream.consumer(
            f"{self._bus.settings.stream_prefix}-events", self._bus.settings.durable("projector")
        )
        return info is not None and info["num_ack_pending"] == info["num_pending"] == 0

    async def ask_others(self) -> int:
        wanted = {f"evt_{number}" for number in range(OTHERS)}
        await asyncio.gather(
            *(self._bus.publisher.event(an_envelope(number)) for number in range(OTHERS))
        )
        return await count_missing(lambda: list_missing(wanted, self._taken))

    async def is_troubled(self) -> bool:
        info = await self._bus.jetstream.consumer(
            f"{self._bus.settings.stream_prefix}-events", self._bus.settings.durable("projector")
        )
        return info is not None and info["num_ack_pending"] > 0

    async def is_well(self) -> bool:
        return await self._is_booked()

    async def make_whole(self) -> None:
        """It makes its own durable again."""


@asynccontextmanager
async def a_bus_stage(nc: Client, url: str, prefix: str) -> AsyncIterator[Stage]:
    async with a_bus(url, prefix) as bus:
        stage = BusStage(bus)
        consuming = asyncio.create_task(bus.consume("projector", stage.handle, options=QUICK))
        try:
            await until(
                lambda: bus.jetstream.consumer(
                    f"{prefix}-events", bus.settings.durable("projector")
                )
            )
            yield stage
        finally:
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)


class QuietAgent:
    """Sends a message only where it is told to."""

    name = "witness"

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def receive(self, envelope: Envelope) -> None:
        if envelope.payload.get("poison"):
            raise Poison("refused by the witness")

    def apply(self, ctx: Context, envelope: Envelope) -> list[Outgoing]:
        self.taken.add(ctx.idempotency_key)
        return (
            [Outgoing(COUNTED, "counted", {"key": ctx.idempotency_key})]
            if envelope.payload.get("sends")
            else []
        )


class AgentStage:
    def __init__(
        self, nc: Client, jetstream: JetStream, agent: QuietAgent, running: RunningAgent
    ) -> None:
        self._nc, self._jetstream, self._agent, self._running = nc, jetstream, agent, running
        self.stores = {
            "outgoing messages": "MESHFORGE_EVENTS",
            "dead letters": "MESHFORGE_FAILED",
            "advisories": ADVISORY_STREAM,
        }

    async def need(self, store: str) -> str:
        fields: dict[str, Any] = {
            "outgoing messages": {"sends": True},
            "dead letters": {"poison": True},
        }.get(store, {})
        await self._send(a_command("needs-it", **fields))
        await until(self._is_booked, within_s=WITHIN_S)
        letters = await read_sent(self._jetstream, ">", "MESHFORGE_FAILED")
        if store == "advisories":
            return "taken"
        if store == "dead letters":
            return "dead letter" if letters else "left out"
        return str(letters[0]["last_error"]["code"]) if letters else "sent"

    async def _send(self, body: bytes) -> None:
        await publish_until_stored(self._nc.jetstream(), body, SUBJECT)

    async def _is_booked(self) -> bool:
        info = await self._jetstream.stream("MESHFORGE_COMMANDS")
        return info is not None and info["state"]["messages"] == 0

    async def ask_others(self) -> int:
        wanted = {f"k-{number}" for number in range(OTHERS)}
        await asyncio.gather(*(self._send(a_command(key)) for key in wanted))
        return await count_missing(lambda: list_missing(wanted, self._agent.taken))

    async def is_troubled(self) -> bool:
        return bool(self._running.stats.waiting)

    async def is_well(self) -> bool:
        return not (self._running.stats.waiting or self._running.stats.paused)

    async def make_whole(self) -> None:
        """It makes its own durable again."""


@asynccontextmanager
async def an_agent_stage(nc: Client, url: str, home: Path) -> AsyncIterator[Stage]:
    agent = QuietAgent()
    async with (
        connected(url) as connection,
        an_agent(url, home / "witness.db", agent, ack_wait=30.0) as running,
    ):
        yield AgentStage(nc, JetStream(connection), agent, running)


class InboxStage:
    """An inbox whose handler refuses one event for good."""

    def __init__(self, nc: Client, dsn: str, running: inboxes.Running) -> None:
        self._nc, self._dsn, self._running = nc, dsn, running
        self.stores = {"dead letters": "SEA_DLQ", "advisories": ADVISORY_STREAM}

    async def need(self, store: str) -> str:
        await inboxes.publish(self._nc, [NEEDS_IT if store == "dead letters" else OTHERS])
        await until(lambda: inboxes.is_settled(self._nc), within_s=WITHIN_S)
        if store == "advisories":
            return "taken"
        return "dead letter" if await inboxes.read_dead_letters(self._nc) else "left out"

    async def ask_others(self) -> int:
        await inboxes.publish(self._nc, range(OTHERS))
        wanted = {inboxes.an_id(number) for number in range(OTHERS)}

        async def list_missing() -> set[str]:
            return wanted - set(await inboxes.effects(self._dsn))

        return await count_missing(list_missing)

    async def is_troubled(self) -> bool:
        return "others go on" in self._running.inbox.consumer.health.detail

    async def is_well(self) -> bool:
        return self._running.inbox.consumer.health.is_ready

    async def make_whole(self) -> None:
        """It makes its own durable again."""


@asynccontextmanager
async def an_inbox_stage(nc: Client, url: str, dsn: str) -> AsyncIterator[Stage]:
    async def handle(connection: Driver, event: InboxEvent) -> HandlerResult | None:
        if event.message_id == inboxes.an_id(NEEDS_IT):
            return HandlerResult.POISON
        return await inboxes.record(connection, event)

    async with inboxes.an_inbox(url, dsn, handle) as running:
        await until(lambda: running.inbox.consumer.health.is_ready)
        yield InboxStage(nc, dsn, running)


async def list_missing(wanted: set[str], taken: set[str]) -> set[str]:
    return wanted - taken


async def count_missing(list_missing: Callable[[], Awaitable[set[str]]]) -> int:
    """How many of the others are not handled in a while in which all of them are, on a busy machine
    too.
    """

    async def are_handled() -> bool:
        return not await list_missing()

    with contextlib.suppress(AssertionError):
        await until(are_handled, within_s=WITHIN_S)
    return len(await list_missing())
