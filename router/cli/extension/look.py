"""`router extension list` and `show`: what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli import ends
from router.cli.extension.store import ExtensionId, fields_of, store_of
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_lines, print_table, printable
from router.cli.session import settings_of

if TYPE_CHECKING:
    from router.app.extension_store import Registered
    from router.config import Settings

COLUMNS = ("id", "type", "subjects", "timeout", "retry", "state", "version", "written", "by")


def list_(nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the registered extensions; with --json one object a line. Exit status 0, also when there are none.

    Example:  router extension list
    """
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_list(settings, as_json))


def show(extension_id: ExtensionId, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show one entry as it was written, and by whom. Exit status: 0 shown, 1 there is none.

    Example:  router extension show pii_guard
    """
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_show(settings, extension_id, as_json))


async def _list(settings: Settings, as_json: bool) -> int:
    async with store_of(settings) as store:
        found = await store.list()
    if as_json:
        print_lines(map(fields_of, found))
    elif found:
        print_table(COLUMNS, map(_row, found))
    else:
        print("no extension is registered")
    return ends.OK


async def _show(settings: Settings, extension_id: str, as_json: bool) -> int:
    async with store_of(settings) as store:
        found = await store.get(extension_id)
    if as_json:
        print_json(fields_of(found))
        return ends.OK
    print(printable(f"{extension_id}, version {found.record.version}, written {_when(found)} by {found.record.author}"))
    print_json(found.record.document)
    return ends.OK


def _row(one: Registered) -> tuple[object, ...]:
    entry = one.entry
    subjects = "\n".join(version.subject + ("" if version.enabled else " (off)") for version in entry.list_versions())
    is_on = "on" if entry.enabled else "off"
    timeout = f"{entry.timeout_ms} ms"
    return (entry.id, entry.kind, subjects, timeout, entry.retry, is_on, one.record.version, _when(one), one.record.author)


def _when(one: Registered) -> str:
    return one.record.time[:19].replace("T", " ")
