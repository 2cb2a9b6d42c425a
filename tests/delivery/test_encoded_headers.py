"""Headers that are encoded once read as those that are encoded for each message."""

import pytest

from router.delivery.publish.encoded_headers import EncodedHeaders, head_with_id

HEADERS = {"version": "1", "tenant_id": "acme\r\nNats-TTL: 1"}


@pytest.mark.parametrize("headers", [{}, HEADERS])
@pytest.mark.parametrize("message_id", ["", "a-1", "é", "a\r\nNats-TTL: 1", "\ud800"])
def test_the_block_is_the_same(headers: dict[str, str], message_id: str) -> None:
    encoded = head_with_id(EncodedHeaders(headers), message_id)
    assert encoded == head_with_id(headers, message_id)
    assert b"\nNats-TTL" not in encoded


def test_without_an_id_the_block_names_none() -> None:
    head = head_with_id(EncodedHeaders({"version": "1"}), "")
    assert head == b"NATS/1.0\r\nversion: 1\r\n\r\n"


def test_a_changed_copy_is_encoded_anew() -> None:
    assert b"traceparent: 00" in head_with_id(
        {**EncodedHeaders(HEADERS), "traceparent": "00"}, "a-1"
    )
