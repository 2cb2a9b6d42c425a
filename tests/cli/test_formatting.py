"""Bytes from outside on a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from router.shell.output import MAX_SHOWN_BYTES, format_bytes


def test_json_is_indented() -> None:
    assert format_bytes(b'{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'


def test_what_is_no_text_is_shown_as_hexadecimal() -> None:
    assert (
        format_bytes(b"\x00AB\xff")
        == "000000  00 41 42 ff                                      .AB."
    )


def test_a_long_payload_is_cut_and_says_so() -> None:
    assert format_bytes(b"x" * (MAX_SHOWN_BYTES + 3)).endswith("… and 3 more bytes")
    assert format_bytes("é".encode() * MAX_SHOWN_BYTES).endswith(
        f"… and {MAX_SHOWN_BYTES} more bytes"
    )


@given(
    st.binary(max_size=64) | st.text(max_size=64).map(lambda text: text.encode("utf-8", "replace"))
)
def test_nothing_can_steer_the_terminal(data: bytes) -> None:
    assert all(character.isprintable() or character == "\n" for character in format_bytes(data))
