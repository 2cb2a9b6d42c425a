"""Follows one request through the streams and the bucket of assignments. Reads only.

    request         the stream of decide requests, or its partitions' streams
    decision        the record of its assignment; a decision without an assignment is not stored
                    (but see `router decisions explain`)
    assignment      the same record: the stream drops a finished assignment
    acknowledgement, result, usage event, dead letter      their streams

A stream has no index by request, so the newest messages of each are read, at most `look`, and the
result says what was not read. A message of another tenant never belongs to the request, whatever
ids it names: the id of an assignment contains the tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
from msgspec import Struct

from router.config import Settings
from router.contracts.assignment import assignment_id_of
from router.core.errors import PermissionDenied
from router.core.masking import shorten
from router.delivery.consume.stream_reader import StreamReader, open_reader
from router.delivery.settings import BucketConfig
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.operate.dead_letters.parse import parse
from router.operate.topology.declared_topology import list_partition_streams
from router.work.assignments import StoredAssignment, find_assignment

MAX_STEPS_READ = 500
MOST_OF_A_FACT = 200  # characters
FACTS = (
    "message_type",
    "policy_id",
    "provider_id",
    "status",
    "error_code",
    "latency_ms",
    "cost",
    "worker_id",
    "event_type",
    "assignment_id",
)
_IDS = ("request_id", "message_id", "assignment_id")
_INSIDE = ("message", "task", "context", "metadata")  # of the forms of a request

Facts = Mapping[str, object]


class RequestStep(Struct, frozen=True):
    """One stored trace of the request. `at`: the server's time as RFC 3339; `where`: the stream or
    bucket, and the sequence.
    """

    at: str
    what: str
    where: str
    facts: Facts


class RequestSteps(Struct, frozen=True):
    """The steps by time; `gaps`: what was not read or is not stored, and why; `denied`: the places
    that this user may not read, and why.
    """

    steps: list[RequestStep]
    gaps: list[str]
    denied: dict[str, str]


class RequestSearch(Struct, frozen=True):
    """What a message must name to be a step: one of the ids, and no other tenant."""

    tenant_id: str
    request_id: str
    assignment_id: str

    def matches(self, stored: StoredMessage) -> bool:
        named = {stored.headers.get("Nats-Msg-Id", "")}
        body = _object(stored.data)
        if body is None:
            named |= {
                wanted_id
                for wanted_id in (self.request_id, self.assignment_id)
                if _contains(stored.data, wanted_id)
            }
            tenants = (
                {self.tenant_id}
                if _contains(stored.data, self.tenant_id)
                else {stored.headers.get("tenant_id")}
            )
        else:
            levels = [body, *(body[name] for name in _INSIDE if isinstance(body.get(name), dict))]
            named |= {str(level[name]) for level in levels for name in _IDS if name in level}
            tenants = {
                level["tenant_id"] for level in levels if isinstance(level.get("tenant_id"), str)
            } or {stored.headers.get("tenant_id")}
        if tenants == {None}:
            return self.assignment_id in named
        return tenants == {self.tenant_id} and not named.isdisjoint(
            (self.request_id, self.assignment_id)
        )

    def matches_dead_letter(self, stored: StoredMessage) -> bool:
        dead_letter = parse(stored)
        named = {dead_letter.request_id, dead_letter.assignment_id, dead_letter.msg_id}
        if dead_letter.tenant_id is None:
            return dead_letter.assignment_id == self.assignment_id
        return dead_letter.tenant_id == self.tenant_id and not named.isdisjoint(
            (self.request_id, self.assignment_id)
        )


async def find_request_steps(
    jetstream: JetStream, settings: Settings, tenant_id: str, request_id: str, *, look: int
) -> RequestSteps:
    """Raises BrokerUnavailable. A stream that this user may not read is a gap."""
    search = RequestSearch(tenant_id, request_id, assignment_id_of(tenant_id, request_id))
    streams, steps = settings.streams, _Steps(jetstream, look)
    ours, dead_letters = (
        Filter(search.matches, _facts_of),
        Filter(search.matches_dead_letter, _dead_letter_facts),
    )
    for stream in await _list_request_streams(jetstream, settings):
        await steps.read("request", stream, ours)
    await steps.read_record(settings.buckets.assignments_known, search)
    for what, stream in (
        ("acknowledgement", streams.acks.name),
        ("result", streams.results.name),
        ("usage event", streams.usage.name),
    ):
        await steps.read(what, stream, ours)
    await steps.read("dead letter", streams.dlq.name, dead_letters)
    return RequestSteps(
        sorted(steps.found, key=lambda step: nanos(step.at)), steps.gaps, steps.denied
    )


async def _list_request_streams(jetstream: JetStream, settings: Settings) -> list[str]:
    """The streams of the partitions, and the unpartitioned one. A user who may not ask for stream
    names reads the latter alone.
    """
    try:
        parts = await list_partition_streams(jetstream, settings.decide.subject)
    except PermissionDenied:
        parts = []
    whole = settings.streams.decide.name
    return (
        [*sorted(parts), whole]
        if not parts or await jetstream.stream(whole) is not None
        else sorted(parts)
    )


class Filter(Struct, frozen=True):
    """Which messages of a stream are steps, and which facts are shown."""

    matches: Callable[[StoredMessage], bool]
    facts_of: Callable[[StoredMessage], Facts]


class _Steps:
    """Collects the steps and the gaps."""

    def __init__(self, jetstream: JetStream, most: int) -> None:
        self._jetstream = jetstream
        self._most = most
        self.found: list[RequestStep] = []
        self.gaps: list[str] = []
        self.denied: dict[str, str] = {}

    async def read(self, what: str, stream: str, filter_: Filter) -> None:
        try:
            start = await self._start(what, stream)
            if start is None:
                return
            async with open_reader(self._jetstream, stream, start) as reader:
                taken = await _read_matching(reader, self._most, filter_.matches)
        except PermissionDenied as exc:
            self._note_denied(what, stream, exc)
            return
        for message in taken:
            facts = {"subject": message.subject, **filter_.facts_of(message)}
            self.found.append(
                RequestStep(message.time, what, f"{stream} {message.sequence}", facts)
            )

    def _note_denied(self, what: str, place: str, exc: PermissionDenied) -> None:
        self.gaps.append(f"{what}: {place} was not read: {exc}")
        self.denied[place] = str(exc)

    async def _start(self, what: str, stream: str) -> int | None:
        """The first sequence to read; None if there is nothing to read."""
        info = await self._jetstream.stream(stream)
        if info is None:
            self.gaps.append(f"{what}: there is no stream {stream}")
            return None
        first, last = info["state"]["first_seq"], info["state"]["last_seq"]
        start: int = max(first, last - self._most + 1)
        if start > first:
            newest = f"of {stream} the newest {self._most} messages were read"
            self.gaps.append(
                f"{what}: {newest}, from {start} on; {start - first} sequences before were "
                "not (--look)"
            )
        return start if last >= first else None

    async def read_record(self, bucket: BucketConfig, search: RequestSearch) -> None:
        try:
            stored = await find_assignment(self._jetstream, bucket.name, search.assignment_id)
        except PermissionDenied as exc:
            self._note_denied("decision, assignment", bucket.name, exc)
            return
        if stored is not None:
            self.found += _record_steps(stored, bucket.name)
            return
        hours = f"{bucket.ttl_ms / 3_600_000:g} h"
        self.gaps.append(
            f"decision, assignment: {bucket.name} holds none. The request pushed no "
            f"assignment, or did so more than {hours} ago; a "
            "decision that pushes nothing is kept by no stream: `router decisions "
            "explain`, where recorder.tenants names the tenant"
        )


async def _read_matching(
    reader: StreamReader, most: int, matches: Callable[[StoredMessage], bool]
) -> list[StoredMessage]:
    """Read the messages that were there at the start, and keep the matching ones."""
    return [
        message
        async for batch in reader.read_all(MAX_STEPS_READ, most)
        for message in batch
        if matches(message)
    ]


def _record_steps(stored: StoredAssignment, bucket: str) -> Iterator[RequestStep]:
    decision = stored.assignment.decision
    yield RequestStep(
        stored.stored_at,
        "decision",
        bucket,
        {"provider_id": decision.provider_id, "reason": decision.reason},
    )
    facts = {
        "assignment_id": stored.assignment.assignment_id,
        "subject": stored.record.subject,
        "deadline_ms": stored.assignment.deadline_ms,
    }
    yield RequestStep(stored.stored_at, "assignment", bucket, facts)


def _facts_of(stored: StoredMessage) -> Facts:
    """Ids and numbers of a message, never its payload."""
    body = _object(stored.data) or {}
    inner: dict[str, Any] = next(
        (body[name] for name in ("message", "task") if isinstance(body.get(name), dict)), {}
    )
    given = {name: body.get(name, inner.get(name)) for name in FACTS}
    return {
        name: _shorten(value)
        for name, value in given.items()
        if isinstance(value, str | int | float)
    }


def _dead_letter_facts(stored: StoredMessage) -> Facts:
    dead_letter = parse(stored)
    given = {
        "reason": dead_letter.reason,
        "code": dead_letter.code,
        "field": dead_letter.field,
        "error": dead_letter.message,
        "letter": dead_letter.sequence,
    }
    return {name: _shorten(value) for name, value in given.items() if value is not None}


def _shorten(value: str | float) -> object:
    return shorten(value, MOST_OF_A_FACT) if isinstance(value, str) else value


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _contains(data: bytes, text: str) -> bool:
    """Whether a protobuf message holds this string: behind its length, which takes one byte up to
    127.
    """
    raw = text.encode()
    return len(raw) < 128 and bytes((len(raw),)) + raw in data
