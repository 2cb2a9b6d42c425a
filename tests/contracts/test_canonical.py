"""RFC 8785: the numbers of its appendix B, its example, and the order of its keys."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.canonical import canonical_json, canonical_number

# Appendix B: the double's bits and its text.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_a_number_is_written_as_ecmascript_does(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_number(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (10**21, "1e+21"), (2**53 + 1, "9007199254740992"), (-1, "-1"), (4.5, "4.5")],
)
def test_an_integer_is_the_double_next_to_it(number: float, text: str) -> None:
    assert canonical_number(number) == text


def test_keys_are_ordered_by_their_utf16_code_units() -> None:
    """The RFC's own example (3.2.3): an emoji sorts by its surrogates, before U+FB33."""
    given = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert [*json.loads(canonical_json(given)).values()] == [2, 4, 6, 7, 1, 5, 3]


def test_strings_escape_only_what_must_be() -> None:
    """The RFC's own example (3.2.2)."""
    given = {
        "literals": [None, True, False],
        "string": '\u20ac$\u000f\u000aA\'B"\\\\"/',
        "numbers": [333333333.33333329, 1e30, 4.5, 2e-3],
    }
    wanted = r"""{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002],"string":"€$\u000f\nA'B\"\\\\\"/"}"""
    assert canonical_json(given).decode() == wanted


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 10**400, "\ud800", {"\ud800": 1}, {1: 2}, b"x", object(), {1, 2}],
)
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


def test_what_is_nested_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too deep"):
        canonical_json(endless)


@given(JSON)
def test_canonical_bytes_read_back_as_the_same_value_and_are_a_fixed_point(value: object) -> None:
    once = canonical_json(value)
    again = json.loads(once, parse_int=float)  # as the RFC reads numbers
    assert again == value
    assert canonical_json(again) == once
