"""Shared by the commands: the registry's bucket, the author's name, an entry as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from router.extensions.audited_extensions import AuditedExtensions
    from router.extensions.store import ExtensionStore, WrittenExtension
    from router.shell.session import CommandSession

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[str | None, typer.Option(help="The author, for the history. Default: the user's name.")]


async def open_store(session: CommandSession) -> ExtensionStore:
    """Open the registry. Raises BrokerUnavailable."""
    from router.delivery.kv.documents import DocumentBucket
    from router.extensions.store import ExtensionStore

    return ExtensionStore(DocumentBucket(await session.open_jetstream(), session.settings.buckets.extensions.name))


async def open_audited_store(session: CommandSession) -> AuditedExtensions:
    """Open the registry for writes. Raises BrokerUnavailable."""
    from router.extensions.audited_extensions import AuditedExtensions

    return AuditedExtensions(await open_store(session), session)


async def record_missed_entry(session: CommandSession, store: ExtensionStore, command: str, written: WrittenExtension) -> None:
    """The audit event of an entry that stood already, where a command that was killed has left none."""
    from router.operate.audit import OperatorWrite
    from router.shell.missed_events import record_missed_event

    if not written.is_new:
        write = OperatorWrite(command=command, target=written.extension_id, after={"version": written.version})
        await record_missed_event(session, store, (written.extension_id,), write)
