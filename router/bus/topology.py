"""Declare the streams of the bus (docs/reference/contracts.md#streams); delivery creates them and
reports differences.

{prefix}-events     {prefix}.events.*       what happened
{prefix}-commands   {prefix}.commands.>     what is to be done: two tokens, so `*` would match none
                                            of them
{prefix}-queries    {prefix}.queries.*      no_ack: else the server's PubAck would reach a requester
                                            before the response
{prefix}-dlq        {prefix}.dlq.>          dead letters
"""

from __future__ import annotations

from router.bus.settings import BusSettings
from router.bus.subjects import COMMANDS, EVENTS, QUERIES
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Difference, StreamSpec, Topology, bucket

DEAD_LETTERS = "dlq"


def declare_streams(settings: BusSettings) -> Topology:
    """Every stream and bucket that the bus needs; a consumer declares its own durable."""
    attempts = settings.attempts
    records = bucket(attempts.name, ttl=attempts.ttl_ms / 1000, replicas=attempts.replicas)
    return Topology(streams=(*_stream_specs(settings), _letters(settings), records))


async def apply_topology(
    jetstream: JetStream, settings: BusSettings, wanted: Topology
) -> list[Difference]:
    """Create what is missing, if the settings allow it; return what then differs. Raises
    BrokerUnavailable, BrokerRefused.
    """
    found = await (topology.create if settings.is_making else topology.compare)(jetstream, wanted)
    # a consumer of it waits, and says so
    return [one for one in found if one.state != topology.PAUSED]


def stream_of(settings: BusSettings, category: str) -> str:
    """`category`: events, commands, queries or dlq."""
    return f"{settings.stream_prefix}-{category}"


def _stream_specs(settings: BusSettings) -> tuple[StreamSpec, ...]:
    prefix = settings.stream_prefix
    return (
        _stream(settings, EVENTS, f"{prefix}.{EVENTS}.*"),
        _stream(settings, COMMANDS, f"{prefix}.{COMMANDS}.>"),
        _stream(settings, QUERIES, f"{prefix}.{QUERIES}.*", no_ack=True),
    )


def _stream(
    settings: BusSettings, category: str, subject: str, *, no_ack: bool = False
) -> StreamSpec:
    return StreamSpec(
        name=stream_of(settings, category),
        subjects=(subject,),
        max_age=settings.message_ttl_secs,
        duplicate_window=settings.duplicate_window_secs,
        max_per_subject=settings.max_msgs_per_subject,
        replicas=settings.letters.replicas,
        no_ack=no_ack,
    )


def _letters(settings: BusSettings) -> StreamSpec:
    return StreamSpec(
        name=stream_of(settings, DEAD_LETTERS),
        subjects=(f"{settings.stream_prefix}.{DEAD_LETTERS}.>",),
        max_age=settings.letters.max_age_ms / 1000,
        max_bytes=settings.letters.max_bytes,
        duplicate_window=settings.letters.duplicate_window_ms / 1000,
        replicas=settings.letters.replicas,
        discard="new",  # an old dead letter is never dropped for a newer one: the consumer pauses
    )
