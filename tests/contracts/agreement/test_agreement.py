"""Schemas and readers say the same of every message; `python -m tests.contracts.agreement` compares
many more.
"""

import copy
import random
from collections import Counter
from typing import Any

import orjson
import pytest

from router.config import Settings
from router.contracts.envelope import envelope_bytes
from router.contracts.shapes.message_shape import list_fields
from router.operate.catalogue import RECEIVED, SENT, MessageShape, ShapeLimits, build_shapes
from router.serve.contract.commands.field_report import build_readers
from tests.contracts.agreement.compare import find_disagreements, validator_of
from tests.contracts.agreement.readers import READERS, is_readable
from tests.contracts.agreement.written import WRITERS
from tests.support import bus, extension_author, requests, router_streams, sdk, stories, workers

SHAPES = build_shapes()
MESSAGES = 2_000


def test_every_message_is_compared() -> None:
    assert set(READERS) == set(named(RECEIVED))
    assert set(named(SENT)) <= set(WRITERS)


def named(direction: str) -> list[str]:
    return [shape.name for shape in SHAPES.values() if shape.direction == direction]


@pytest.mark.parametrize("name", named(RECEIVED))
def test_the_schema_takes_what_the_reader_takes_and_nothing_else(name: str) -> None:
    counts: Counter[bool] = Counter()
    assert list(find_disagreements(SHAPES[name], MESSAGES, seed=1, counts=counts)) == []
    assert min(counts[True], counts[False]) > MESSAGES / 5, "the messages must be of both kinds"


@pytest.mark.parametrize("name", WRITERS)
def test_every_message_that_the_router_writes_is_valid_and_its_reader_takes_it(name: str) -> None:
    chance, validator, read = (
        random.Random(1),
        validator_of(SHAPES[name]),
        build_readers(Settings(), SHAPES)[name],
    )
    for _ in range(MESSAGES):
        data = WRITERS[name](chance)
        validator.validate(orjson.loads(data))
        assert read(data, {}).fault is None


@pytest.mark.parametrize("name", named(SENT))
def test_a_message_that_lacks_a_required_field_is_invalid(name: str) -> None:
    shape, chance = SHAPES[name], random.Random(2)
    validator = validator_of(shape)
    required = {name for form in shape.body.get("oneOf", [shape.body]) for name in form["required"]}
    for _ in range(MESSAGES // 10):
        message = orjson.loads(WRITERS[name](chance))
        for field in required & message.keys():
            assert not validator.is_valid(
                {key: value for key, value in message.items() if key != field}
            )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_examples_are_valid_and_read(shape: MessageShape) -> None:
    validator, read = validator_of(shape), build_readers(Settings(), SHAPES)[shape.name]
    for example in shape.examples:
        validator.validate(example)
        assert read(orjson.dumps(example), {}).fault is None


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_schema_refers_to_nothing_outside_itself_and_describes_what_its_examples_have(
    shape: MessageShape,
) -> None:
    schema = shape.build_schema()
    assert schema["$id"] == f"urn:beamline:router:v1:{shape.name}"
    assert {field for example in shape.examples for field in example} <= set(
        list_fields(shape.body)
    )
    assert b"https://" not in orjson.dumps({**schema, "$schema": ""})


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_field_of_a_published_schema_has_a_type(shape: MessageShape) -> None:
    """Makers of types take a field without one for an object, and then refuse `"message_type":
    "chat"`.
    """
    kinds = {"type", "const", "enum", "$ref", "anyOf", "properties"}
    fields = {
        place: field
        for place, field in list_fields(shape.build_schema()).items()
        if not kinds & field.keys()
    }
    assert fields == {}


def fixtures() -> list[tuple[str, Any]]:
    """The messages that other tests use."""
    decide = [
        (f"decide {form}", message.data)
        for form, message in requests.every_form().items()
        if form != "e"
    ]
    results = [
        (f"result {form}", message.data)
        for form, message in workers.in_every_form().items()
        if form != "protobuf"
    ]
    written = [
        ("ack", workers.an_ack().data),
        ("decide of a story", stories.a_request(1, push_assignment=True)),
        ("result of a story", router_streams.a_result(1)),
        ("envelope", envelope_bytes(bus.an_envelope())),
    ]
    bodies = [
        ("assignment", sdk.a_body()),
        ("assignment with options", sdk.a_body(**sdk.with_options())),
        ("extension-request", extension_author.a_request()),
        ("provider-call", extension_author.a_prompt()),
    ]
    return [*((name, orjson.loads(data)) for name, data in [*decide, *results, *written]), *bodies]


@pytest.mark.parametrize(("name", "message"), fixtures(), ids=[name for name, _ in fixtures()])
def test_the_messages_of_other_tests_are_valid(name: str, message: Any) -> None:
    validator_of(SHAPES[name.split(maxsplit=1)[0]]).validate(message)


def test_the_settings_bounds_are_the_schemas_bounds() -> None:
    shapes = build_shapes(ShapeLimits(max_cost=5, assignment_subjects=("caf.exec.other",)))
    result = copy.deepcopy(shapes["result"].examples[0])
    assert [
        validator_of(shapes["result"]).is_valid({**result, "cost": cost}) for cost in (5, 5.5)
    ] == [True, False]
    request = shapes["decide"].examples[-1]
    subjects = ("caf.exec.other", "caf.exec.assign.v1")
    assert [
        validator_of(shapes["decide"]).is_valid({**request, "assignment_subject": one})
        for one in subjects
    ] == [True, False]


# What no schema can say: docs/reference/messages.md#limits lists it.


@pytest.mark.parametrize(
    ("name", "change"),
    [("decide", {"timestamp_ms": 1.0}), ("decide", {"push_assignment": 1.0})],
    ids=["an integer with a decimal point", "one with a decimal point"],
)
def test_a_whole_number_with_a_decimal_point_is_valid_and_refused(
    name: str, change: dict[str, Any]
) -> None:
    message = {**SHAPES[name].examples[0], **change}
    assert (validator_of(SHAPES[name]).is_valid(message), is_readable(name, message)) == (
        True,
        False,
    )
