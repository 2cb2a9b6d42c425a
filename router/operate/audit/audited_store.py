"""A versioned store as operators write it: each write leaves its audit event.

    open_event ── what stands before ──> the write of the store ──> close_event ── what stands now ──> stored

A subclass has a method for each command that writes, and says how its documents and their names
stand in the events. What routers write by themselves, they write with the store alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar

from router.core.errors import RouterError
from router.delivery.kv.versioned_store import Versioned, VersionedStore
from router.operate.audit.audit_event import OperatorWrite, Values
from router.operate.audit.log import AuditTrail

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

    async def delete(self, *name: str, replaces: int | None = None) -> int:
        """Delete a document and return the deleted version."""
        event = await self.open_event(self.deletion, name)
        version = await self.store.delete(*name, replaces=replaces)
        await self.trail.record(event)
        return version

    def make_event(self, command: str, name: tuple[str, ...]) -> OperatorWrite:
        """The event of a write, without its values."""
        return OperatorWrite(
            command=command,
            target=self.separator.join(name),
            tenant_id=name[0] if self.has_tenant else None,
        )

    async def open_event(
        self, command: str, name: tuple[str, ...], note: str | None = None
    ) -> OperatorWrite:
        """The event of a write that is about to begin, with what stands before it."""
        event = self.make_event(command, name)
        before: T | None = await self.store.find(*name)
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
