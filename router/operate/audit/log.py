"""Stores audit events in their stream, each with a publish ack, and reads them. Has frames for
writes: one that takes long, and one of a versioned store.

A stream that is missing is made: an operator who writes may be the first on a server. A stored
event is never changed: the roles of deploy/nats may neither delete nor purge there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from router.core.clock import wall
from router.core.errors import BrokerUnavailable, RouterError
from router.delivery.kv.versioned_store import Versioned, VersionedStore
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, create
from router.operate.audit.audit_event import (
    BEGUN,
    FAILED,
    AuditEvent,
    OperatorWrite,
    Values,
    audit_bytes,
    audit_subject,
    read_audit_event,
)
from router.operate.event_reader import EventReader


class AuditWriter(Struct, frozen=True):
    """Who writes: `by`, `via`, `nats_user` and `node_id` of the events."""

    by: str
    via: str
    node_id: str
    nats_user: str | None = None


class AuditLog:
    """`stream` is declared with the topology."""

    def __init__(self, jetstream: JetStream, stream: StreamSpec, writer: AuditWriter) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._writer = writer

    async def store(self, write: OperatorWrite) -> AuditEvent:
        """Store the event of a write. Raises BrokerUnavailable, BrokerRefused."""
        event = self._make_event(write)
        subject, data, headers = (
            audit_subject(event.via),
            audit_bytes(event),
            {"Nats-Msg-Id": event.id},
        )
        try:
            await self._jetstream.publish(subject, data, headers)
        except BrokerUnavailable:
            if await self._jetstream.stream(self._stream.name) is not None:
                raise
            await create(self._jetstream, Topology((self._stream,)))
            await self._jetstream.publish(subject, data, headers)
        return event

    def _make_event(self, write: OperatorWrite) -> AuditEvent:
        writer = self._writer
        return AuditEvent(
            id=token_hex(12),
            timestamp=int(wall() * 1000),
            by=writer.by,
            via=writer.via,
            nats_user=writer.nats_user,
            router_node_id=writer.node_id,
            **asdict(write),
        )


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `who` and `what` are parts of texts: of `by` and `nats_user`, of
    `command` and `target`.
    """

    who: str | None = None
    what: str | None = None
    tenant: str | None = None

    def is_match(self, event: AuditEvent) -> bool:
        return (
            (self.who is None or self.who in event.by or self.who in (event.nats_user or ""))
            and (self.what is None or self.what in f"{event.command} {event.target}")
            and self.tenant in (None, event.tenant_id)
        )


class AuditReader(EventReader[AuditEvent]):
    def parse(self, data: bytes) -> AuditEvent:
        return read_audit_event(data)


# -- A frame for a write that takes long: an event before it, and one when it ends, however it
# ends; and who stores the events.


class AuditTrail(Protocol):
    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done. It raises nothing: it says by itself that an
        event could not be stored.
        """


@asynccontextmanager
async def track(trail: AuditTrail, write: OperatorWrite) -> AsyncIterator[OperatorWrite]:
    """Two events around a write that takes long: a killed one has the first alone. The body fills
    in `after`.
    """
    await trail.record(replace(write, outcome=BEGUN))
    try:
        yield write
    except BaseException as exc:  # also a cancellation: what was done until then stands
        write.outcome, write.error = (
            FAILED,
            exc.code if isinstance(exc, RouterError) else type(exc).__name__,
        )
        await trail.record(write)
        raise
    await trail.record(write)


# -- A frame for the writes of a versioned store: each leaves its audit event.
#
#     open_event ── what stands before ──> the write ──> close_event ── what stands now ──> stored
#
# A subclass has a method for each command that writes, and says how its documents and their names
# stand in the events. What routers write by themselves, they write with the store alone.

S = TypeVar("S", bound=VersionedStore[Any])
T = TypeVar("T", bound=Versioned)


class AuditedStore(Generic[S, T]):
    """Raises what its store raises. A write that is refused, or that changes nothing, leaves no
    event.

    `deletion`: the command that deletes. `has_tenant`: a name begins with the tenant.
    """

    deletion: ClassVar[str]
    has_tenant: ClassVar[bool] = True
    separator: ClassVar[str] = "/"  # between the parts of a name

    def __init__(self, store: S, trail: AuditTrail) -> None:
        self.store = store
        self.trail = trail

    def describe(self, document: T) -> Values:
        """A document in an event: a few small values."""
        return {"version": document.record.version, "hash": document.record.hash}

    async def delete(self, *name: str, replaces: int | None = None, note: str | None = None) -> int:
        """Delete a document and return the deleted version."""
        event = await self.open_event(self.deletion, name, note)
        version = await self.store.delete(*name, replaces=replaces)
        await self.trail.record(event)
        return version

    def find_tenant(self, name: tuple[str, ...], document: T | None) -> str | None:
        """Whose document it is; None: every tenant's."""
        return name[0] if self.has_tenant else None

    def make_event(
        self, command: str, name: tuple[str, ...], document: T | None = None
    ) -> OperatorWrite:
        """The event of a write, without its values. `document`: what stands there, or stood."""
        return OperatorWrite(
            command=command,
            target=self.separator.join(name),
            tenant_id=self.find_tenant(name, document),
        )

    async def open_event(
        self, command: str, name: tuple[str, ...], note: str | None = None
    ) -> OperatorWrite:
        """The event of a write that is about to begin, with what stands before it."""
        before: T | None = await self.store.find(*name)
        event = self.make_event(command, name, before)
        event.before, event.note = self.describe(before) if before is not None else None, note
        return event

    async def close_event(self, event: OperatorWrite, name: tuple[str, ...], version: int) -> int:
        """Store the event of a write that is done, and return the version that was written."""
        event.after = await self._describe_written(name, version)
        await self.trail.record(event)
        return version

    async def _describe_written(self, name: tuple[str, ...], version: int) -> Values:
        """The version alone, where another write came after it or it cannot be read: the write
        stands.
        """
        with suppress(RouterError):
            stored: T | None = await self.store.find(*name)
            if stored is not None and stored.record.version == version:
                return self.describe(stored)
        return {"version": version}
