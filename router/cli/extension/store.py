"""Shared by the commands: the registry's bucket while a command needs it, the author's name, an entry as JSON."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.session import open_jetstream

if TYPE_CHECKING:
    from router.app.extension_store import ExtensionStore, RegisteredExtension
    from router.config import Settings

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[str | None, typer.Option(help="The author, for the history. Default: the user's name.")]


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[ExtensionStore]:
    """Open the registry. Raises BrokerUnavailable."""
    from router.app.extension_store import ExtensionStore
    from router.buckets.documents import DocumentBucket

    async with open_jetstream(settings) as jetstream:
        yield ExtensionStore(DocumentBucket(jetstream, settings.buckets.extensions.name))


def choose_author(given: str | None) -> str:
    """Return the given author, else the logged-in user."""
    try:
        return given or getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "somebody"


def list_fields(one: RegisteredExtension) -> dict[str, object]:
    """Return the entry as it was written, with its author and time."""
    record = one.record
    return {"id": one.entry.id, "version": record.version, "author": record.author, "time": record.time, "entry": record.document}
