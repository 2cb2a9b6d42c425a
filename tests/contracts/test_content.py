"""Two requests of one identity ask for the same whatever their trace fields are, also where a name
is written with escapes.
"""

import pytest

from router.contracts.content import TRACE_FIELDS, digest, is_same, is_same_payload
from router.contracts.raw_json import RawJson

PLAIN = b'{"request_id":"r-1","message":{"payload":"hello"}}'


PLACES = (
    '{"%s":"x","request_id":"r-1","message":{"payload":"hello"}}',
    '{"message":{"payload":"hello","%s":"x"},"request_id":"r-1"}',
)


@pytest.mark.parametrize("name", sorted(TRACE_FIELDS))
@pytest.mark.parametrize("place", PLACES)
def test_a_trace_field_changes_nothing(name: str, place: str) -> None:
    for written in (name, f"\\u{ord(name[0]):04x}{name[1:]}"):
        assert is_same((place % written).encode(), PLAIN)


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ("1.0", "1.00", True),
        ("1.0", "1.0000000000000000", True),
        ("0", "-0", True),
        (f"{2**64 - 1}", f"{2**64 - 1}", True),
        (f"{2**64 - 1}", f"{2**64}", False),
        (f"{2**64}", f"{2**64 + 1}", False),
        (f"-{2**63}", f"-{2**63 + 1}", False),
        ("7" * 5000, "7" * 5000, True),
        ("7" * 5000, "7" * 4999 + "8", False),
        ("0.1", "0.1000000000000000055", False),
        ("1e400", "2e400", False),
        ("1e99999999999999999999", "2e99999999999999999999", False),
    ],
)
def test_numbers_are_compared_by_value_where_they_are_held_else_by_their_digits(
    one: str, other: str, is_equal: bool
) -> None:
    """Beside a number that is held by neither, and in another order of keys."""
    long = "1" * 30
    written = f'{{"a":{long},"b":{one}}}', f'{{"b":{other},"a":{long}}}'
    assert is_same(*(text.encode() for text in written)) == is_equal


def test_the_decimals_of_payloads_are_compared_as_doubles() -> None:
    one, other, far = (
        RawJson(b"[1e400,%b]" % text) for text in (b"0.1", b"0.1000000000000000055", b"0.2")
    )
    assert is_same_payload(one, other)
    assert not is_same_payload(one, far)


def test_other_content_does() -> None:
    assert not is_same(b"\xff", b"\xfe")
    assert not is_same(PLAIN.replace(b"hello", b"hullo"), PLAIN)
    assert digest(PLAIN.replace(b"payload", b"spantrace")) != digest(PLAIN)
