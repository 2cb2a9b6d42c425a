"""The envelope: ten fields, read strictly, and the schema that says the same."""

import ast
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

import router.contracts
from router.contracts.envelope import (
    ENVELOPE_VERSION,
    SUPPORTED,
    MessageEnvelope,
    envelope_bytes,
    envelope_schema,
    envelope_schema_file,
    extract_envelope_ids,
    read_envelope,
    render_schema,
)
from router.contracts.malformed import (
    PAYLOAD_TOO_LARGE,
    SCHEMA_VALIDATION_FAILED,
    VERSION_UNSUPPORTED,
    Malformed,
)
from tests.support.bus import EXAMPLE
from tests.support.json_schema import is_valid

REQUIRED = (
    "schema_version",
    "message_type",
    "message_id",
    "timestamp",
    "actor_id",
    "actor_kind",
    "payload",
    "idempotency_key",
)
ABSENT: Any = object()

LEGAL = [
    ("message_type", "x" * 128),
    ("correlation_id", None),
    ("correlation_id", ABSENT),
    ("correlation_id", ""),
    ("causation_id", "evt 1 of 2"),
    ("causation_id", ABSENT),
    ("timestamp", "2024-01-15T14:30:00.123456789Z"),
    ("timestamp", "2024-01-15T14:30:00+00:00"),
    ("actor_id", "Zoë and the others"),
    ("actor_kind", "AGENT"),
    ("actor_kind", "SYSTEM"),
    ("payload", {}),
    ("payload", {"null": None, "list": [1, 2.5, {"deep": True}]}),
    ("idempotency_key", "k" * 256),
]
ILLEGAL = [
    ("schema_version", 1.0),
    ("schema_version", ["1.0"]),
    ("message_type", 7),
    ("message_type", "Loop Created"),
    ("message_id", ""),
    ("message_id", "x" * 129),
    ("message_id", "evt_1\n"),
    ("message_id", "évt"),
    ("correlation_id", 7),
    ("causation_id", ["evt_1"]),
    ("timestamp", "yesterday"),
    ("timestamp", 1_700_000_000),
    ("timestamp", "2024-01-15"),
    ("timestamp", "2024-01-15T14:30:00"),
    ("timestamp", "2024-01-15T14:30:00+01:00"),
    ("timestamp", "2024-01-15T14:30:00Z\n"),
    ("actor_id", ""),
    ("actor_id", {}),
    ("actor_kind", "ROBOT"),
    ("actor_kind", "human"),
    ("payload", []),
    ("payload", "text"),
    ("payload", 1),
    ("payload", None),
    ("idempotency_key", "k" * 257),
    ("idempotency_key", "two words"),
    ("idempotency_key", 7),
]


def example(name: str = "", value: object = ABSENT) -> dict[str, Any]:
    """SR's example with one field as said; ABSENT: without it."""
    body = {key: kept for key, kept in EXAMPLE.items() if key != name}
    return body if value is ABSENT else {**body, name: value}


def read(name: str = "", value: object = ABSENT) -> MessageEnvelope:
    return read_envelope(orjson.dumps(example(name, value)))


def test_the_specifications_example_goes_in_and_out_byte_for_byte() -> None:
    """SR-12, SR-4, SR-5: absent links stay, as null; SR-1, SR-3: what the example says is legal."""
    data = orjson.dumps(EXAMPLE)
    assert envelope_bytes(read_envelope(data)) == data
    assert is_valid(EXAMPLE, envelope_schema())


@pytest.mark.parametrize(("name", "value"), LEGAL)
def test_what_the_contract_allows_is_read(name: str, value: object) -> None:
    """SR-1 to SR-10, from the legal side: SR-2, SR-4, SR-5, SR-6, SR-7, SR-8, SR-9, SR-10."""
    kept = getattr(read(name, value), name)
    assert kept == (None if value is ABSENT else value)
    assert is_valid(example(name, value), envelope_schema())


@pytest.mark.parametrize(("name", "value"), ILLEGAL)
def test_a_field_of_another_kind_is_refused_by_its_name(name: str, value: object) -> None:
    """SR-1, SR-2, SR-3, SR-6, SR-7, SR-8, SR-9, SR-10: types, forms and the three kinds of actor."""
    with pytest.raises(Malformed) as refused:
        read(name, value)
    assert (refused.value.field, refused.value.code) == (name, SCHEMA_VALIDATION_FAILED)
    assert not is_valid(example(name, value), envelope_schema())


def test_a_date_that_no_calendar_has_is_refused() -> None:
    """SR-6."""
    with pytest.raises(Malformed, match="timestamp must be an ISO 8601"):
        read("timestamp", "2024-02-30T00:00:00Z")


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("value", [ABSENT, None, ""])
def test_a_required_field_that_is_absent_null_or_empty_is_missing(name: str, value: object) -> None:
    """SR-1, SR-2, SR-3, SR-6, SR-7, SR-8, SR-9, SR-10, SR-21: every message carries its idempotency
    key.
    """
    with pytest.raises(Malformed) as refused:
        read(name, value)
    assert refused.value.field == name
    if (name, value) != ("payload", ""):
        assert not is_valid(example(name, value), envelope_schema())


def test_unknown_fields_are_ignored_and_a_new_optional_one_keeps_the_version() -> None:
    """SR-27, SR-28: an older consumer reads what a newer producer of the same version sends."""
    newer = {**EXAMPLE, "priority": 7, "tags": ["new"]}
    assert read_envelope(orjson.dumps(newer)) == read_envelope(orjson.dumps(EXAMPLE))
    assert is_valid(newer, envelope_schema())


def test_the_version_is_looked_at_before_anything_else() -> None:
    """SR-27, SR-28: of another version no field is known, so none is judged."""
    with pytest.raises(Malformed) as refused:
        read_envelope(b'{"schema_version": "2.0", "payload": 7}')
    assert (refused.value.code, refused.value.field) == (VERSION_UNSUPPORTED, "schema_version")
    assert not is_valid(example("schema_version", "2.0"), envelope_schema())


def test_a_consumer_may_take_two_versions_while_producers_move_on() -> None:
    """SR-29: consumers first, then producers, then the old version goes."""
    newer = orjson.dumps(example("schema_version", "1.1"))
    assert read_envelope(newer, versions=SUPPORTED | {"1.1"}).schema_version == "1.1"
    with pytest.raises(Malformed):
        read_envelope(orjson.dumps(EXAMPLE), versions={"1.1"})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", SCHEMA_VALIDATION_FAILED),
        (b"\xff", SCHEMA_VALIDATION_FAILED),
        (b"[]", SCHEMA_VALIDATION_FAILED),
        (b'{"a":' * 65 + b"1" + b"}" * 65, SCHEMA_VALIDATION_FAILED),
        (b" " * 1024 * 1024 + b"{}", PAYLOAD_TOO_LARGE),
    ],
)
def test_limits_come_before_parsing(data: bytes, code: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_envelope(data)
    assert refused.value.code == code


DATES = [
    *(
        f"{year}-02-{day}"
        for year in ("0000", "0001", "1900", "2000", "2023", "2024", "2100", "9999")
        for day in ("28", "29", "30")
    ),
    *(f"2024-{month:02d}-{day:02d}" for month in range(14) for day in (0, 1, 30, 31, 32)),
    "\u0662\u0660\u0662\u0664-01-01",
]
TIMES = [
    "00:00:00Z",
    "23:59:59+00:00",
    "23:59:60Z",
    "12:60:00Z",
    "24:00:00Z",
    "00:00:00.123456789Z",
    "1\u0661:00:00Z",
]


def test_the_schema_and_the_reader_agree_on_every_date() -> None:
    """SR-6, SR-36: and both with Python's calendar; no leap second, no 30th of February."""
    schema = envelope_schema()["properties"]["timestamp"]
    moments = [f"{date}T{time}" for date in DATES for time in TIMES]
    by_schema = [moment for moment in moments if is_valid(moment, schema)]
    assert by_schema == [moment for moment in moments if is_read(moment)]
    assert by_schema == [
        moment
        for moment in moments
        if moment.isascii() and "T24" not in moment and is_in_the_calendar(moment)
    ]
    assert 100 < len(by_schema) < len(moments)


def is_read(moment: str) -> bool:
    try:
        read_envelope(orjson.dumps(example("timestamp", moment)))
    except Malformed:
        return False
    return True


def is_in_the_calendar(moment: str) -> bool:
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return False
    return True


def test_the_schema_in_the_package_is_the_type() -> None:
    """SR-36: the file exists, says what the type says, and validates the example."""
    assert envelope_schema_file() == render_schema(), (
        "run `python -m router.contracts.envelope` into the file"
    )
    schema = orjson.loads(envelope_schema_file())
    fields = msgspec.structs.fields(MessageEnvelope)
    assert [*schema["properties"]] == [field.name for field in fields] == [*EXAMPLE]
    assert schema["required"] == [field.name for field in fields if field.required] == [*REQUIRED]
    assert (
        schema["properties"]["schema_version"]["enum"]
        == sorted(SUPPORTED)
        == [ENVELOPE_VERSION]
        == ["1.0"]
    )


def test_no_contract_and_no_envelope_knows_of_nats() -> None:
    """SR-11: the envelope is a transport wrapper; nothing of the domain hangs on the broker's
    library.
    """
    imported = set()
    for file in Path(router.contracts.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            imported |= (
                {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            )
            imported |= {node.module} if isinstance(node, ast.ImportFrom) and node.module else set()
    assert imported
    assert not [
        name
        for name in imported
        if name.split(".")[0] == "nats" or name.startswith(("router.delivery", "router.bus"))
    ]


def test_a_dead_letter_knows_what_could_be_read_of_an_envelope_that_could_not() -> None:
    assert extract_envelope_ids(orjson.dumps(example("payload"))) == {
        "message_id": EXAMPLE["message_id"],
        "trace_id": EXAMPLE["correlation_id"],
    }
    assert (
        extract_envelope_ids(
            orjson.dumps({**EXAMPLE, "message_id": "two words", "correlation_id": None})
        )
        == {}
    )
    assert extract_envelope_ids(b"\xff") == {}
