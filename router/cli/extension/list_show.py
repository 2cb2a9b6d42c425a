"""`router extension list` and `show`: print what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli import exit_codes
from router.cli.extension.store import ExtensionId, list_fields, open_store
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_records, printable
from router.cli.session import run_client

if TYPE_CHECKING:
    from router.app.extension_store import RegisteredExtension
    from router.config import Settings

COLUMNS = ("id", "type", "subjects", "timeout", "retry", "state", "version", "written", "by")


def list_(nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the registered extensions; with --json one object a line. Exit status 0, also when there are none.

    Example:  router extension list
    """
    run_client(nats_url, config, lambda settings: _list(settings, as_json))


def show(extension_id: ExtensionId, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show one entry as it was written, and by whom. Exit status: 0 shown, 1 there is none.

    Example:  router extension show pii_guard
    """
    run_client(nats_url, config, lambda settings: _show(settings, extension_id, as_json))


async def _list(settings: Settings, as_json: bool) -> int:
    async with open_store(settings) as store:
        found = await store.list()
    print_records(map(list_fields, found), COLUMNS, map(_row, found), empty="no extension is registered", as_json=as_json)
    return exit_codes.OK


async def _show(settings: Settings, extension_id: str, as_json: bool) -> int:
    async with open_store(settings) as store:
        found = await store.get(extension_id)
    if as_json:
        print_json(list_fields(found))
        return exit_codes.OK
    print(printable(f"{extension_id}, version {found.record.version}, written {_format_time(found)} by {found.record.author}"))
    print_json(found.record.document)
    return exit_codes.OK


def _row(one: RegisteredExtension) -> tuple[object, ...]:
    entry = one.entry
    subjects = "\n".join(version.subject + ("" if version.enabled else " (off)") for version in entry.list_versions())
    is_on = "on" if entry.enabled else "off"
    timeout = f"{entry.timeout_ms} ms"
    return (entry.id, entry.kind, subjects, timeout, entry.retry, is_on, one.record.version, _format_time(one), one.record.author)


def _format_time(one: RegisteredExtension) -> str:
    return one.record.time[:19].replace("T", " ")
