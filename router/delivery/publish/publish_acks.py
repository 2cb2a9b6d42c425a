"""Publish acks: read from a stream's answer, and made by the router itself for a `no_ack` stream.

{"stream": …, "seq": …, "duplicate"?: true}      stored, or stored before
{"error": {"code", "err_code", "description"}}   refused
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder


class RefusedPublish(Struct, gc=False):
    """Why a stream refused a message: the server's number and its words."""

    err_code: int = 0
    description: str = ""


class PublishAckBody(Struct, gc=False):
    """One publish ack as the server writes it; `stream` and `seq` count where `error` is None."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: RefusedPublish | None = None


def read_publish_ack(data: bytes) -> PublishAckBody | None:
    """The publish ack in these bytes; None: they are none, so that they do not tell whether the
    message is stored.
    """
    try:
        ack = _decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ack if ack.error is not None or (ack.stream and ack.seq) else None


_decode = Decoder(PublishAckBody).decode


# -- Publish acks that the router itself sends, for a `no_ack` stream (`read_publish_ack` reads
# those of the server).
#
# In confirm mode "decision" the first answer to a request is the decision, which a JetStream
# client takes for a failed publish. So a publisher that names the stream it expects, or asks by
# header, gets a publish ack; the decision goes to `Reply-To`, else to the reply subject. The
# router that decides the request knows its sequence, so the publish ack comes with the decision.


EXPECTED_STREAM = "Nats-Expected-Stream"
CONFIRM = "Router-Confirm"
STORED = "stored"
# as the server has it
_WRONG_STREAM = {"code": 400, "err_code": 10060, "description": "expected stream does not match"}


def is_pub_ack_wanted(headers: Mapping[str, str]) -> bool:
    """Whether the sender waits for a publish ack, not for the decision."""
    return EXPECTED_STREAM in headers or headers.get(CONFIRM) == STORED


def is_for_another_stream(headers: Mapping[str, str], stream: str) -> bool:
    """Whether the stream drops this request without an answer, because its sender expects another
    stream.
    """
    return headers.get(EXPECTED_STREAM, stream) != stream


def pub_ack(stream: str, sequence: int) -> bytes:
    return orjson.dumps({"stream": stream, "seq": sequence})


def wrong_stream(stream: str) -> bytes:
    return orjson.dumps({"error": _WRONG_STREAM, "stream": stream, "seq": 0})


def tenant_of_publisher(tenant: str | None) -> str:
    """The tenant of a publisher's `RequestIdentity`: a publisher and a requester with equal bytes
    get different answers.
    """
    return f"{tenant or ''} {CONFIRM}"
