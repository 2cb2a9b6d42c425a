"""Conditions (`when`), compiled at load to closures that test one request.

    {}                                        always
    {"status": ["timeout", "5xx"]}            context.status is one of these
    {"user.tier": "gold"}                     context.user.tier equals
    {">": [{"var": "context.size"}, 10]}      an operator and its two operands
    several keys                              all of them

A path starts at `context`, `constraints`, `metadata` or `message`; any other first word is looked
up in the context. A missing value (or null), and values of kinds that do not compare, make the
condition false, `!=` too. No condition raises.

A request must not make a condition slow: `in` searches lists of at most 1 000 members and texts of
at most 16 384 characters, and is false for longer ones; an object or a list is compared with a
constant of the policy, never with another part of the request.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from router.contracts.decision import RouteRequest
from router.contracts.raw_json import RawJson
from router.policies.model.fields import Problems

MOST_ENTRIES = 32  # of one `when`
MOST_CHOICES = 200  # of a list of values to be equal to
MOST_MEMBERS = 1_000  # of a list that `in` looks into
MOST_TEXT = 16_384  # characters of a text that `in` looks into
MOST_STEPS, LONGEST_PATH = 16, 256  # of a path: steps, characters

NO_VALUE: Final = object()  # it has no kind, so it is equal to no value
STATUS_CLASS = re.compile(r"[1-5]xx")
_CLASSES = tuple(f"{first}xx" for first in range(1, 6))
_PATH = re.compile(r"[A-Za-z0-9_:-]+(\.[A-Za-z0-9_:-]+)*")
_MESSAGE_FIELDS = ("tenant_id", "message_type", "message_id", "payload", "payload_ref", "metadata")


class ConditionInput(Struct, frozen=True):
    """What a condition tests. `status` replaces `context.status`: the reported status, or one of
    the engine's own.
    """

    request: RouteRequest
    status: object = NO_VALUE


Condition = Callable[[ConditionInput], bool]
Operand = Callable[[ConditionInput], object]


def match_always(_inputs: ConditionInput) -> bool:
    """The condition `{}`."""
    return True


def compile_condition(document: Mapping[str, object], path: str, problems: Problems) -> Condition:
    """The closure for `document`; adds every mistake in it to `problems` under `path`."""
    if len(document) > MOST_ENTRIES:
        problems.add(path, f"has {len(document)} entries where {MOST_ENTRIES} are allowed")
        return match_always
    tests = [_entry(name, value, f"{path}.{name}", problems) for name, value in document.items()]
    if not tests:
        return match_always
    if len(tests) == 1:
        return tests[0]
    return lambda inputs: all(test(inputs) for test in tests)


def kind_of(value: object) -> str | None:
    """The JSON kind of a value; only values of the same kind compare. None: a value that never
    compares.
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "object"
    return "list" if isinstance(value, list | tuple) else None


def is_in_class(status: object, status_class: object) -> bool:
    """True if `status`, as number or text, belongs to a class such as `5xx`."""
    if not (isinstance(status_class, str) and STATUS_CLASS.fullmatch(status_class)):
        return False
    if isinstance(status, str):
        return (
            len(status) == 3
            and status.isascii()
            and status.isdigit()
            and status[0] == status_class[0]
        )
    if isinstance(status, bool) or not isinstance(status, int | float):
        return False
    return status // 100 == int(status_class[0])


def _entry(name: str, value: object, path: str, problems: Problems) -> Condition:
    if name in OPERATORS:
        return _comparison(OPERATORS[name], value, path, problems)
    looked_up = _variable(name, path, problems)
    choices = value if isinstance(value, list) else [value]
    if len(choices) > MOST_CHOICES:
        problems.add(path, f"has {len(choices)} members where {MOST_CHOICES} are allowed")
        return match_always
    if any(kind_of(choice) in ("object", "list") for choice in choices):
        problems.add(path, "is neither an operator nor a value to be equal to")
    return _match_any(looked_up, choices)


def _comparison(
    compare: Callable[[object, object], bool], value: object, path: str, problems: Problems
) -> Condition:
    if not isinstance(value, list) or len(value) != 2:
        problems.add(path, "must be [left, right]")
        return match_always
    left, right = (_operand(side, f"{path}[{index}]", problems) for index, side in enumerate(value))
    if not all(isinstance(side, Mapping) for side in value):
        return lambda inputs: compare(left(inputs), right(inputs))
    if compare is _is_within:
        return lambda inputs: compare(_require_scalar(left(inputs)), right(inputs))
    return lambda inputs: compare(_require_scalar(left(inputs)), _require_scalar(right(inputs)))


def _require_scalar(value: object) -> object:
    """A text, number or boolean as it is, else MISSING: comparing two large parts of a request
    would cost too much.
    """
    return NO_VALUE if isinstance(value, Mapping | list | tuple) else value


def _match_any(looked_up: Operand, choices: Sequence[object]) -> Condition:
    simple = {
        (kind_of(choice), choice)
        for choice in choices
        if isinstance(choice, bool | int | float | str)
    }
    classes = [status_class for status_class in _CLASSES if ("text", status_class) in simple]

    def test(inputs: ConditionInput) -> bool:
        value = looked_up(inputs)
        if not isinstance(value, bool | int | float | str):
            return False
        return (kind_of(value), value) in simple or any(
            is_in_class(value, status_class) for status_class in classes
        )

    return test


def _operand(value: object, path: str, problems: Problems) -> Operand:
    if isinstance(value, list) and len(value) > MOST_MEMBERS:
        problems.add(path, f"has {len(value)} members where {MOST_MEMBERS} are allowed")
    if not isinstance(value, Mapping):
        constant = NO_VALUE if value is None else value
        return lambda _inputs: constant
    name = value.get("var")
    if len(value) != 1 or not isinstance(name, str):
        problems.add(path, 'must be a value or {"var": "context.a.b"}')
        return lambda _inputs: NO_VALUE
    return _variable(name, path, problems)


def _variable(name: str, path: str, problems: Problems) -> Operand:
    root, *steps = name.split(".")
    if len(name) > LONGEST_PATH or len(steps) > MOST_STEPS:
        problems.add(path, f"is longer than {MOST_STEPS} steps or {LONGEST_PATH} characters")
    elif not _PATH.fullmatch(name):
        problems.add(
            path, "is neither an operator (==, !=, >, <, >=, <=, in) nor a path such as context.a.b"
        )
    elif root == "message" and (not steps or steps[0] not in _MESSAGE_FIELDS):
        problems.add(path, f"message has only {', '.join(_MESSAGE_FIELDS)}")
    if name in ("status", "context.status"):
        return lambda inputs: inputs.status
    if root == "message" and steps[:1] == ["payload"]:
        return lambda inputs: _walk(_read_payload(inputs.request), steps[1:])
    if root == "message":
        return lambda inputs: _walk(getattr(inputs.request, steps[0], None), steps[1:])
    if root in ("context", "constraints", "metadata"):
        return lambda inputs: _walk(getattr(inputs.request, root), steps)
    return lambda inputs: _walk(inputs.request.context, [root, *steps])


def _read_payload(request: RouteRequest) -> object:
    """Its value, read once for all conditions; bytes that are not UTF-8 compare with nothing."""
    payload = request.payload
    return payload.read() if type(payload) is RawJson else payload


def _walk(value: object, steps: Sequence[str]) -> object:
    for step in steps:
        if not isinstance(value, Mapping):
            return NO_VALUE
        value = value.get(step)
    return NO_VALUE if value is None else value


def _is_comparable(a: object, b: object) -> bool:
    return kind_of(a) is not None and kind_of(a) == kind_of(b)


def _is_equal(a: object, b: object) -> bool:
    return (_is_comparable(a, b) and a == b) or is_in_class(a, b)


def _is_unequal(a: object, b: object) -> bool:
    return (_is_comparable(a, b) or _is_class_of_number(a, b)) and not _is_equal(a, b)


def _is_class_of_number(a: object, b: object) -> bool:
    return kind_of(a) == "number" and isinstance(b, str) and STATUS_CLASS.fullmatch(b) is not None


def _compare_order(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool]:
    return lambda a, b: _is_comparable(a, b) and kind_of(a) in ("number", "text") and compare(a, b)


def _is_within(a: object, b: object) -> bool:
    if isinstance(b, list | tuple):
        return len(b) <= MOST_MEMBERS and _is_member(a, b)
    return isinstance(a, str) and isinstance(b, str) and len(b) <= MOST_TEXT and a in b


def _is_member(a: object, members: Sequence[object]) -> bool:
    """Whether `==` holds for any member. Python's own `in` is tried first: it rejects most lists
    ten times faster.
    """
    class_of_a = _class_of(a)
    if a not in members and (class_of_a is None or class_of_a not in members):
        return False
    return any(_is_equal(a, member) for member in members)


def _class_of(status: object) -> str | None:
    """The class of a status: `5xx` of 503 or "503"."""
    return next(
        (status_class for status_class in _CLASSES if is_in_class(status, status_class)), None
    )


OPERATORS: Mapping[str, Callable[[object, object], bool]] = {
    "==": _is_equal,
    "!=": _is_unequal,
    ">": _compare_order(operator.gt),
    "<": _compare_order(operator.lt),
    ">=": _compare_order(operator.ge),
    "<=": _compare_order(operator.le),
    "in": _is_within,
}
