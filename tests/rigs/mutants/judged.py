"""Mutants that were looked at, and that no test needs to notice.

An entry of judged.toml names a file, the function, the line before and after, and the reason. It is
matched by these texts, not by numbers of lines: code may move, and where it changes, the entry ends.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rigs.mutants.changes import Change

JUDGED = Path(__file__).parent / "judged.toml"
Key = tuple[str, str, str, str]


def read_judged(file: Path = JUDGED) -> dict[Key, str]:
    """The reason of each."""
    entries: Sequence[Mapping[str, str]] = tomllib.loads(file.read_text()).get("judged", [])
    return {name_told(entry): entry["reason"] for entry in entries}


def name_told(entry: Mapping[str, str]) -> Key:
    return entry["file"], entry["place"], entry["before"], entry["after"]


def name_change(change: Change) -> Key:
    return change.file, change.place, change.before, change.after
