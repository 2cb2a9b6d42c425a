"""`router extension register`: write an entry from a file or from options, after checking it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from router.cli import exit_codes
from router.cli.extension.store import Author, choose_author, open_store
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json
from router.cli.session import load_settings

if TYPE_CHECKING:
    from router.config import Settings

Document = dict[str, object]


def register(
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
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Register an extension, or replace its entry; every running router uses it within a second.

    The same entry again changes nothing. Exit status: 0 it is registered, 1 the entry is wrong or another write came first.

    Example:  router extension register --id pii_guard --type validator --timeout-ms 200
    """
    if (file is None) == (id_ is None):
        raise typer.BadParameter("give a FILE, or --id with --type")
    given = {"timeout_ms": timeout_ms, "retry": retry, "config": _parse_json(config_json)}
    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        document = _read(file) if file is not None else _make_document(id_ or "", type_ or "", subject, given)
    exit_codes.run(_register(settings, document, choose_author(author), replaces, as_json))


async def _register(settings: Settings, document: Document, author: str, replaces: int | None, as_json: bool) -> int:
    from router.routing.extensions import EntryError, parse_entry

    try:
        parse_entry(document)
    except EntryError as exc:
        for path, message in exc.errors:
            exit_codes.complain(f"{path}: {message}")
        return exit_codes.NO
    async with open_store(settings) as store:
        written = await store.put(document, author=author, replaces=replaces)
    if as_json:
        print_json({"id": written.extension_id, "version": written.version, "is_new": written.is_new})
    else:
        print(f"{written.extension_id}: version {written.version} " + ("is registered" if written.is_new else "says the same already"))
    return exit_codes.OK


def _read(name: str) -> Document:
    from router.routing.extensions.parse import read_document

    try:
        return dict(read_document(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()))
    except OSError as exc:
        raise typer.BadParameter(f"{name} cannot be read: {exc.strerror}", param_hint="FILE") from None


def _make_document(extension_id: str, kind: str, subject: str | None, given: Document) -> Document:
    """Return the entry of these options; mistakes are reported as for a file."""
    from router.routing.extensions import KINDS, subject_of

    if kind not in KINDS:
        raise typer.BadParameter("must be " + ", ".join(KINDS), param_hint="--type")
    if subject is None:
        subject = subject_of(kind, extension_id, "v1")
    document = {"id": extension_id, "type": kind, "subject": subject, **given}
    return {name: value for name, value in document.items() if value is not None}


def _parse_json(text: str | None) -> object:
    try:
        return orjson.loads(text) if text is not None else None
    except orjson.JSONDecodeError as exc:
        raise typer.BadParameter(f"is not JSON: {exc}", param_hint="--extension-config") from None
