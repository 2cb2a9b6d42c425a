"""`router contract asyncapi`, `headers`, `schemas`: the contract as documents. No server is asked.

asyncapi     every subject of this router, its messages and streams, as one document
headers      the header contract as a table
schemas      JSON Schemas and .proto files
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer
from msgspec import Struct

from router.contracts.header_rules import describe
from router.contracts.protos import list_protos
from router.serve.contract.asyncapi import write_yaml
from router.serve.contract.contract_document import build_contract_document, build_contract_shapes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.view import View, ViewColumn


@command()
def asyncapi(session: CommandSession) -> None:
    """Print the AsyncAPI 3.0 document of a router with these settings: YAML, or with --json JSON.
    No server is asked.

    Example:  router contract asyncapi > asyncapi.yaml    router contract asyncapi --json > asyncapi.json
    """
    document = build_contract_document(session.settings)
    print(
        orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
        if session.as_json
        else write_yaml(document),
        end="",
    )
    if session.as_json:
        print()


class HeaderLine(Struct, frozen=True):
    """One rule."""

    header: str
    rule: str
    says: str
    subjects: tuple[str, ...]


HEADERS = View(
    ViewColumn("header"),
    ViewColumn("violation", of="rule"),
    ViewColumn("the_header_is", of="says"),
    ViewColumn("subjects", tell="\n".join),
)


@command(skip_settings)
def headers(session: CommandSession) -> None:
    """Print the rules of the header contract: a message that carries a contract header must keep
    all of them. No server is asked.

    Example:  router contract headers
    """
    session.emit([HeaderLine(*rule) for rule in describe()], HEADERS, empty="there is no rule")


@command(has_json=False)
def schemas(
    session: CommandSession,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Where the files go. It is made if it is not there.",
            file_okay=False,
        ),
    ],
) -> None:
    """Write JSON Schema 2020-12, one file a message (decide.json, answer.json …), and the .proto
    files. No server is asked.

    The bounds are those of the settings: results.max_cost, assignment.subjects. Prints each file's
    name.

    Example:  router contract schemas ./contract
    """
    for shape in build_contract_shapes(session.settings).values():
        _write(
            directory / f"{shape.name}.json",
            orjson.dumps(shape.build_schema(), option=orjson.OPT_INDENT_2) + b"\n",
        )
    for path, text in list_protos():
        _write(directory / "proto" / path, text.encode())


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    print(file)
