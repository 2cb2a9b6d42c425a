"""What a reader says of a message, field by field.

A reader stops at the first field that is wrong. Here each such field is replaced by a legal value,
and the reader reads again, until it takes the message or says the same twice. So a message with
four mistakes has four lines.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import orjson
from msgspec import Struct

from router.contracts.codec import read_object
from router.contracts.header_rules import Violation, find_rule
from router.contracts.malformed import Malformed
from router.contracts.shapes.message_shape import find_unknown, list_fields
from router.core.outcome import Fault
from router.operate.catalogue import MessageShape
from router.serve.contract.commands.readers import Reader, ReaderVerdict

READ, REFUSED, IGNORED, BROKEN = "read", "refused", "ignored", "violation"
MAX_FAULTS = 32
MAX_LINES = 1_000  # of fields
WHOLE = "*"  # all of the message


class FieldLine(Struct, frozen=True):
    """One line: a field or a header (or WHOLE), the verdict, and why."""

    field: str
    verdict: str
    why: str = ""


class FieldReport(Struct, frozen=True):
    """`is_readable`: whether the reader takes the message as it is."""

    is_readable: bool
    lines: tuple[FieldLine, ...]


def report_fields(
    shape: MessageShape,
    reader: Reader,
    data: bytes,
    headers: Mapping[str, str],
    message: dict[str, Any] | None,
) -> FieldReport:
    """`message`: `data` as `parse` shows it."""
    verdict = reader(data, headers)
    faults = (
        {}
        if verdict.fault is None
        else _find_faults(shape, reader, message, headers, verdict.fault)
    )
    lines = [
        FieldLine(place, REFUSED, f"{fault.message} ({fault.code})")
        for place, fault in faults.items()
    ]
    lines += [
        FieldLine(violation[0], BROKEN, _describe(violation)) for violation in verdict.violations
    ]
    if message is not None:
        lines += _cut(_list_other_fields(shape, message, faults, verdict), len(message))
    return FieldReport(verdict.fault is None, tuple(lines))


def parse(data: bytes, max_bytes: int, max_depth: int) -> dict[str, Any] | None:
    """The message as JSON shows it; None for protobuf, for what is no object, and for what is
    larger or deeper than may be read.
    """
    try:
        return read_object(data, max_bytes, max_depth)
    except Malformed:
        return None


def _cut(lines: Iterator[FieldLine], fields: int) -> Iterator[FieldLine]:
    yield from islice(lines, MAX_LINES)
    if next(lines, None) is not None:
        yield FieldLine("…", IGNORED, f"the message has {fields} fields; {MAX_LINES} are shown")


def _describe(violation: Violation) -> str:
    rule = find_rule(violation)
    return (
        f"the header contract's rule `{rule.name}` is broken: {rule.says} (`router explain "
        f"{rule.code}`)"
    )


def _find_faults(
    shape: MessageShape,
    reader: Reader,
    message: dict[str, Any] | None,
    headers: Mapping[str, str],
    first: Fault,
) -> dict[str, Fault]:
    """Every fault that the reader finds, one after the other, by its place in the message."""
    legal = _list_legal_values(shape)
    repaired, fault, found = copy.deepcopy(message), first, dict[str, Fault]()
    for _ in range(MAX_FAULTS):
        place = _locate(fault.field, message, shape)
        if place in found:
            break
        found[place] = fault
        name = place.rpartition(".")[2]
        if repaired is None or name not in legal:
            break
        _replace(repaired, place, legal[name])
        following = reader(orjson.dumps(repaired), headers).fault
        if following is None:
            break
        fault = following
    return found


def _locate(field: str | None, message: Mapping[str, Any] | None, shape: MessageShape) -> str:
    """Where a field of a fault stands: of an enveloped message in `data`, unless it stands beside
    it.
    """
    if field is None or message is None:
        return WHOLE
    is_enveloped = isinstance(message.get("data"), dict) and "data" in list_fields(shape.body)
    return f"data.{field}" if is_enveloped and field.partition(".")[0] not in message else field


def _list_legal_values(shape: MessageShape) -> dict[str, Any]:
    """A legal value for each field of the examples, by its last name."""
    found: dict[str, Any] = {}
    for example in shape.examples:
        _add_values(found, example)
    return found


def _add_values(found: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        found.setdefault(name, value)
        if isinstance(value, Mapping):
            _add_values(found, value)


def _replace(message: dict[str, Any], place: str, value: Any) -> None:
    """Put a legal value where the reader looked."""
    *parents, name = place.split(".")
    part = message
    for parent in parents:
        inner = part.get(parent)
        part[parent] = part = inner if isinstance(inner, dict) else {}
    part[name] = value


def _list_other_fields(
    shape: MessageShape,
    message: dict[str, Any],
    faults: Mapping[str, Fault],
    verdict: ReaderVerdict,
) -> Iterator[FieldLine]:
    """The fields that the reader does not complain about."""
    known = list_fields(shape.body)
    unknown = set(find_unknown(message, known))
    for place in _walk(message, known):
        if place in faults:
            continue
        if place in unknown:
            meant = verdict.hints.get(place)
            yield FieldLine(
                place,
                IGNORED,
                f"no field of this message: did you mean {meant}?"
                if meant
                else "no field of this message",
            )
        else:
            yield FieldLine(place, READ)


def _walk(
    message: Mapping[str, Any], known: Mapping[str, object], inside: str = ""
) -> Iterator[str]:
    for name, value in message.items():
        place = f"{inside}{name}"
        yield place
        if isinstance(value, dict) and any(one.startswith(f"{place}.") for one in known):
            yield from _walk(value, known, f"{place}.")
