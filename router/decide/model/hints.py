"""What an answer tells its sender about a request: where a wrong field stands, and what was meant.

places   a reader names the RouteRequest's place; the sender may have used another form
hints    a name that is not known and looks like one that is: `polcy_id`, `policyId`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from router.contracts.decision import CONSTRAINTS, NO_HINTS
from router.contracts.malformed import Malformed
from router.decide.model.fields import RARE, Object

# -- The place of a wrong field as its sender wrote it: readers name the RouteRequest's place, a
# requester may use another form.
#
# task form     message.message_type  ->  task.type         message.tenant_id  ->  tenant_id
# flat          message.message_type  ->  message_type
# beside        message.tenant_id     ->  tenant_id, where it stands beside `message` and so is what
# was read

_MESSAGE = "message."
_NAME_IN_TASK = {"message_type": "type", "payload": "payload", "payload_ref": "payload_ref"}
_EITHER = ("request_id", "idempotency_key")  # named without `message`, and read there too
# read from `message` where there is one, never from beside it
_OF_CONTENT = frozenset({*_NAME_IN_TASK, "metadata"})


def translate_place(refused: Malformed, body: Object) -> Malformed:
    """The same error with its place in the form of this request."""
    field = refused.field
    place = _place(field, body) if field is not None else None
    if place is None or place == field:
        return refused
    text = str(refused)
    if place.startswith("task."):  # a name that the sender did not write
        text = text.replace(
            f" field: {(field or '').removeprefix(_MESSAGE)}", f" field: {place}", 1
        )
    return Malformed(refused.code, text, refused.stage, place)


def _place(field: str, body: Object) -> str:
    inner, task = body.get("message"), body.get("task")
    name = field.removeprefix(_MESSAGE)
    if not field.startswith(_MESSAGE):
        is_within = (
            field in _EITHER and isinstance(inner, dict) and field in inner and field not in body
        )
        return _MESSAGE + field if is_within else field
    if (
        isinstance(task, dict)
        and name in _NAME_IN_TASK
        and (not isinstance(inner, dict) or (_NAME_IN_TASK[name] in task and name not in inner))
    ):
        return f"task.{_NAME_IN_TASK[name]}"
    if isinstance(inner, dict):
        return name if name not in _OF_CONTENT and body.get(name) not in (None, "") else field
    return name


# -- Hints for unknown names that look like a field: `polcy_id`, `policyId`. They are ignored,
# and the answer says so.
#
# One letter too many, too few, another one, or two that changed places; capitals, `-` and `_`
# count for nothing. Every known name is looked up by what is left of it without any one letter,
# so a name costs as many lookups as it has letters, whatever it is like.

MOST_HINTS = 4  # in one answer
MOST_NAMES = 64  # of one object that are looked at
MAX_NAME_LENGTH = 64  # letters of a name that is looked at
MIN_KNOWN_LENGTH = 5  # letters of a known name that a misspelled one may be like

_ANYWHERE = frozenset(
    {
        "tenant_id",
        "message_type",
        "type",
        "payload",
        "message_id",
        "request_id",
        "trace_id",
        "version",
        "schema_version",
    }
)
# What most requests carry: of one that has nothing else no name is looked at.
PLAIN = _ANYWHERE | {
    "message",
    "task",
    "policy_id",
    "context",
    "constraints",
    "metadata",
    "push_assignment",
    "timestamp_ms",
}
_KNOWN_OF_TASK = frozenset({"type", "payload", "payload_ref", "payload_encoding"})


def hints_of(body: Object, inner: Object, task: Object) -> Mapping[str, str]:
    """The field that was probably meant, by the place of each such name."""
    parts = [("", body, _KNOWN_AT_TOP), ("task.", task, _KNOWN_IN_TASK)]
    if inner is not body:
        parts.append(("message.", inner, _KNOWN_AT_TOP))
    constraints = body.get("constraints")
    if isinstance(constraints, dict):
        parts.append(("constraints.", constraints, _KNOWN_CONSTRAINTS))
    hints = {
        f"{place}{name}": f"{place}{meant}"
        for place, part, names in parts
        for name, meant in _hints(part, names)
    }
    return dict(islice(hints.items(), MOST_HINTS)) if hints else NO_HINTS


def _hints(part: Object, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in islice(part, MOST_NAMES):
        if name in PLAIN or name in RARE or len(name) > MAX_NAME_LENGTH:
            continue
        meant = _find_meant(name, names)
        if meant is not None and meant not in part:
            yield name, meant


def _find_meant(name: str, names: Mapping[str, str]) -> str | None:
    return next((names[variant] for variant in _variants(_normal(name)) if variant in names), None)


def _normal(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _variants(name: str) -> Iterator[str]:
    """The name, and what is left of it without any one letter."""
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]


def _index_names(names: Iterable[str]) -> Mapping[str, str]:
    index: dict[str, str] = {}
    for name in sorted(names):
        normal = _normal(name)
        for variant in _variants(normal) if len(normal) >= MIN_KNOWN_LENGTH else (normal,):
            index.setdefault(variant, name)
    return index


_KNOWN_AT_TOP = _index_names(PLAIN | RARE)
_KNOWN_IN_TASK = _index_names(_KNOWN_OF_TASK)
_KNOWN_CONSTRAINTS = _index_names(CONSTRAINTS)
