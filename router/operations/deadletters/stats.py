"""Count dead letters by kind: operators read a thousand of them as five causes.

Grouped by reason and error, or by subject and reason; the most numerous group first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from router.operations.deadletters.parse import DeadLetter
from router.operations.deadletters.selection import DeadLetterBatch

Kind = tuple[str, ...]


class DeadLetterGroup(Struct):
    """Dead letters of one kind. `oldest` and `newest` are times of storing, the server's text; sequences are the dead letters'."""

    kind: Kind
    oldest: str
    first_sequence: int
    newest: str = ""
    last_sequence: int = 0
    count: int = 0
    bytes: int = 0

    def take(self, letter: DeadLetter) -> None:
        self.count += 1
        self.bytes += len(letter.raw)
        self.newest, self.last_sequence = letter.stored_at, letter.sequence

    def facts(self) -> dict[str, str | int]:
        """Everything but the kind, whose parts have names of their own."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "kind"}


def reason_and_error(letter: DeadLetter) -> Kind:
    """The kind by cause: the same error at the same field has one cause."""
    return letter.reason, letter.code or "", letter.field or "", letter.original_subject


def subject_and_reason(letter: DeadLetter) -> Kind:
    """The labels of `router_dlq_depth`."""
    return letter.original_subject, letter.reason


async def group_by(chosen: AsyncIterator[DeadLetterBatch], kind_of: Callable[[DeadLetter], Kind]) -> list[DeadLetterGroup]:
    """The groups of the chosen dead letters, which come oldest first."""
    groups: dict[Kind, DeadLetterGroup] = {}
    async for handful in chosen:
        for letter in handful.letters:
            kind = kind_of(letter)
            if kind not in groups:
                groups[kind] = DeadLetterGroup(kind, letter.stored_at, letter.sequence)
            groups[kind].take(letter)
    return sorted(groups.values(), key=lambda group: -group.count)
