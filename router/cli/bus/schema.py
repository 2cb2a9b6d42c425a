"""`router bus schema`: print the envelope's JSON Schema, or check whether a file is an envelope."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from router.cli import exit_codes


def schema(
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Check whether this file is an envelope instead; - is standard input.")
    ] = None,
) -> None:
    """Print the envelope's JSON Schema, for validators of other languages. Exit status of --check: 0 it is one, 1 it is none.

    Example:  router bus schema > message-envelope.schema.json
    """
    from router.contracts.envelope_schema import envelope_schema_file

    if check is None:
        print(envelope_schema_file(), end="")
        return
    with exit_codes.report_errors():
        raise typer.Exit(_check(_read_bytes(check)))


def _check(data: bytes) -> int:
    from router.contracts.envelope import read_envelope

    found = read_envelope(data)  # raises Malformed, which names the field
    print(f"{found.message_type} {found.message_id}, version {found.schema_version}, key {found.idempotency_key}")
    return exit_codes.OK


def _read_bytes(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as exc:
        raise typer.BadParameter(f"{file} cannot be read: {exc.strerror}", param_hint="--check") from exc
