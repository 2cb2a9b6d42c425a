"""The differences between two JSON documents, path by path.

    providers[openai].weight: 70 -> 50

List entries that have a `name` or an `id` are compared by it, so that an entry inserted in front is
one difference. If the order of the other entries has changed too, that is one more difference.
Other lists are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

_NAMES = ("name", "id")


class Absent:
    """The type of ABSENT, which stands for a missing value: null is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


class DocumentDifference(Struct, frozen=True):
    """One difference; `before` or `after` is ABSENT where the document has no value at the path."""

    path: str
    before: object
    after: object


def find_differences(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[DocumentDifference]:
    """All differences, in the order of the documents, new keys last; empty: both say the same."""
    return list(_compare_objects(before, after, ""))


def _compare_objects(
    before: Mapping[str, object], after: Mapping[str, object], path: str
) -> Iterator[DocumentDifference]:
    for key in dict.fromkeys((*before, *after)):
        place = f"{path}.{key}" if path else str(key)
        yield from _compare_values(before.get(key, ABSENT), after.get(key, ABSENT), place)


def _compare_values(before: object, after: object, path: str) -> Iterator[DocumentDifference]:
    if _is_same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _compare_objects(before, after, path)
        return
    one, other = _index_by_name(before), _index_by_name(after)
    if one is None or other is None:
        yield DocumentDifference(path, before, after)
        return
    for name in dict.fromkeys((*one, *other)):
        yield from _compare_values(
            one.get(name, ABSENT), other.get(name, ABSENT), f"{path}[{name}]"
        )
    yield from _compare_order(list(one), list(other), path)


def _compare_order(before: list[str], after: list[str], path: str) -> Iterator[DocumentDifference]:
    stayed, now = (
        [name for name in before if name in after],
        [name for name in after if name in before],
    )
    if stayed != now:
        yield DocumentDifference(f"{path} (order)", stayed, now)


def _index_by_name(value: object) -> dict[str, object] | None:
    """The entries of a list by their names; None: not every entry has a unique name. An absent list
    counts as empty.
    """
    if value is ABSENT:
        return {}
    if not isinstance(value, list):
        return None
    named = {name: entry for entry in value if (name := _name(entry)) is not None}
    return named if len(named) == len(value) else None


def _name(entry: object) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    return next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), None)


def _is_same(before: object, after: object) -> bool:
    """Whether two JSON values are equal: unlike in Python, true is not 1."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(
            _is_same(before[key], after[key]) for key in before
        )
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return before == after
