"""`router extension register`, `list`, `show`, `enable`, `disable`, `remove`: what is registered,
and how it is changed.

The registry's bucket stands first, then `register`, which checks an entry and writes it, then the
others.
"""

from __future__ import annotations

from typing import Annotated

import typer

from router.delivery.kv.documents import DocumentBucket
from router.extensions.model import KINDS, EntryError, parse_entry, subject_of
from router.extensions.model.entry import read_document
from router.extensions.store import (
    AuditedExtensions,
    ExtensionStore,
    RegisteredExtension,
    WrittenExtension,
    name_switch,
)
from router.extensions.views import list_extension_fields, make_extensions_view
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import record_missed_event, watch_deletion
from router.shell.options import choose_author, confirm, read_bytes, read_json
from router.shell.output import format_time, print_json, printable

# -- The registry's bucket; the audit event of a write.

ExtensionId = Annotated[str, typer.Argument(metavar="ID", help="The extension's id.")]
Author = Annotated[
    str | None, typer.Option(help="The author, for the history. Default: the user's name.")
]


async def open_store(session: CommandSession) -> ExtensionStore:
    """Open the registry. Raises BrokerUnavailable."""
    return ExtensionStore(
        DocumentBucket(await session.open_jetstream(), session.settings.buckets.extensions.name)
    )


async def open_audited_store(session: CommandSession) -> AuditedExtensions:
    """Open the registry for writes. Raises BrokerUnavailable."""
    return AuditedExtensions(await open_store(session), session)


async def record_missed_entry(
    session: CommandSession, extensions: AuditedExtensions, command: str, written: WrittenExtension
) -> None:
    """The audit event of an entry that stood already, where a command that was killed has left
    none.
    """
    if not written.is_new:
        name, after = (written.extension_id,), {"version": written.version}
        await record_missed_event(session, extensions, command, name, after)


# -- `router extension register`.

Document = dict[str, object]


@command()
async def register(
    session: CommandSession,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|-]", help="The entry as JSON; - reads standard input."),
    ] = None,
    *,
    id_: Annotated[
        str | None, typer.Option("--id", help="The extension's id, instead of a file.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="pre, validator, post or provider.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Its subject. Default: the one of version v1.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(help="A call may take this long; 10..60000.")
    ] = None,
    retry: Annotated[
        int | None, typer.Option(help="Further attempts after a failure; 0..3.")
    ] = None,
    config_json: Annotated[
        str | None,
        typer.Option("--extension-config", metavar="JSON", help="The config that each call gets."),
    ] = None,
    replaces: Annotated[
        int | None,
        typer.Option(
            metavar="VERSION", help="Only over this version; 0: only if there is none.", min=0
        ),
    ] = None,
    author: Author = None,
) -> int:
    """Register an extension, or replace its entry; every running router uses it within a second.

    The same entry again changes nothing. Exit status: 0 it is registered, 1 the entry is wrong or
    another write came first.

    Example:  router extension register --id pii_guard --type validator --timeout-ms 200
    """
    if (file is None) == (id_ is None):
        raise typer.BadParameter("give a FILE, or --id with --type")
    if file is not None and (type_, subject, timeout_ms, retry, config_json) != (None,) * 5:
        raise typer.BadParameter("FILE holds the whole entry: give none of its fields with it")
    if file is not None:
        document = dict(read_document(read_bytes(file, "FILE")))
    else:
        config = read_json(config_json, "--extension-config") if config_json is not None else None
        document = _make_document(
            id_ or "",
            type_ or "",
            subject,
            {"timeout_ms": timeout_ms, "retry": retry, "config": config},
        )
    try:
        parse_entry(document)
    except EntryError as exc:
        for path, message in exc.errors:
            exit_codes.complain(f"{path}: {message}")
        return exit_codes.NO
    extensions = await open_audited_store(session)
    written = await extensions.put(document, author=choose_author(author), replaces=replaces)
    await record_missed_entry(session, extensions, "extension register", written)
    fields = {"id": written.extension_id, "version": written.version, "is_new": written.is_new}
    outcome = "is registered" if written.is_new else "says the same already"
    session.emit_one(fields, f"{written.extension_id}: version {written.version} {outcome}")
    return exit_codes.OK


def _make_document(extension_id: str, kind: str, subject: str | None, given: Document) -> Document:
    """Return the entry of these options; mistakes are reported as for a file."""
    if kind not in KINDS:
        raise typer.BadParameter("must be " + ", ".join(KINDS), param_hint="--type")
    if subject is None:
        subject = subject_of(kind, extension_id, "v1")
    document = {"id": extension_id, "type": kind, "subject": subject, **given}
    return {name: value for name, value in document.items() if value is not None}


# -- `router extension list`, `show`, `enable`, `disable` and `remove`.


@command()
async def list_(session: CommandSession) -> None:
    """List the registered extensions; with --json one object a line. Exit status 0, also when there
    are none.

    Example:  router extension list
    """
    registered = await (await open_store(session)).list()
    session.emit(registered, make_extensions_view(), empty="no extension is registered")


@command()
async def show(session: CommandSession, extension_id: ExtensionId) -> None:
    """Show one entry as it was written, and by whom. Exit status: 0 shown, 1 there is none.

    Example:  router extension show pii_guard
    """
    registered = await (await open_store(session)).get(extension_id)
    session.emit_one(list_extension_fields(registered), lambda: _print_entry(registered))


@command()
async def enable(session: CommandSession, extension_id: ExtensionId, author: Author = None) -> None:
    """Let routers call it again. Exit status: 0 it is enabled, 1 it is not registered.

    Example:  router extension enable pii_guard
    """
    await _switch(session, extension_id, True, author)


@command()
async def disable(
    session: CommandSession, extension_id: ExtensionId, author: Author = None
) -> None:
    """Keep its entry, and let no router call it: policies get extension_not_found. Exit status: 0
    it is disabled, 1 not registered.

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
    """Delete it from the registry; it asks first. Exit status: 0 it is deleted, 1 it was not there,
    or it was cancelled.

    Example:  router extension remove pii_guard
    """
    extensions = await open_audited_store(session)
    async with watch_deletion(session, extensions, extension_id):
        if not yes:
            # raises before the question if it is not there
            await extensions.store.get(extension_id)
            if not confirm(f"Remove {extension_id} from the registry?"):
                print("nothing was removed")
                return exit_codes.NO
        version = await extensions.delete(extension_id)
    fields = {"id": extension_id, "removed_version": version}
    session.emit_one(fields, f"{extension_id} is removed; its last version was {version}")
    return exit_codes.OK


async def _switch(
    session: CommandSession, extension_id: str, enabled: bool, author: str | None
) -> None:
    extensions = await open_audited_store(session)
    written = await extensions.switch(extension_id, enabled=enabled, author=choose_author(author))
    await record_missed_entry(session, extensions, name_switch(enabled=enabled), written)
    fields = {"id": extension_id, "enabled": enabled, "version": written.version}
    session.emit_one(
        fields,
        f"{extension_id} is {'enabled' if enabled else 'disabled'}, version {written.version}",
    )


def _print_entry(registered: RegisteredExtension) -> None:
    record = registered.record
    print(
        printable(
            f"{registered.entry.id}, version {record.version}, written {format_time(record.time)} "
            f"by {record.author}"
        )
    )
    print_json(record.document)
