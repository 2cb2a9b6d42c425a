"""The subject of each message (docs/reference/requirements.md#sr-18): `{prefix}.{events|commands|queries}.{domain…}`.

    LoopCreated, LoopPaused …     sr.events.loop
    iteration.start               sr.commands.iteration.start
    anything else                 sr.events.other

An event's domain is the noun that its type begins with: `LoopArchived` is the loop's too, though
the specification does not list it, and `LooperStarted` is not.
"""

from __future__ import annotations

import re

from router.core import ids
from router.core.errors import Poison

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


def letters_of(prefix: str) -> str:
    """Where dead letters go: a pattern over `{original_subject}`. A suffix would fall into the
    streams' own wildcards.

    Rule: docs/reference/contracts.md#dead-letter-streams.
    """
    return f"{prefix}.dlq.{{original_subject}}"
