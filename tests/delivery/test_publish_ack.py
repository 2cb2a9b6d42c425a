"""A publish ack is read in one typed parse; what is none says nothing about the message."""

import pytest

from router.delivery.publish.publish_acks import PublishAckBody, RefusedPublish, read_publish_ack


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"stream":"s"}',
        b'{"seq":1}',
        b'{"stream":"s","seq":"1"}',
        b'{"error":"full"}',
    ],
)
def test_what_is_no_publish_ack_says_nothing_is_stored(data: bytes) -> None:
    assert read_publish_ack(data) is None


def test_a_publish_ack_names_where_the_message_is_stored() -> None:
    assert read_publish_ack(b'{"stream":"s", "seq":7}') == PublishAckBody("s", 7)
    assert read_publish_ack(
        b'{"stream":"s","seq":7,"duplicate":true,"domain":"hub"}'
    ) == PublishAckBody("s", 7, duplicate=True)


def test_a_refusal_has_the_servers_number_and_its_words() -> None:
    refused = read_publish_ack(
        b'{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"s","seq":0}'
    )
    assert refused is not None
    assert refused.error == RefusedPublish(10077, "full")
