"""`router extension list`, `show`, `enable`, `disable`, `remove`: print what is registered, switch an entry, or delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.extensions.commands.store import Author, ExtensionId, open_audited_store, open_store, record_missed_entry
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.formatting import format_time
from router.shell.missed_events import watch_deletion
from router.shell.option_values import choose_author, confirm
from router.shell.output import print_json, printable

if TYPE_CHECKING:
    from router.extensions.store import RegisteredExtension

COLUMNS = ("id", "type", "subjects", "timeout", "retry", "state", "version", "written", "by")


@command()
async def list_(session: CommandSession) -> None:
    """List the registered extensions; with --json one object a line. Exit status 0, also when there are none.

    Example:  router extension list
    """
    found = await (await open_store(session)).list()
    session.emit(found, COLUMNS, _build_row, _list_fields, empty="no extension is registered")


@command()
async def show(session: CommandSession, extension_id: ExtensionId) -> None:
    """Show one entry as it was written, and by whom. Exit status: 0 shown, 1 there is none.

    Example:  router extension show pii_guard
    """
    found = await (await open_store(session)).get(extension_id)
    session.emit_one(_list_fields(found), lambda: _print_entry(found))


@command()
async def enable(session: CommandSession, extension_id: ExtensionId, author: Author = None) -> None:
    """Let routers call it again. Exit status: 0 it is enabled, 1 it is not registered.

    Example:  router extension enable pii_guard
    """
    await _switch(session, extension_id, True, author)


@command()
async def disable(session: CommandSession, extension_id: ExtensionId, author: Author = None) -> None:
    """Keep its entry, and let no router call it: policies get extension_not_found. Exit status: 0 it is disabled, 1 not registered.

    Example:  router extension disable pii_guard
    """
    await _switch(session, extension_id, False, author)


@command()
async def remove(
    session: CommandSession,
    extension_id: ExtensionId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> int:
    """Delete it from the registry; it asks first. Exit status: 0 it is deleted, 1 it was not there, or it was cancelled.

    Example:  router extension remove pii_guard
    """
    from router.operate.audit import OperatorWrite

    extensions = await open_audited_store(session)
    again = OperatorWrite(command="extension remove", target=extension_id)
    async with watch_deletion(session, extensions.store, (extension_id,), again):
        if not yes:
            await extensions.store.get(extension_id)  # raises before the question if it is not there
            if not confirm(f"Remove {extension_id} from the registry?"):
                print("nothing was removed")
                return exit_codes.NO
        version = await extensions.delete(extension_id)
    fields = {"id": extension_id, "removed_version": version}
    session.emit_one(fields, f"{extension_id} is removed; its last version was {version}")
    return exit_codes.OK


async def _switch(session: CommandSession, extension_id: str, enabled: bool, author: str | None) -> None:
    extensions = await open_audited_store(session)
    written = await extensions.switch(extension_id, enabled=enabled, author=choose_author(author))
    await record_missed_entry(session, extensions.store, f"extension {'enable' if enabled else 'disable'}", written)
    fields = {"id": extension_id, "enabled": enabled, "version": written.version}
    session.emit_one(fields, f"{extension_id} is {'enabled' if enabled else 'disabled'}, version {written.version}")


def _build_row(one: RegisteredExtension) -> tuple[object, ...]:
    entry, record = one.entry, one.record
    subjects = "\n".join(version.subject + ("" if version.enabled else " (off)") for version in entry.list_versions())
    state, timeout, written = "on" if entry.enabled else "off", f"{entry.timeout_ms} ms", format_time(record.time)
    return (entry.id, entry.kind, subjects, timeout, entry.retry, state, record.version, written, record.author)


def _list_fields(one: RegisteredExtension) -> dict[str, object]:
    """Return the entry as it was written, with its author and time."""
    record = one.record
    return {"id": one.entry.id, "version": record.version, "author": record.author, "time": record.time, "entry": record.document}


def _print_entry(one: RegisteredExtension) -> None:
    record = one.record
    print(printable(f"{one.entry.id}, version {record.version}, written {format_time(record.time)} by {record.author}"))
    print_json(record.document)
