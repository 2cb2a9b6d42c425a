"""Hints for unknown names that look like a field: `polcy_id`, `policyId`. They are ignored, and the answer says so.

One letter too many, too few, another one, or two that changed places; capitals, `-` and `_` count for nothing. Every known name is
looked up by what is left of it without any one letter, so a name costs as many lookups as it has letters, whatever it is like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from router.contracts.request import NO_HINTS
from router.decide.model.fields import RARE, Object

MOST_HINTS = 4  # in one answer
MOST_NAMES = 64  # of one object that are looked at
MAX_NAME_LENGTH = 64  # letters of a name that is looked at
MIN_KNOWN_LENGTH = 5  # letters of a known name that a misspelled one may be like

_ANYWHERE = frozenset({"tenant_id", "message_type", "type", "payload", "message_id", "request_id", "trace_id", "version", "schema_version"})
# What most requests carry: of one that has nothing else no name is looked at.
PLAIN = _ANYWHERE | {"message", "task", "policy_id", "context", "constraints", "metadata", "push_assignment", "timestamp_ms"}
_OF_TASK = frozenset({"type", "payload", "payload_ref", "payload_encoding"})


def hints_of(body: Object, inner: Object, task: Object) -> Mapping[str, str]:
    """The field that was probably meant, by the place of each such name."""
    parts = [("", body, _TOP), ("task.", task, _TASK)]
    if inner is not body:
        parts.append(("message.", inner, _TOP))
    found = {f"{place}{name}": f"{place}{meant}" for place, part, known in parts for name, meant in _hints(part, known)}
    return dict(islice(found.items(), MOST_HINTS)) if found else NO_HINTS


def _hints(part: Object, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in islice(part, MOST_NAMES):
        if name in PLAIN or name in RARE or len(name) > MAX_NAME_LENGTH:
            continue
        meant = _find_meant(name, known)
        if meant is not None and meant not in part:
            yield name, meant


def _find_meant(name: str, known: Mapping[str, str]) -> str | None:
    return next((known[variant] for variant in _variants(_normal(name)) if variant in known), None)


def _normal(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _variants(name: str) -> Iterator[str]:
    """The name, and what is left of it without any one letter."""
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]


def _index_names(names: Iterable[str]) -> Mapping[str, str]:
    known: dict[str, str] = {}
    for name in sorted(names):
        normal = _normal(name)
        for variant in _variants(normal) if len(normal) >= MIN_KNOWN_LENGTH else (normal,):
            known.setdefault(variant, name)
    return known


_TOP = _index_names(PLAIN | RARE)
_TASK = _index_names(_OF_TASK)
