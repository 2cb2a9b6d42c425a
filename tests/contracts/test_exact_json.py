"""JSON of others: no digit is lost between what is read and what is written."""

import copy
import json
import pickle
from contextlib import suppress
from decimal import Decimal

import orjson
import pytest
from msgspec import Raw

from router.contracts.codec import write_object, write_value
from router.contracts.exact_json import (
    WrittenNumber,
    WrittenObject,
    dump_json,
    load_json,
    load_written,
    may_lose_digits,
    require_json,
)
from router.contracts.payload_display import indent, pack
from tests.support.any_json import iterate_json, read_exactly

HELD = (
    b"0",
    b"-1",
    b"18446744073709551615",
    b"-9223372036854775808",
    b"0.1",
    b"1.50",
    b"123456789012345",
    b"1234567890123.50",
    b"1e22",
    b"-1.5E-7",
    b"1e100",
)


def test_any_json_is_the_same_after_it_was_read_and_written() -> None:
    for text in iterate_json(3_000, 1):
        assert read_exactly(dump_json(load_written(text))) == read_exactly(text), text
        assert load_json(text) == json.loads(text), text


@pytest.mark.parametrize("text", HELD)
def test_a_number_that_floats_and_64_bits_hold_is_a_plain_one(text: bytes) -> None:
    for data in (text, b"[%b,1e999]" % text):
        value = load_written(data)
        assert type(value[0] if isinstance(value, list) else value) in (int, float)


def test_a_number_of_more_digits_than_python_reads_is_a_float_that_is_written_as_it_came() -> None:
    digits = b"9" * 5_000
    assert load_json(digits) == float("inf")
    for text in (digits, b"9007199254740993.0", b"-18446744073709551616", b"-9223372036854775809"):
        assert dump_json(load_written(b"[%b]" % text)) == b"[%b]" % text


def test_what_is_json_is_told_as_it_is_read() -> None:
    for text in (
        *iterate_json(500, 3),
        b"9" * 5_000,
        b"NaN",
        b"[1e999",
        b"01e999",
        b'["\\ud800",1e999]',
        b'"\xff"',
        b"[18446744073709551616,]",
        b"",
    ):
        accepted = []
        for read in (load_json, load_written, require_json):
            with suppress(ValueError):
                read(text)
                accepted.append(read)
        assert len(accepted) in (0, 3), (text, accepted)


def test_a_written_number_is_copied_with_its_text() -> None:
    number = WrittenNumber("0.1234567890123456789012345")
    for one in (copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert (one, one.text) == (number, number.text)


def test_what_a_program_may_send() -> None:
    value = {
        "n": 2**64,
        "m": [-(2**70), (2**65,)],
        "d": Decimal("1.10"),
        "r": Raw(b'{"x":1.0}'),
        "f": 0.5,
        "b": True,
    }
    assert write_value(value) == (
        b'{"n":18446744073709551616,"m":[-1180591620717411303424,[36893488147419103232]],"d":1.10,"r":{"x":1.0},"f":0.5,"b":true}'
    )


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [2**64, float("inf")],
        Decimal("NaN"),
        Raw(b"{"),
        {"a": {1, 2}},
        "\ud800",
        [2**64, "\ud800"],
    ],
)
def test_what_it_may_not_send(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        write_value(value)


def test_an_object_that_was_read_knows_its_text_until_it_is_changed() -> None:
    read = WrittenObject(b'{"n":0.12345678901234567890,"n":1.0}')
    assert (read, read.text) == ({"n": 1.0}, b'{"n":0.12345678901234567890,"n":1.0}')
    assert write_object(read) == read.text
    read["m"] = 1
    assert (read.text, write_object(read)) == (None, b'{"n":1.0,"m":1}')


def test_a_layout_changes_nothing_but_space() -> None:
    for text in iterate_json(1_000, 2):
        assert read_exactly(indent(text)) == read_exactly(text)
        assert pack(indent(text).encode()) == pack(text)
    assert indent(b'{"a":[1,{"b":[]},{}],"c":"{, :\\""}').encode() == orjson.dumps(
        {"a": [1, {"b": []}, {}], "c": '{, :"'}, option=orjson.OPT_INDENT_2
    )


def test_times_and_ids_are_no_long_numbers() -> None:
    for text in (
        b'{"at":1700000000123456789}',
        b'{"id":"0af7651916cd43dd8448eb211c80319c"}',
        b'["550e8400-e29b-41d4-a716-446655440000"]',
    ):
        assert load_json(text) == orjson.loads(text)
    assert not may_lose_digits(
        b'{"ms":1700000000123,"share":0.25,"at":"2026-11-29T01:02:03.123456Z"}'
    )


@pytest.mark.parametrize("text", [b"[]", b"null", b'[["a",1]]'])
def test_a_written_object_is_one(text: bytes) -> None:
    with pytest.raises(TypeError):
        WrittenObject(text)
