"""Headers that stand several times: readers have the first value, and no value is lost where they
are passed on.
"""

import pytest

from router.core.header_names import (
    RepeatedHeaders,
    keep_headers,
    list_lines,
    read_headers,
    replace_headers,
    tell_headers,
)
from router.delivery.publish.encoded_headers import head_with_id
from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import parse_head


def parse_lines(*lines: str) -> dict[str, str]:
    return parse_head("\r\n".join(("NATS/1.0", *lines, "", "")).encode()) or {}


@pytest.mark.parametrize(
    "values", [("a", "a"), ("a", "b", "a"), ("one", "two"), ("", "x"), ("x", "")]
)
def test_each_value_is_read_and_written_in_order(values: tuple[str, ...]) -> None:
    headers = parse_lines("Own: 1", *(f"X: {value}" for value in values), "Other: 2")
    assert headers["X"] == values[0]
    assert tell_headers(headers) == {"Own": "1", "X": list(values), "Other": "2"}
    again = parse_head(head_of(headers))
    assert again is not None
    assert list(list_lines(again)) == list(list_lines(headers))
    assert read_headers(tell_headers(headers)) == headers


def test_headers_that_stand_once_are_a_plain_dict() -> None:
    assert type(parse_lines("X: a", "Y: b")) is dict
    assert type(parse_lines("X:a", "y : b")) is dict


def test_names_that_are_read_are_one_name_in_any_case() -> None:
    assert tell_headers(parse_lines("TRACEPARENT: one", "Traceparent: two")) == {
        "traceparent": ["one", "two"]
    }
    assert tell_headers(parse_lines("Tenant_id: evil", "tenant_id: acme", "Tenant_id: more")) == {
        "Tenant_id": ["evil", "more"],
        "tenant_id": "acme",
    }


def test_a_header_of_ours_takes_the_place_of_all_its_values() -> None:
    headers = parse_lines("X: a", "X: b", "Y: c", "Y: d")
    assert tell_headers(replace_headers(headers, {"X": "ours", "Z": "z"})) == {
        "Y": ["c", "d"],
        "X": "ours",
        "Z": "z",
    }
    assert tell_headers(keep_headers(headers, lambda _, value: value != "b")) == {
        "X": "a",
        "Y": ["c", "d"],
    }
    assert (
        head_with_id(parse_lines("X: a", "X: b", "Nats-Msg-Id: 1", "Nats-Msg-Id: 2"), "3").count(
            b"Nats-Msg-Id"
        )
        == 1
    )


def test_what_a_foreign_dead_letter_says_of_headers_is_read_as_far_as_it_is_text() -> None:
    found = read_headers(
        {"a": "1", "b": ["2", 3, None, "4"], "c": {"d": "5"}, "e": [], "f": ["6"], "g": None}
    )
    assert tell_headers(found) == {"a": "1", "b": ["2", "4"], "f": "6"}
    assert isinstance(found, RepeatedHeaders)
