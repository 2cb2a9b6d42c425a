"""The audit event of a write whose command was killed before it stored one: the same command, run
again, leaves it.

    it says that the same stands already, or that it is deleted already
        └── the last change of the document, if it is not older than a day ── is its event there? ──> else it is stored now

Rule: docs/reference/contracts.md#audit-missed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from router.delivery.kv.versioned_store import Change
from router.operate.audit import AuditFilter, AuditReader
from router.operate.audit.audit_event import AuditEvent, OperatorWrite, Values
from router.operate.audit.log import AuditedStore, S, T
from router.shell.session import CommandSession

CLOCKS = timedelta(minutes=5)  # by which the clocks of two writers may differ
AGAIN_WITHIN = timedelta(days=1)  # later no event is looked for: the stream may have dropped it
NOTE = "the command that wrote it ended before this event"


async def is_audited(
    session: CommandSession,
    since: datetime,
    tenant: str | None,
    is_its_event: Callable[[AuditEvent], bool],
) -> bool:
    """Whether the event of a write is there. `since`: when it was written, by any clock."""
    jetstream, stream = await session.open_jetstream(), session.settings.streams.audit.name
    events = AuditReader(jetstream, stream)
    async for stored in events.read(since - CLOCKS, AuditFilter(tenant=tenant)):
        if is_its_event(stored.event):
            return True
    return False


async def record_missed_event(
    session: CommandSession,
    audited: AuditedStore[S, T],
    command: str,
    name: tuple[str, ...],
    after: Values,
) -> None:
    """The event of a write whose document stands already, unless it is there, or another write
    came since.
    """
    changes = await audited.store.history(*name)
    write = audited.make_event(command, name, changes[-1].document)
    write.after, version = after, after.get("version")
    if _find_version(changes[-1]) == version:
        await _record_change(
            session, changes[-1], write, lambda event: (event.after or {}).get("version") == version
        )


@asynccontextmanager
async def watch_deletion(
    session: CommandSession, audited: AuditedStore[S, T], *name: str
) -> AsyncIterator[None]:
    """Around a deletion: where there is nothing to delete any more, the event of the one before is
    stored, unless it is there.
    """
    store = audited.store
    try:
        yield
    except store.not_found:
        with suppress(store.not_found):
            changes = await store.history(*name)
            documents = [change.document for change in changes if change.document is not None]
            last = documents[-1] if documents else None
            write = audited.make_event(audited.deletion, name, last)
            await _record_deletion(session, changes, write)
        raise


async def _record_deletion(
    session: CommandSession, changes: Sequence[Change[T]], write: OperatorWrite
) -> None:
    if not changes or changes[-1].document is not None:
        return
    version = next(
        (number for change in reversed(changes) if (number := _find_version(change)) is not None),
        None,
    )
    write.before = {"version": version}
    await _record_change(
        session,
        changes[-1],
        write,
        lambda event: event.after is None and (event.before or {}).get("version") == version,
    )


async def _record_change(
    session: CommandSession,
    change: Change[T],
    write: OperatorWrite,
    is_its_event: Callable[[AuditEvent], bool],
) -> None:
    at = datetime.fromtimestamp(change.stored_ns / 1e9, UTC)
    if datetime.now(UTC) - at > AGAIN_WITHIN:
        return
    if not await is_audited(
        session,
        at,
        write.tenant_id,
        lambda event: event.target == write.target and is_its_event(event),
    ):
        write.note = NOTE
        await session.record(write)


def _find_version(change: Change[T]) -> int | None:
    return change.document.record.version if change.document is not None else None
