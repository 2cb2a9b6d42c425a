"""Reads and checks a directory of policies: all legal ones, and the mistakes of the others with
their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from router.delivery.kv.directory import UnreadableFile, read_documents
from router.policies.check import check_policy
from router.policies.model import ParsedPolicy, PolicyError

Key = tuple[str, str]  # tenant (or `_shared`), policy
Check = Callable[[bytes, str, str], ParsedPolicy]


class Mistake(Struct, frozen=True):
    """`path`: the file's, inside the directory; `where`: the place inside the document, empty for
    the file itself.
    """

    path: str
    where: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.where, self.message) if part)


class PolicyFiles(Struct, frozen=True):
    """The content of a directory."""

    policies: Mapping[Key, ParsedPolicy]
    mistakes: tuple[Mistake, ...]


def read_policies(root: Path, check: Check = check_policy) -> PolicyFiles:
    """Every document below it, `<tenant>/<policy>.json` and `_shared/`; `check` raises PolicyError."""
    policies: dict[Key, ParsedPolicy] = {}
    mistakes: list[Mistake] = []
    for found in read_documents(root):
        if isinstance(found, UnreadableFile):
            mistakes.append(Mistake(found.path, "", found.error))
            continue
        try:
            policies[found.key] = check(found.data, *found.key)
        except PolicyError as exc:
            mistakes += (Mistake(found.path, where, message) for where, message in exc.errors)
    return PolicyFiles(policies, tuple(mistakes))
