"""The specifications' tables of messages, as data (tests/contracts/spec_tables.toml), and what a
message lacks of one.

    find_faults("usage", event)     ["cost: is missing", "timestamp: 1.5 is no integer"]

A type is a word of `KINDS`, literal values joined by `|`, or either with `?` behind it: null counts as there.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

TABLES = Path(__file__).parents[1] / "contracts" / "spec_tables.toml"
_ABSENT = object()


def find_faults(name: str, message: Mapping[str, Any]) -> list[str]:
    """What the table does not allow in this message."""
    table = read_tables()[name]
    settled = {path: entry["type"] for path, entry in table.get("settled", {}).items()}
    needed = [
        path
        for path in table.get("required", {})
        if _is_needed(path, table, message) and _find(path, message) is _ABSENT
    ]
    typed = {**table.get("required", {}), **table.get("optional", {}), **settled}
    checked = ((path, kind, _find(path, message)) for path, kind in typed.items())
    wrong = [
        f"{path}: {value!r} is no {kind}"
        for path, kind, value in checked
        if value is not _ABSENT and not _is_of(kind, value)
    ]
    return [f"{path}: is missing" for path in needed] + wrong


def find_faults_in(
    name: str, messages: Iterable[Mapping[str, Any]], *, least: int
) -> list[tuple[str, Mapping[str, Any]]]:
    """The faults of a series, each with its message; a series that is shorter than it should be is
    one, too.
    """
    series = list(messages)
    assert len(series) >= least, f"only {len(series)} messages came"
    return [(fault, message) for message in series for fault in find_faults(name, message)]


@cache
def read_tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLES.read_text())


def _is_needed(path: str, table: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Below an object that need not be there, a field is needed only where the object is."""
    optional = {*table.get("optional", {}), *table.get("settled", {})}
    parents = [path[: at.start()] for at in re.finditer(r"\.", path)]
    return all(
        parent not in optional or _find(parent, message) is not _ABSENT for parent in parents
    )


def _find(path: str, message: Any) -> Any:
    """A header's name may have a dot in it: the whole path is looked up first."""
    if isinstance(message, Mapping) and path in message:
        return message[path]
    for name in path.split("."):
        if not isinstance(message, Mapping) or name not in message:
            return _ABSENT
        message = message[name]
    return message


def _is_of(kind: str, value: Any) -> bool:
    if kind.endswith("?"):
        return value is None or _is_of(kind[:-1], value)
    check = KINDS.get(kind)
    return check(value) if check is not None else value in kind.split("|")


def _is_uuid(value: Any) -> bool:
    try:
        return str(UUID(value)) == str(value).lower()
    except (ValueError, TypeError, AttributeError):
        return False


def _is_moment(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (ValueError, TypeError):
        return False


def _is_whole(value: Any) -> bool:
    return type(value) is int


KINDS: Mapping[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "text": lambda value: isinstance(value, str) and value != "",
    "string": lambda value: isinstance(value, str),
    "integer": _is_whole,
    "number": lambda value: _is_whole(value) or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "object": lambda value: isinstance(value, Mapping),
    "list": lambda value: isinstance(value, list),
    "strings": lambda value: (
        isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    ),
    "digits": lambda value: isinstance(value, str) and value.isdigit(),
    "sha256": lambda value: (
        isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None
    ),
    "uuid": _is_uuid,
    "iso8601": _is_moment,
}
