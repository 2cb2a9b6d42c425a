"""`router contract schemas`: the JSON Schema of each message, and the .proto files, as files. No server is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from router.shell.command_frame import CommandSession, command


@command(has_json=False)
def schemas(
    session: CommandSession,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go. It is made if it is not there.", file_okay=False)],
) -> None:
    """Write JSON Schema 2020-12, one file a message (decide.json, answer.json …), and the .proto files. No server is asked.

    The bounds are those of the settings: results.max_cost, assignment.subjects. Prints each file's name.

    Example:  router contract schemas ./contract
    """
    from router.contracts.protos import list_protos
    from router.serve.contract.contract_document import build_contract_shapes

    for shape in build_contract_shapes(session.settings).values():
        _write(directory / f"{shape.name}.json", orjson.dumps(shape.build_schema(), option=orjson.OPT_INDENT_2) + b"\n")
    for path, text in list_protos():
        _write(directory / "proto" / path, text.encode())


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    print(file)
