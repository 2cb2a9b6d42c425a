"""A bus of a test's own, its consumers at work, and envelopes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from router.bus import BusHandler
from router.bus.consumer import DEFAULT_OPTIONS
from router.bus.publisher import make_envelope
from router.config import load
from router.contracts.envelope import MessageEnvelope
from router.core.errors import BrokerUnavailable
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import StoredMessage
from router.sdk.bus import Bus
from tests.support.beside import beside
from tests.support.waiting import until

QUICK = replace(
    DEFAULT_OPTIONS, ack_wait=5.0, backoff=(0.02, 0.04, 0.08), heartbeat=0.2, pull_expires=1.0
)
# for a consumer that is killed: the server soon redelivers what it had in flight
MORTAL = replace(QUICK, ack_wait=0.5)

# The specification's own example (docs/reference/requirements.md#sr-12), as it stands there.
EXAMPLE: dict[str, Any] = {
    "schema_version": "1.0",
    "message_type": "LoopCreated",
    "message_id": "evt_01HQGX8K9JNPQR5MWTVYZ3F4BC",
    "correlation_id": "req_01HQGX8K9JNPQR5MWTVYZ3F4AB",
    "causation_id": None,
    "timestamp": "2024-01-15T14:30:00Z",
    "actor_id": "user_01HQGW8K9JNPQR5MWTVYZ3F4AA",
    "actor_kind": "HUMAN",
    "payload": {
        "loop_id": "loop_01HQGX8K9JNPQR5MWTVYZ3F4BD",
        "work_unit_id": "wu_01HQGX8K9JNPQR5MWTVYZ3F4AE",
        "goal": "Implement user authentication",
    },
    "idempotency_key": "sha256:abc123def456...",
}


def an_envelope(number: int = 1, **facts: Any) -> MessageEnvelope:
    """Event `evt_{number}`, a LoopCreated unless said."""
    given = {
        "message_type": "LoopCreated",
        "payload": {"n": number},
        "message_id": f"evt_{number}",
        **facts,
    }
    return make_envelope(**{"actor_id": "user_1", "actor_kind": "SYSTEM", **given})


@asynccontextmanager
async def a_bus(url: str, prefix: str, **variables: object) -> AsyncIterator[Bus]:
    """A bus of this prefix, by the environment's variables: `message_ttl_secs=60` is
    NATS_MESSAGE_TTL_SECS.
    """
    given = {"stream_prefix": prefix, "consumer_prefix": f"{prefix}-consumer", **variables}
    environ = {f"NATS_{name.upper()}": str(value) for name, value in given.items()}
    async with Bus(settings=load(None, {"nats.url": url}, environ).settings) as bus:
        yield bus


@asynccontextmanager
async def run_consumer(
    bus: Bus, handle: BusHandler, name: str = "projector", **options: Any
) -> AsyncIterator[None]:
    """A consumer at work, until the end of the block; then it drains."""
    async with beside(bus.consume(name, handle, **{"options": QUICK, **options})) as task:
        yield
        if task.done():
            await task


async def wait_until_settled(bus: Bus, name: str = "projector", category: str = "events") -> None:
    """Return when every stored message was delivered and has its final ack."""
    stream, durable = f"{bus.settings.stream_prefix}-{category}", bus.settings.durable(name)

    async def is_settled() -> bool:
        try:
            info, last = (
                await bus.jetstream.consumer(stream, durable),
                await bus.jetstream.stream(stream),
            )
        except BrokerUnavailable:  # it is being killed, or hard at work
            return False
        if info is None or last is None or info["num_ack_pending"]:
            return False
        return bool(info["delivered"]["stream_seq"] >= last["state"]["last_seq"])

    await until(is_settled, within_s=30)


async def read_bus_stream(bus: Bus, category: str) -> list[StoredMessage]:
    """Everything that stands in one of its streams."""
    async with open_reader(bus.jetstream, f"{bus.settings.stream_prefix}-{category}") as reader:
        return await reader.read(reader.total) if reader.total else []
