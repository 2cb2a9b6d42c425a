"""Count dead letters by kind: operators read a thousand of them as five causes.

Grouped by reason and error, or by subject and reason; the most numerous group first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct

from router.core.ack_subject import parse_ack_subject
from router.delivery.consume.stream_reader import format_stored_time
from router.operate.dead_letters.heads import DeadLetterHead

Kind = tuple[str | None, ...]  # None: it has no such part


class DeadLetterGroup(Struct):
    """Dead letters of one kind. `oldest` and `newest` are times of storing, the server's text;
    sequences are the dead letters'.
    """

    kind: Kind
    oldest: str
    first_sequence: int
    newest: str = ""
    last_sequence: int = 0
    count: int = 0
    bytes: int = 0

    def facts(self) -> dict[str, str | int]:
        """Everything but the kind, whose parts have names of their own."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "kind"}


class _KindCount(Struct):
    """One kind while it is counted: the ack subjects of its first and its last one are read in the
    end.
    """

    first: bytes
    last: bytes = b""
    count: int = 0
    bytes: int = 0


def reason_and_error(head: DeadLetterHead) -> Kind:
    """The kind by cause: the same error at the same field has one cause."""
    return head.reason, head.code or "", head.field or "", head.original_subject


def subject_and_reason(head: DeadLetterHead) -> Kind:
    """The labels of `router_dlq_depth`."""
    return head.original_subject, head.reason


async def group_by(
    chosen: AsyncIterator[Sequence[DeadLetterHead]], kind_of: Callable[[DeadLetterHead], Kind]
) -> list[DeadLetterGroup]:
    """The groups of the chosen dead letters, which come oldest first."""
    counts: dict[Kind, _KindCount] = {}
    async for heads in chosen:
        for head in heads:
            kind = kind_of(head)
            if (count := counts.get(kind)) is None:
                count = counts[kind] = _KindCount(head.ack_subject)
            count.last = head.ack_subject
            count.count += 1
            count.bytes += head.size
    groups = [_build_group(kind, count) for kind, count in counts.items()]
    return sorted(groups, key=lambda group: -group.count)


def _build_group(kind: Kind, count: _KindCount) -> DeadLetterGroup:
    first, last = (
        parse_ack_subject(ack_subject.decode()) for ack_subject in (count.first, count.last)
    )
    times = (format_stored_time(place.stored_ns) for place in (first, last))
    oldest, newest = times
    return DeadLetterGroup(
        kind, oldest, first.sequence, newest, last.sequence, count.count, count.bytes
    )
