"""What the commands share: the registry's bucket for as long as a command needs it, who is writing, an entry as JSON."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.session import jetstream_of

if TYPE_CHECKING:
    from router.app.extension_store import ExtensionStore, Registered
    from router.config import Settings

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[str | None, typer.Option(help="Who writes, for the history. Default: the user's name.")]


@asynccontextmanager
async def store_of(settings: Settings) -> AsyncIterator[ExtensionStore]:
    """The registry. Raises BrokerUnavailable."""
    from router.app.extension_store import ExtensionStore
    from router.buckets.documents import DocumentBucket

    async with jetstream_of(settings) as jetstream:
        yield ExtensionStore(DocumentBucket(jetstream, settings.buckets.extensions.name))


def author_of(given: str | None) -> str:
    """Whoever is said, else whoever is logged in."""
    try:
        return given or getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "somebody"


def fields_of(one: Registered) -> dict[str, object]:
    """The entry as it was written, and who wrote it when."""
    record = one.record
    return {"id": one.entry.id, "version": record.version, "author": record.author, "time": record.time, "entry": record.document}
