"""Check that a store's schema is ours, and nothing else: tables, indexes, triggers, views, word for
word.

A trigger that was added to the file runs inside the agent's own commits, and its writes count as
the agent's. So an agent refuses to open a store that holds anything beside its schema, and `router
agent verify` names what it holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

from router.agents import schema

MAX_REPORTED = 5
# ANALYZE makes those
_OBJECTS = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT IN ('sqlite_stat1', "
    "'sqlite_stat4')"
)

Object = tuple[str, str, str, str]  # type, name, table, its SQL with single spaces


def differences(connection: sqlite3.Connection, version: int) -> Sequence[str]:
    """Objects that are not ours, and ours that are missing or changed; at most MOST_TOLD of them."""
    found, ours = _objects(connection), _expected_objects(schema.MIGRATIONS[:version])
    strange = [f"{kind} {_format_name(name)}" for kind, name, _, _ in sorted(found - ours)]
    missing = [
        f"no {kind} {name}"
        for kind, name, _, _ in sorted(ours - found)
        if f"{kind} {name}" not in strange
    ]
    return [*strange, *missing][:MAX_REPORTED]


def _format_name(name: str) -> str:
    return name if name.isidentifier() and len(name) <= 64 else ascii(name[:64])


@cache
def _expected_objects(migrations: tuple[str, ...]) -> frozenset[Object]:
    """The objects that these migrations make in an empty file."""
    connection = sqlite3.connect(":memory:")
    try:
        for script in migrations:
            connection.executescript(script)
        return _objects(connection)
    finally:
        connection.close()


def _objects(connection: sqlite3.Connection) -> frozenset[Object]:
    return frozenset(
        (str(kind), str(name), str(table), " ".join(str(text or "").split()))
        for kind, name, table, text in connection.execute(_OBJECTS)
    )
