"""Read the publish ack that a stream sends for a stored message: one typed parse, because it comes
once or twice a message.

{"stream": …, "seq": …, "duplicate"?: true}      stored, or stored before
{"error": {"code", "err_code", "description"}}   refused
"""

from __future__ import annotations

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
