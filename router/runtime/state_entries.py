"""List an agent's state for people: its values by name, also while it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from router.runtime.database import open_read_only

_QUERY = (
    "SELECT agent, name, value FROM memory WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR substr(name, 1, length(?2)) = ?2)"
    " ORDER BY agent, name LIMIT ?3"
)


class StateEntry(Struct, frozen=True):
    """One value of an agent's state."""

    agent: str
    name: str
    value: Any


def list_state_entries(path: Path, *, name: str | None = None, prefix: str | None = None, limit: int) -> list[StateEntry]:
    """Sorted by name; None: any. Raises Misconfigured, StoreFailed."""
    with open_read_only(path) as db:
        return [StateEntry(agent, key, orjson.loads(value)) for agent, key, value in db.execute(_QUERY, (name, prefix, limit))]
