"""Operators' writes of the registry: by the store, and each with its audit event. Commands, console
and services write with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.extensions.model import parse_entry
from router.extensions.store import ExtensionStore, RegisteredExtension, WrittenExtension
from router.operate.audit import AuditTrail, OperatorWrite
from router.operate.audit.audit_event import Values


class AuditedExtensions:
    """Raises what `ExtensionStore` raises; what changes nothing leaves no event."""

    def __init__(self, store: ExtensionStore, trail: AuditTrail) -> None:
        self.store = store
        self._trail = trail

    async def put(
        self, document: Mapping[str, object], *, author: str, replaces: int | None = None
    ) -> WrittenExtension:
        before = await self.store.find(parse_entry(document).id)
        written = await self.store.put(document, author=author, replaces=replaces)
        if written.is_new:
            await self._record("extension register", written.extension_id, before, written.version)
        return written

    async def switch(
        self, extension_id: str, *, enabled: bool, author: str, note: str | None = None
    ) -> WrittenExtension:
        """Enable or disable it. Raises ExtensionNotFound."""
        before = await self.store.get(extension_id)
        written = await self.store.switch(extension_id, enabled=enabled, author=author)
        if written.is_new:
            await self._record(
                f"extension {'enable' if enabled else 'disable'}",
                extension_id,
                before,
                written.version,
                note,
            )
        return written

    async def delete(self, extension_id: str, *, replaces: int | None = None) -> int:
        """Delete it and return its last version."""
        before = await self.store.find(extension_id)
        version = await self.store.delete(extension_id, replaces=replaces)
        await self._record("extension remove", extension_id, before, None)
        return version

    async def _record(
        self,
        command: str,
        extension_id: str,
        before: RegisteredExtension | None,
        version: int | None,
        note: str | None = None,
    ) -> None:
        after: Values | None = None
        if version is not None:
            stored = await self.store.find(extension_id)
            # else another write came after it
            is_ours = stored is not None and stored.record.version == version
            after = _describe(stored) if is_ours else {"version": version}
        await self._trail.record(
            OperatorWrite(
                command=command,
                target=extension_id,
                before=_describe(before),
                after=after,
                note=note,
            )
        )


def _describe(one: RegisteredExtension | None) -> Values | None:
    if one is None:
        return None
    return {"version": one.record.version, "hash": one.record.hash, "enabled": one.entry.enabled}
