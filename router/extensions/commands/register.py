"""`router extension register`: write an entry from a file or from options, after checking it."""

from __future__ import annotations

from typing import Annotated

import typer

from router.extensions.commands.store import Author, open_audited_store, record_missed_entry
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.option_values import choose_author, read_bytes, read_json

Document = dict[str, object]


@command()
async def register(
    session: CommandSession,
    file: Annotated[str | None, typer.Argument(metavar="[FILE|-]", help="The entry as JSON; - reads standard input.")] = None,
    *,
    id_: Annotated[str | None, typer.Option("--id", help="The extension's id, instead of a file.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="pre, validator, post or provider.")] = None,
    subject: Annotated[str | None, typer.Option(help="Its subject. Default: the one of version v1.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(help="A call may take this long; 10..60000.")] = None,
    retry: Annotated[int | None, typer.Option(help="Further attempts after a failure; 0..3.")] = None,
    config_json: Annotated[str | None, typer.Option("--extension-config", metavar="JSON", help="The config that each call gets.")] = None,
    replaces: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Only over this version; 0: only if there is none.", min=0)
    ] = None,
    author: Author = None,
) -> int:
    """Register an extension, or replace its entry; every running router uses it within a second.

    The same entry again changes nothing. Exit status: 0 it is registered, 1 the entry is wrong or another write came first.

    Example:  router extension register --id pii_guard --type validator --timeout-ms 200
    """
    if (file is None) == (id_ is None):
        raise typer.BadParameter("give a FILE, or --id with --type")
    if file is not None and (type_, subject, timeout_ms, retry, config_json) != (None,) * 5:
        raise typer.BadParameter("FILE holds the whole entry: give none of its fields with it")
    from router.extensions.model import EntryError, parse_entry
    from router.extensions.model.parse import read_document

    if file is not None:
        document = dict(read_document(read_bytes(file, "FILE")))
    else:
        config = read_json(config_json, "--extension-config") if config_json is not None else None
        document = _make_document(id_ or "", type_ or "", subject, {"timeout_ms": timeout_ms, "retry": retry, "config": config})
    try:
        parse_entry(document)
    except EntryError as exc:
        for path, message in exc.errors:
            exit_codes.complain(f"{path}: {message}")
        return exit_codes.NO
    extensions = await open_audited_store(session)
    written = await extensions.put(document, author=choose_author(author), replaces=replaces)
    await record_missed_entry(session, extensions.store, "extension register", written)
    fields = {"id": written.extension_id, "version": written.version, "is_new": written.is_new}
    outcome = "is registered" if written.is_new else "says the same already"
    session.emit_one(fields, f"{written.extension_id}: version {written.version} {outcome}")
    return exit_codes.OK


def _make_document(extension_id: str, kind: str, subject: str | None, given: Document) -> Document:
    """Return the entry of these options; mistakes are reported as for a file."""
    from router.extensions.model import KINDS, subject_of

    if kind not in KINDS:
        raise typer.BadParameter("must be " + ", ".join(KINDS), param_hint="--type")
    if subject is None:
        subject = subject_of(kind, extension_id, "v1")
    document = {"id": extension_id, "type": kind, "subject": subject, **given}
    return {name: value for name, value in document.items() if value is not None}
