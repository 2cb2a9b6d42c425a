"""What the reader of ordinary requests reads, the careful reader reads alike."""

from itertools import product

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core.message import Message
from router.decide.model.read import read, read_carefully, read_plain
from tests.support.requests import GOOD_HEADERS, a_body, a_message, every_form

LITERALS = (
    *(
        "null",
        "true",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1E5",
        "1e400",
        "-1e-400",
        "01",
        "NaN",
        "18446744073709551616",
        "-9223372036854775809",
    ),
    *(
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"\x01"',
        '"\x7f"',
        '"a\\"b\\\\"',
        '"\\q"',
        "[1,]",
        '{"a":1,"a":2}',
        "[[1]]",
        '""',
        "tru",
    ),
)
literals = st.sampled_from(LITERALS) | st.text(max_size=5).map(
    lambda text: orjson.dumps(text.encode("utf-8", "replace").decode()).decode()
)
VALUES = (
    '"r-1"',
    '"acme"',
    '"a b"',
    '""',
    "null",
    '"1"',
    '"v1"',
    '"2"',
    "7",
    f'"{"x" * 200}"',
    '"chat"',
    "true",
    '"true"',
)
ids = st.sampled_from(VALUES)
NAMES = (
    "message_type",
    "payload",
    "message_id",
    "tenant_id",
    "trace_id",
    "request_id",
    "version",
    "policy_id",
    "type",
    "push_assignment",
)
OBJECTS = ("metadata", "context", "constraints")
OBJECT_VALUES = (
    '{"a":1,"b":"x"}',
    '{"b":2}',
    "{}",
    "null",
    '{"max_cost":1,"providers":["a","b.c"]}',
    '{"excluded_providers":["a"],"providers":null}',
    '{"providers":[]}',
    '{"excluded_providers":["a b"]}',
    '{"providers":"a"}',
    '{"provider":["a"]}',
)
RARE = (
    "idempotency_key",
    "timestamp_ms",
    "payload_ref",
    "schema_version",
    "run_id",
    "polcy_id",
    "message",
    "task",
)
parts = st.lists(
    st.tuples(st.sampled_from(NAMES), ids | literals)
    | st.tuples(
        st.sampled_from(OBJECTS),
        st.sampled_from([*OBJECT_VALUES, '{"n":1e3}', "[]"]),
    )
    | st.tuples(st.sampled_from(RARE), ids | literals),
    max_size=4,
).map(lambda fields: ",".join(f'"{name}":{value}' for name, value in fields))
USUAL = (
    '"message_type":"chat","payload":"hello","tenant_id":"acme"',
    '"message_type":"chat","payload":1.5',
    '"type":"chat","payload":{"a":1}',
)
wholes = st.tuples(st.sampled_from(["", *USUAL]), parts).map(
    lambda both: ",".join(filter(None, both))
)
bodies = st.one_of(
    st.tuples(wholes, parts).map(
        lambda of: (
            f'{{"request_id":"r-1","tenant_id":"acme","message":{{{of[0]}}}{"," + of[1] if of[1] else ""}}}'
        )
    ),
    st.tuples(wholes, parts).map(
        lambda of: (
            f'{{"request_id":"r-1","tenant_id":"acme","task":{{{of[0]}}}{"," + of[1] if of[1] else ""}}}'
        )
    ),
    wholes.map(lambda fields: f'{{"request_id":"r-1",{fields}}}' if fields else "{}"),
)
headers = st.dictionaries(
    st.sampled_from([*GOOD_HEADERS, "traceparent", "cp_phase", "Accept", "Nats-TTL", "Reply-To"]),
    st.sampled_from(
        ["", "acme", "1", "2", "m-1", "a b", "cp1", "application/x-protobuf", "x" * 200]
    ),
    max_size=4,
) | st.just(GOOD_HEADERS)


def agrees(message: Message) -> bool:
    """Whether it was read as an ordinary request; the careful reader must then say the same."""
    if read_plain(message, MAX_PAYLOAD_BYTES, MAX_DEPTH) is None:
        return False
    assert read(message) == read_carefully(message)
    return True


@settings(max_examples=400, deadline=None)
@given(bodies, headers)
@example(
    '{"message":{"message_type":"chat","payload":18446744073709551616},"request_id":"r-1"}',
    GOOD_HEADERS,
)
def test_what_both_read_they_read_alike(body: str, given_headers: dict[str, str]) -> None:
    agrees(a_message(body.encode("utf-8", "surrogatepass"), given_headers))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.binary(max_size=3), st.booleans(), st.sampled_from("abcd"))
def test_a_damaged_request_is_read_alike_or_left_to_the_careful_reader(
    at: int, bytes_in: bytes, is_cut: bool, form: str
) -> None:
    data = every_form()[form].data
    agrees(
        a_message(
            data[:at] + bytes_in + data[at + (0 if is_cut else len(bytes_in)) :], GOOD_HEADERS
        )
    )


@pytest.mark.parametrize("literal", LITERALS)
def test_each_literal_is_read_alike(literal: str) -> None:
    for place in ("payload", "metadata"):
        value = literal if place == "payload" else f'{{"of":{literal}}}'
        kept = (
            '"message_type":"chat"'
            if place == "payload"
            else '"message_type":"chat","payload":"hello"'
        )
        data = f'{{"tenant_id":"acme","request_id":"r-1","message":{{{kept},"{place}":{value}}}}}'
        agrees(a_message(data.encode("utf-8", "surrogatepass"), GOOD_HEADERS))


IDS = '"request_id":"r-1","tenant_id":"acme"'


def test_each_value_of_each_field_is_read_alike_in_every_form() -> None:
    forms = (
        '{%s,"message":{"message_type":"chat","payload":"x"%s}}',
        '{%s,"task":{"type":"chat","payload":"x"%s}}',
        '{%s,"payload":"x"%s}',
    )
    both = '{%s,"task":{"type":"chat","payload":"y"},"message":{"message_type":"chat","payload":"x"%s}}'
    read_plainly = 0
    for form, name, value, given_headers in product(
        (*forms, both), (*NAMES, *OBJECTS), (*VALUES, *OBJECT_VALUES), ({}, GOOD_HEADERS)
    ):
        for top, inner in ((f',"{name}":{value}', ""), ("", f',"{name}":{value}')):
            read_plainly += agrees(a_message((form % (IDS + top, inner)).encode(), given_headers))
    assert read_plainly > 100


@pytest.mark.parametrize("form", ["a", "b", "c", "d"])
def test_the_usual_forms_are_ordinary_requests(form: str) -> None:
    message = every_form()[form]
    assert agrees(message)
    assert agrees(a_message(message.data, GOOD_HEADERS))


@pytest.mark.parametrize(
    "broken",
    [
        {"trace_id": "two words"},
        {"tenant_id": "", "traceparent": "none"},
        {"tenant_id": "_shared"},
        {"tenant_id": "beta"},
        {"version": "", "cp_phase": "cp9"},
        {"Nats-Msg-Id": "a b"},
        {"Nats-Msg-Id": ""},
    ],
    ids=str,
)
def test_a_request_whose_headers_break_the_contract_is_read_once(broken: dict[str, str]) -> None:
    message = a_message({**a_body(), "request_id": "r-1"}, {**GOOD_HEADERS, **broken})
    assert agrees(message)
    assert read(message).violations


@pytest.mark.parametrize(
    "field", ["idempotency_key", "payload_ref", "timestamp_ms", "polcy_id", "return_message"]
)
def test_what_few_requests_carry_is_left_to_the_careful_reader(field: str) -> None:
    assert not agrees(a_message({**a_body(), "request_id": "r-1", field: "x"}))


def test_no_more_bytes_and_no_deeper_nesting_than_the_limits_are_taken() -> None:
    message = a_message({**a_body(), "request_id": "r-1"})
    assert read_plain(message, len(message.data), 2) is not None
    assert read_plain(message, len(message.data) - 1, 2) is None
    assert read_plain(message, len(message.data), 1) is None


@pytest.mark.parametrize(
    ("limits", "is_plain"),
    [
        ({"max_latency_ms": 5, "max_cost": 1}, True),
        ({"providers": ["a"] * 64, "excluded_providers": ["b"]}, True),
        ({"providers": ["a"] * 65}, False),
        ({"region": "eu"}, False),
    ],
    ids=["limits", "lists", "a long list", "another name"],
)
def test_constraints_that_may_be_wrong_or_misspelt_are_left_to_the_careful_reader(
    limits: dict[str, object], is_plain: bool
) -> None:
    message = a_message({**a_body(), "request_id": "r-1", "constraints": limits})
    assert agrees(message) is is_plain
