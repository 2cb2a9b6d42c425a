"""`router contract diff`: what changed between two contracts, and what breaks the programs on the
other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from msgspec import Struct

from router.contracts.codec import describe_mark
from router.contracts.shapes.difference import (
    ADDED,
    BROKEN,
    CHANGED,
    ContractChange,
    Definitions,
    check_schema,
    compare_schemas,
)
from router.contracts.shapes.message_shape import DIRECTION, SENT
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.options import read_bytes
from router.shell.view import View, ViewColumn

MAX_BYTES = 64 * 1024 * 1024  # of one file

Place = Annotated[
    Path,
    typer.Argument(
        help=(
            "A document of `router contract asyncapi --json`, or a directory of `router "
            "contract schemas`."
        ),
        exists=True,
    ),
]


class WrittenContract(Struct, frozen=True):
    """A contract as files hold it: schemas without references, and channels (of a document alone)."""

    schemas: Mapping[str, Mapping[str, Any]]
    channels: Mapping[str, Mapping[str, Any]]


CHANGES = View(ViewColumn("kind", ""), ViewColumn("place", "where"), ViewColumn("text", "what"))


@command(skip_settings)
def diff(session: CommandSession, old: Place, new: Place) -> int:
    """Compare two contracts: what is new, what changed, what breaks clients, workers, extensions or
    readers of the old one.

    Exit status: 0 nothing breaks, 1 something does.

    Example:  router contract diff ./contract-1.4 ./contract
    """
    changes = list(_compare(_read_contract(old, "OLD"), _read_contract(new, "NEW")))
    session.emit(changes, CHANGES, empty="nothing changed")
    return exit_codes.NO if any(change.kind == BROKEN for change in changes) else exit_codes.OK


def _compare(old: WrittenContract, new: WrittenContract) -> Iterator[ContractChange]:
    for kind, before, after in (
        ("message", old.schemas, new.schemas),
        ("channel", old.channels, new.channels),
    ):
        for name in before:
            if name not in after:
                yield ContractChange(BROKEN, name, f"the {kind} is no longer there")
        for name in after:
            if name not in before:
                yield ContractChange(ADDED, name, f"a new {kind}")
    for name in old.schemas.keys() & new.schemas.keys():
        yield from compare_schemas(
            old.schemas[name], new.schemas[name], str(new.schemas[name].get(DIRECTION, SENT)), name
        )
    for name in sorted(old.channels.keys() & new.channels.keys()):
        yield from _compare_channels(name, old.channels[name], new.channels[name])


def _compare_channels(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ContractChange]:
    if old.get("address") != new.get("address"):
        yield ContractChange(
            BROKEN, name, f"its subject is {new.get('address')}, and was {old.get('address')}"
        )
    before, after = old.get("messages", {}), new.get("messages", {})
    yield from (
        ContractChange(BROKEN, name, f"it no longer carries {message}")
        for message in before
        if message not in after
    )
    yield from (
        ContractChange(ADDED, name, f"it carries {message} too")
        for message in after
        if message not in before
    )
    if old.get("x-jetstream") != new.get("x-jetstream"):
        yield ContractChange(CHANGED, name, "its stream has other limits")


def _read_contract(place: Path, argument: str) -> WrittenContract:
    try:
        return _read_directory(place) if place.is_dir() else _read_document(place)
    except ValueError as exc:
        raise typer.BadParameter(f"{place} is no contract: {exc}", param_hint=argument) from None


def _read_directory(place: Path) -> WrittenContract:
    files = {file.stem: _read_json(file) for file in sorted(place.glob("*.json"))}
    if not files:
        raise ValueError("there is no *.json in it")
    return WrittenContract(
        {
            name: _resolve(name, schema, Definitions(schema.get("$defs", {})))
            for name, schema in files.items()
        },
        {},
    )


def _read_document(file: Path) -> WrittenContract:
    document = _read_json(file)
    components = document.get("components")
    parts = components.get("schemas") if isinstance(components, dict) else None
    if not isinstance(parts, dict):
        raise ValueError("a document of `router contract asyncapi --json` has components.schemas")
    definitions = Definitions(parts)
    schemas = {
        name: _resolve(name, schema, definitions)
        for name, schema in parts.items()
        if not name.startswith("part-")
    }
    return WrittenContract(schemas, _check_channels(document.get("channels", {})))


def _resolve(name: str, schema: object, definitions: Definitions) -> Mapping[str, Any]:
    checked = check_schema(definitions.resolve(schema), name)
    return {keyword: value for keyword, value in checked.items() if keyword != "$defs"}


def _check_channels(channels: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(channels, dict) or not all(
        isinstance(channel, dict) and _has_messages(channel) for channel in channels.values()
    ):
        raise ValueError("channels, and the messages of each, are objects")
    return channels


def _has_messages(channel: Mapping[str, object]) -> bool:
    return isinstance(channel.get("messages", {}), dict)


def _read_json(file: Path) -> dict[str, Any]:
    """Raises ValueError."""
    data = read_bytes(file, "FILE", MAX_BYTES)
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} {describe_mark(data) or 'is no JSON object'}")
    return content
