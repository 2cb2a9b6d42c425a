"""What changed between two schemas of one message, and whether it breaks the programs on the other
side.

    received    other programs write it: a schema that takes less than before breaks them
    sent        other programs read it: a schema that allows more than before, or promises less,
                breaks them

A field that is no longer there breaks both. What cannot be compared (a pattern, a rule over several
fields) counts as broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from msgspec import Struct

from router.contracts.shapes.message_shape import SENT
from router.contracts.shapes.parts import Schema

ADDED, CHANGED, BROKEN = "added", "changed", "broken"
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_RULES = ("allOf", "anyOf", "if", "then", "else", "not")


class ContractChange(Struct, frozen=True):
    """One line: `place` is the message and the field."""

    kind: str
    place: str
    text: str


def compare_schemas(
    old: Schema, new: Schema, direction: str, place: str
) -> Iterator[ContractChange]:
    """Both without references, and checked (`written`)."""
    yield from _compare_values(old, new, direction, place)
    yield from _compare_fields(old, new, direction, place)
    yield from _compare_forms(old, new, direction, place)
    added = set(_list_properties(new)) - set(_list_properties(old))
    yield from _compare_rules(old, new, direction, place, added)
    if "items" in old or "items" in new:
        yield from compare_schemas(
            old.get("items", {}), new.get("items", {}), direction, f"{place}[]"
        )


def _compare_fields(
    old: Schema, new: Schema, direction: str, place: str
) -> Iterator[ContractChange]:
    before, after = old.get("properties", {}), new.get("properties", {})
    needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
    for name in before:
        if name not in after:
            yield ContractChange(BROKEN, f"{place}.{name}", "the field is no longer there")
        else:
            yield from compare_schemas(before[name], after[name], direction, f"{place}.{name}")
    for name in after:
        if name not in before:
            is_broken = name in needed_after and direction != SENT
            yield ContractChange(
                BROKEN if is_broken else ADDED,
                f"{place}.{name}",
                "a new required field" if is_broken else "a new field",
            )
    for name in sorted(needed_after - needed_before & set(before)):
        if name in before:
            yield ContractChange(
                CHANGED if direction == SENT else BROKEN,
                f"{place}.{name}",
                "the field is required now",
            )
    for name in sorted(needed_before - needed_after):
        if name in after:
            yield ContractChange(
                BROKEN if direction == SENT else CHANGED,
                f"{place}.{name}",
                "the field is no longer required",
            )


def _compare_values(
    old: Schema, new: Schema, direction: str, place: str
) -> Iterator[ContractChange]:
    """The legal values: types, words, bounds, patterns."""
    for name, before, after in (
        ("types", _list_types(old), _list_types(new)),
        ("values", _list_words(old), _list_words(new)),
    ):
        yield from _compare_sets(name, before, after, direction, place)
    for keyword in (*_UPPER, *_LOWER):
        if (bound := old.get(keyword)) != (now := new.get(keyword)):
            is_wider = now is None or (bound is not None and (now > bound) is (keyword in _UPPER))
            yield _build_change(is_wider, direction, place, f"{keyword} is {now}, and was {bound}")
    for keyword in ("pattern", "format"):
        if old.get(keyword) != new.get(keyword):
            is_wider = keyword not in new
            yield _build_change(
                is_wider,
                direction,
                place,
                f"{keyword} is {new.get(keyword)}, and was {old.get(keyword)}",
                is_other=keyword in old,
            )


def _compare_sets(
    name: str,
    before: Collection[str] | None,
    after: Collection[str] | None,
    direction: str,
    place: str,
) -> Iterator[ContractChange]:
    if before == after:
        return
    if before is None or after is None:
        yield _build_change(
            after is None,
            direction,
            place,
            f"the {name} are {'any' if after is None else ', '.join(after)} now",
        )
        return
    if more := [value for value in after if value not in before]:
        yield _build_change(True, direction, place, f"new {name}: {', '.join(more)}")
    if fewer := [value for value in before if value not in after]:
        yield _build_change(False, direction, place, f"no longer legal {name}: {', '.join(fewer)}")


def _build_change(
    is_wider: bool, direction: str, place: str, text: str, *, is_other: bool = False
) -> ContractChange:
    """`is_other`: neither wider nor narrower than before, but another one."""
    is_broken = (is_wider is (direction == SENT)) or (is_other and not is_wider)
    return ContractChange(BROKEN if is_broken else CHANGED, place, text)


def _compare_forms(
    old: Schema, new: Schema, direction: str, place: str
) -> Iterator[ContractChange]:
    """The forms of `oneOf`, by their titles."""
    before, after = _name_forms(old), _name_forms(new)
    for name, form in before.items():
        if name in after:
            yield from compare_schemas(form, after[name], direction, f"{place}({name})")
        else:
            yield _build_change(False, direction, f"{place}({name})", "the form is no longer there")
    for name in after:
        if name not in before:
            yield _build_change(True, direction, f"{place}({name})", "a new form")


def _name_forms(schema: Schema) -> dict[str, Schema]:
    return {
        str(form.get("title", number)): form
        for number, form in enumerate(schema.get("oneOf", ()), 1)
    }


def _compare_rules(
    old: Schema, new: Schema, direction: str, place: str, added: set[str]
) -> Iterator[ContractChange]:
    """Rules over several fields: only whether they are the same. One about new fields alone belongs
    to them.
    """
    for keyword in _RULES:
        before, after = _list_rules(old, keyword), _list_rules(new, keyword)
        fewer = [rule for rule in before if rule not in after]
        more = [
            rule
            for rule in after
            if rule not in before and not (set(_list_properties(rule)) & added)
        ]
        if fewer and not more:
            yield _build_change(True, direction, place, f"{keyword}: a rule is no longer there")
        elif more:
            yield ContractChange(BROKEN, place, f"{keyword}: another rule over several fields")


def _list_rules(schema: Schema, keyword: str) -> Sequence[Any]:
    rules = schema.get(keyword)
    return rules if isinstance(rules, list) else [] if rules is None else [rules]


def _list_properties(schema: Any) -> Iterator[str]:
    """The names of all fields that a schema speaks of."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, Mapping) else ()
        for value in schema.values():
            yield from _list_properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _list_properties(value)


def _list_types(schema: Schema) -> list[str] | None:
    types = schema.get("type")
    return sorted(types) if isinstance(types, list) else None if types is None else [types]


def _list_words(schema: Schema) -> list[str] | None:
    words = [schema["const"]] if "const" in schema else schema.get("enum")
    return None if words is None else [str(word) for word in words]


MAX_DEPTH = 64
# of one file: parts that refer to parts that refer to parts grow beyond all bounds
MAX_VALUES = 1_000_000
WORDS = ("description", "examples")  # for people; a field may have such a name too
_BOUNDS = (
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
)


class Definitions:
    """The parts of one file, by name, and how many values may still be put in place."""

    def __init__(self, parts: object) -> None:
        self._parts = _need(parts, Mapping, "the definitions")
        self._left = MAX_VALUES

    def resolve(self, schema: Any, depth: int = 0) -> Any:
        """The schema with the parts that it refers to in place. Raises ValueError."""
        self._left -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a schema is nested deeper than {MAX_DEPTH}, or refers to itself")
        if self._left < 0:
            raise ValueError(
                f"with what they refer to, the schemas have more than {MAX_VALUES} values"
            )
        if isinstance(schema, list):
            return [self.resolve(item, depth + 1) for item in schema]
        if not isinstance(schema, Mapping):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            part = self.resolve(self._parts.get(reference.rpartition("/")[2], {}), depth + 1)
            return {
                **_need(part, Mapping, reference),
                **{name: value for name, value in schema.items() if name != "$ref"},
            }
        kept = {
            name: value
            for name, value in schema.items()
            if name not in WORDS or isinstance(value, Mapping)
        }
        return {name: self.resolve(value, depth + 1) for name, value in kept.items()}


def check_schema(schema: object, place: str) -> Mapping[str, Any]:
    """The schema, if everything in it that is compared is of its kind. Raises ValueError."""
    checked: Mapping[str, Any] = _need(schema, Mapping, place)
    for name, field in _need(
        checked.get("properties", {}), Mapping, f"{place}: properties"
    ).items():
        check_schema(field, f"{place}.{name}")
    for keyword in ("required", "enum", "oneOf"):
        _need(checked.get(keyword, []), list, f"{place}: {keyword}")
    _need_texts(checked.get("required", []), f"{place}: required")
    types = checked.get("type", "")
    _need_texts(types if isinstance(types, list) else [types], f"{place}: type")
    for keyword in _BOUNDS:
        _need(checked.get(keyword, 0), Real, f"{place}: {keyword}")
    for form in checked.get("oneOf", []):
        check_schema(form, f"{place}: oneOf")
    if "items" in checked:
        check_schema(checked["items"], f"{place}[]")
    return checked


def _need_texts(values: object, place: str) -> None:
    for value in _need(values, list, place):
        _need(value, str, place)


def _need(value: object, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{place} is not {_KINDS[kind]}")
    return value


_KINDS: Mapping[type, str] = {Mapping: "an object", list: "a list", str: "text", Real: "a number"}
