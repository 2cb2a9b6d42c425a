"""An agent's state while a batch is applied: the changes of one message are committed or rolled
back as a whole.

    get ──> this message's changes ──> the batch's changes so far ──> the store

A message that fails leaves no trace, and costs no savepoint in SQLite: its changes were never
written. `list_state_entries` lists a state for people, also while the agent works.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from router.agents.database import open_read_only
from router.agents.store import Memory
from router.contracts.codec import write_value
from router.contracts.exact_json import load_json, load_written
from router.core.errors import Poison

MAX_STATE_NAME = 512  # characters
# bytes of JSON; SQLite refuses a gigabyte, and would end the agent with it
MAX_STATE_VALUE_BYTES = 64 * 1024 * 1024


class StateTooLarge(Poison):
    """A state may hold neither the value nor its name: its message is refused, the agent goes on."""

    code = "state_too_large"


class StateTransaction:
    """`adapter.AgentState` for one batch. It keeps values as JSON, so `get` returns a copy."""

    def __init__(self, stored: Callable[[str], bytes | None]) -> None:
        self._stored = stored
        self._kept: dict[str, bytes | None] = {}
        self._draft: dict[str, bytes | None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        _check_text(name)
        if name in self._draft:
            value = self._draft[name]
        elif name in self._kept:
            value = self._kept[name]
        else:
            value = self._stored(name)
        return default if value is None else load_json(value)

    def put(self, name: str, value: Any) -> None:
        _check_text(name)
        data = write_value(value, orjson.OPT_SORT_KEYS)
        if not 0 < len(name) <= MAX_STATE_NAME or len(data) > MAX_STATE_VALUE_BYTES:
            raise StateTooLarge(
                f"a state's name has 1 to {MAX_STATE_NAME} characters, its value at most "
                f"{MAX_STATE_VALUE_BYTES} bytes"
            )
        self._draft[name] = data

    def delete(self, name: str) -> None:
        _check_text(name)
        self._draft[name] = None

    def commit(self) -> None:
        self._kept |= self._draft
        self._draft.clear()

    def rollback(self) -> None:
        self._draft.clear()

    @property
    def rows(self) -> list[Memory]:
        """The changes of the batch, each name once."""
        return list(self._kept.items())


def _check_text(name: str) -> None:
    """Raises StateTooLarge. SQLite would refuse a name that is no text when the batch is stored,
    and end the agent at each start.
    """
    try:
        if isinstance(name, str):
            name.encode()
            return
    except UnicodeEncodeError:
        # half of a surrogate pair, as an escape within JSON within JSON gives
        pass
    raise StateTooLarge(f"a state's name is a text of 1 to {MAX_STATE_NAME} characters")


_QUERY = (
    "SELECT agent, name, value FROM memory WHERE (:name IS NULL OR name = :name)"
    " AND (:prefix IS NULL OR substr(name, 1, length(:prefix)) = :prefix) ORDER BY agent, "
    "name LIMIT :limit"
)


class StateEntry(Struct, frozen=True):
    """One value of an agent's state."""

    agent: str
    name: str
    value: Any


def list_state_entries(
    path: Path, *, name: str | None = None, prefix: str | None = None, limit: int
) -> list[StateEntry]:
    """Sorted by name; None: any. Raises Misconfigured, StoreFailed."""
    with open_read_only(path) as db:
        return [
            StateEntry(agent, key, load_written(value))
            for agent, key, value in db.execute(
                _QUERY, {"name": name, "prefix": prefix, "limit": limit}
            )
        ]
