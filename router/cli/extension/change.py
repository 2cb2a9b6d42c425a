"""`router extension enable`, `disable`, `remove`: switch an entry, or delete it from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.extension.store import Author, ExtensionId, choose_author, open_store
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json
from router.cli.session import run_client

if TYPE_CHECKING:
    from router.config import Settings


def enable(
    extension_id: ExtensionId, author: Author = None, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Let routers call it again. Exit status: 0 it is enabled, 1 it is not registered.

    Example:  router extension enable pii_guard
    """
    run_client(nats_url, config, lambda settings: _switch(settings, extension_id, True, choose_author(author), as_json))


def disable(
    extension_id: ExtensionId, author: Author = None, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Keep its entry, and let no router call it: policies get extension_not_found. Exit status: 0 it is disabled, 1 not registered.

    Example:  router extension disable pii_guard
    """
    run_client(nats_url, config, lambda settings: _switch(settings, extension_id, False, choose_author(author), as_json))


def remove(
    extension_id: ExtensionId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete it from the registry; it asks first. Exit status: 0 it is deleted, 1 it was not there, or it was cancelled.

    Example:  router extension remove pii_guard
    """
    run_client(nats_url, config, lambda settings: _remove(settings, extension_id, yes, as_json))


async def _switch(settings: Settings, extension_id: str, enabled: bool, author: str, as_json: bool) -> int:
    async with open_store(settings) as store:
        written = await store.switch(extension_id, enabled=enabled, author=author)
    if as_json:
        print_json({"id": extension_id, "enabled": enabled, "version": written.version})
    else:
        print(f"{extension_id} is {'enabled' if enabled else 'disabled'}, version {written.version}")
    return exit_codes.OK


async def _remove(settings: Settings, extension_id: str, yes: bool, as_json: bool) -> int:
    async with open_store(settings) as store:
        if not yes:
            await store.get(extension_id)  # raises before the question if it is not there
            if not typer.confirm(f"Remove {extension_id} from the registry?", err=True):
                print("nothing was removed")
                return exit_codes.NO
        version = await store.delete(extension_id)
    if as_json:
        print_json({"id": extension_id, "removed_version": version})
    else:
        print(f"{extension_id} is removed; its last version was {version}")
    return exit_codes.OK
