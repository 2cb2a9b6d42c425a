"""The subject of each message (docs/reference/requirements.md#sr-18):
`{prefix}.{events|commands|queries}.{domain…}`. And the streams that store them.

    LoopCreated, LoopPaused …     sr.events.loop
    iteration.start               sr.commands.iteration.start
    anything else                 sr.events.other

An event's domain is the noun that its type begins with: `LoopArchived` is the loop's too, though
the specification does not list it, and `LooperStarted` is not.
"""

from __future__ import annotations

import re

from router.bus.settings import BusSettings
from router.core import ids
from router.core.errors import Poison
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Difference, StreamSpec, Topology, bucket

EVENTS, COMMANDS, QUERIES = "events", "commands", "queries"
OTHER = "other"

# docs/reference/requirements.md#sr-18: the noun of an event type -> the last token of its subject,
# in the order of the table.
DOMAINS = {
    "Loop": "loop",
    "Iteration": "iteration",
    "Candidate": "candidate",
    "Run": "run",
    "Oracle": "oracle",
    "Governance": "governance",
    "Freeze": "freeze",
    "Staleness": "staleness",
    "Approval": "approval",
    "Exception": "exception",
    "Decision": "decision",
    "WorkSurface": "worksurface",
}
# docs/reference/requirements.md#sr-20.
COMMAND_NAMES = ("iteration.start", "iteration.complete", "candidate.register", "oracle.run")

_NOUN = re.compile(f"({'|'.join(DOMAINS)})(?=[A-Z])")


class UnknownSubject(Poison):
    """No stream of the bus accepts this subject: a command or a query of another name."""

    code = "unknown_subject"


def domain_of(message_type: str) -> str:
    """One of the thirteen domains; `other` for a type that begins with none of their nouns."""
    noun = _NOUN.match(message_type)
    return DOMAINS[noun[1]] if noun else OTHER


def names_in(category: str) -> tuple[str, ...]:
    """The domains of events, or the commands: the values that `only` of a consumer may have."""
    return (*DOMAINS.values(), OTHER) if category == EVENTS else COMMAND_NAMES


def event_subject(prefix: str, message_type: str) -> str:
    return f"{prefix}.{EVENTS}.{domain_of(message_type)}"


def command_subject(prefix: str, command: str) -> str:
    """`command`: one of COMMAND_NAMES. Raises UnknownSubject: no consumer handles a command that
    the specification does not list.
    """
    if command not in COMMAND_NAMES:
        raise UnknownSubject(f"there is no such command; there are {', '.join(COMMAND_NAMES)}")
    return f"{prefix}.{COMMANDS}.{command}"


def query_subject(prefix: str, query: str) -> str:
    """`query`: one token. Raises UnknownSubject."""
    if not ids.is_token(query):
        raise UnknownSubject("a query's name is 1..64 of A-Z a-z 0-9 _ -")
    return f"{prefix}.{QUERIES}.{query}"


def dead_letters_of(prefix: str) -> str:
    """Where dead letters go: a pattern over `{original_subject}`. A suffix would fall into the
    streams' own wildcards.

    Rule: docs/reference/contracts.md#dead-letter-streams.
    """
    return f"{prefix}.dlq.{{original_subject}}"


# -- Declare the streams of the bus (docs/reference/contracts.md#streams); delivery creates them
# and reports differences.
#
# {prefix}-events     {prefix}.events.*     what happened
# {prefix}-commands   {prefix}.commands.>   what is to be done: two tokens, so `*` would match none
#                                           of them
# {prefix}-queries    {prefix}.queries.*    no_ack: else the server's PubAck would reach a requester
#                                           before the response
# {prefix}-dlq        {prefix}.dlq.>        dead letters


DEAD_LETTERS = "dlq"


def declare_streams(settings: BusSettings) -> Topology:
    """Every stream and bucket that the bus needs; a consumer declares its own durable."""
    attempts = settings.attempts
    records = bucket(attempts.name, ttl=attempts.ttl_ms / 1000, replicas=attempts.replicas)
    return Topology(streams=(*_stream_specs(settings), _dead_letters(settings), records))


async def apply_topology(
    jetstream: JetStream, settings: BusSettings, wanted: Topology
) -> list[Difference]:
    """Create what is missing, if the settings allow it; return what then differs. Raises
    BrokerUnavailable, BrokerRefused.
    """
    differences = await (topology.create if settings.is_making else topology.compare)(
        jetstream, wanted
    )
    # a consumer of it waits, and says so
    return [difference for difference in differences if difference.state != topology.PAUSED]


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


def _dead_letters(settings: BusSettings) -> StreamSpec:
    return StreamSpec(
        name=stream_of(settings, DEAD_LETTERS),
        subjects=(f"{settings.stream_prefix}.{DEAD_LETTERS}.>",),
        max_age=settings.letters.max_age_ms / 1000,
        max_bytes=settings.letters.max_bytes,
        duplicate_window=settings.letters.duplicate_window_ms / 1000,
        replicas=settings.letters.replicas,
        discard="new",  # an old dead letter is never dropped for a newer one: the consumer pauses
    )
