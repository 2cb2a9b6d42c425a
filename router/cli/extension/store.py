"""Shared by the commands: the registry's bucket, the author's name, an entry as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from router.app.extension_store import ExtensionStore
    from router.cli.session import CommandSession

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[str | None, typer.Option(help="The author, for the history. Default: the user's name.")]


async def open_store(session: CommandSession) -> ExtensionStore:
    """Open the registry. Raises BrokerUnavailable."""
    from router.app.extension_store import ExtensionStore
    from router.buckets.documents import DocumentBucket

    return ExtensionStore(DocumentBucket(await session.open_jetstream(), session.settings.buckets.extensions.name))
