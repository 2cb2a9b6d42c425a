"""Shared by the commands: the registry's bucket, the author's name, an entry as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from router.cli.session import CommandSession
    from router.services.audited_extensions import AuditedExtensions
    from router.services.extension_store import ExtensionStore

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[str | None, typer.Option(help="The author, for the history. Default: the user's name.")]


async def open_store(session: CommandSession) -> ExtensionStore:
    """Open the registry. Raises BrokerUnavailable."""
    from router.delivery.buckets.documents import DocumentBucket
    from router.services.extension_store import ExtensionStore

    return ExtensionStore(DocumentBucket(await session.open_jetstream(), session.settings.buckets.extensions.name))


async def open_audited_store(session: CommandSession) -> AuditedExtensions:
    """Open the registry for writes. Raises BrokerUnavailable."""
    from router.services.audited_extensions import AuditedExtensions

    return AuditedExtensions(await open_store(session), session)
