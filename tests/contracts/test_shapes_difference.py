"""What breaks the other side: less is taken of what it writes, or more may come of what it reads."""

import copy
from typing import Any

import pytest

from router.contracts.shapes.difference import ADDED, BROKEN, CHANGED, compare_schemas
from router.operate.catalogue import RECEIVED, SENT, build_shapes

BASE: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "string", "maxLength": 5, "description": "old words"},
        "b": {"enum": ["x", "y"]},
        "c": {"type": ["integer", "null"], "minimum": 0},
        "d": {"type": "array", "items": {"type": "string", "pattern": "^a$"}},
    },
    "allOf": [{"if": {"required": ["b"]}, "then": {"required": ["c"]}}],
}


def changed(**paths: Any) -> dict[str, Any]:
    """The base with the value at `a__maxLength` … replaced; None takes it away."""
    schema = copy.deepcopy(BASE)
    for path, value in paths.items():
        *parents, name = path.split("__")
        part = schema
        for parent in parents:
            part = part[parent]
        if value is None:
            del part[name]
        else:
            part[name] = value
    return schema


@pytest.mark.parametrize(
    ("new", "received", "sent"),
    [
        (changed(), [], []),
        (changed(properties__a__description="new words"), [], []),
        (changed(properties__b=None), [BROKEN], [BROKEN]),
        (changed(properties__e={"type": "string"}), [ADDED], [ADDED]),
        (changed(properties__e={"type": "string"}, required=["a", "e"]), [BROKEN], [ADDED]),
        (changed(required=["a", "b"]), [BROKEN], [CHANGED]),
        (changed(required=[]), [CHANGED], [BROKEN]),
        (changed(properties__b={"enum": ["x"]}), [BROKEN], [CHANGED]),
        (changed(properties__b={"enum": ["x", "y", "z"]}), [CHANGED], [BROKEN]),
        (changed(properties__c__type="integer"), [BROKEN], [CHANGED]),
        (changed(properties__c__type=["integer", "null", "string"]), [CHANGED], [BROKEN]),
        (changed(properties__a__maxLength=4), [BROKEN], [CHANGED]),
        (changed(properties__a__maxLength=6), [CHANGED], [BROKEN]),
        (changed(properties__a__maxLength=None), [CHANGED], [BROKEN]),
        (changed(properties__c__minimum=1), [BROKEN], [CHANGED]),
        (changed(properties__d__items={"type": "string", "pattern": "^b$"}), [BROKEN], [BROKEN]),
        (changed(properties__d__items={"type": "string"}), [CHANGED], [BROKEN]),
        (changed(allOf=None), [CHANGED], [BROKEN]),
        (changed(allOf=[*BASE["allOf"], {"required": ["d"]}]), [BROKEN], [BROKEN]),
    ],
)
def test_a_change_breaks_those_who_write_or_those_who_read(
    new: dict[str, Any], received: list[str], sent: list[str]
) -> None:
    for direction, kinds in ((RECEIVED, received), (SENT, sent)):
        assert [change.kind for change in compare_schemas(BASE, new, direction, "m")] == kinds, (
            direction
        )


@pytest.mark.parametrize("shape", build_shapes().values(), ids=build_shapes())
def test_a_schema_does_not_differ_from_itself_and_no_field_of_it_goes_unseen(shape: Any) -> None:
    schema = shape.build_schema()
    assert list(compare_schemas(schema, copy.deepcopy(schema), shape.direction, shape.name)) == []
    for place in range(len(schema.get("oneOf", [0]))):
        form = schema["oneOf"][place] if "oneOf" in schema else schema
        for name in form["properties"]:
            other = copy.deepcopy(schema)
            del (other["oneOf"][place] if "oneOf" in other else other)["properties"][name]
            assert BROKEN in {
                change.kind
                for change in compare_schemas(schema, other, shape.direction, shape.name)
            }
