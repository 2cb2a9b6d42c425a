"""The offenders that are known, a file for each rule, one name a line: the lists only shrink.

A name that offends and is not listed is new: it is given another name. A name that is listed and
offends no more is taken off the list, by `python -m tests.house --write`, which never adds one.
"""

from collections.abc import Callable
from pathlib import Path

from tests.house.measure import (
    HERE,
    Places,
    find_duplicate_classes,
    find_fragment_functions,
    find_old_words,
    find_vague_prose,
)

RULES: dict[str, Callable[[], Places]] = {
    "duplicate_classes": find_duplicate_classes,
    "fragment_functions": find_fragment_functions,
    "old_words": find_old_words,
    "vague_prose": find_vague_prose,
}


def read_list(rule: str, folder: Path = HERE) -> set[str]:
    return set((folder / f"{rule}.txt").read_text().split())


def shrink_list(rule: str, offenders: set[str], folder: Path = HERE) -> None:
    """Leave on the list what offends still."""
    remaining = sorted(read_list(rule, folder) & offenders)
    (folder / f"{rule}.txt").write_text("".join(f"{name}\n" for name in remaining))
