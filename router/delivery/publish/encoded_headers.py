"""Headers of several messages, encoded once: a block costs as much as the content of a small
message.

headers = EncodedHeaders({"version": "1", "tenant_id": "acme"})
connection.publish_nowait(subject, data, "", head_with_id(headers, "ack:a-1"))
"""

from __future__ import annotations

from collections.abc import Mapping

from router.core.header_names import replace_headers
from router.delivery.wire.connection import head_of, open_head_of

MESSAGE_ID = "Nats-Msg-Id"


class EncodedHeaders(dict[str, str]):
    """Headers that keep their block. They are not changed: a copy of them is a plain dict, and is
    encoded anew.
    """

    __slots__ = ("head", "open_head")

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.open_head = open_head_of(headers)
        self.head = self.open_head + b"\r\n"


def head_with_id(headers: Mapping[str, str], message_id: str) -> bytes:
    """`head_of` these headers and a `Nats-Msg-Id`, which replaces one of theirs; none where the id
    is empty.
    """
    if not message_id:
        if isinstance(headers, EncodedHeaders):
            return headers.head
        return open_head_of(headers) + b"\r\n"
    if MESSAGE_ID in headers or not message_id.isprintable():
        return head_of(replace_headers(headers, {MESSAGE_ID: message_id}))
    id_line = f"{MESSAGE_ID}: {message_id}\r\n\r\n"
    if not headers:  # as a usage event's
        return f"NATS/1.0\r\n{id_line}".encode("utf-8", "replace")
    head = headers.open_head if isinstance(headers, EncodedHeaders) else open_head_of(headers)
    return head + id_line.encode("utf-8", "replace")
