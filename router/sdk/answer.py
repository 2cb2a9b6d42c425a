"""The answer that a client gets: the router's answer with its types, and its bytes as received
(docs/reference/contracts.md#answers).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.decision import Decision, Refusal
from router.core.errors import BrokerRefused, RouterError

NO_CONTEXT: Mapping[str, str] = {}


class Answer(Struct, frozen=True):
    """`decision` if it is ok, else `error`; `context` has request_id and, if there was one,
    trace_id.
    """

    ok: bool
    decision: Decision | None = None
    error: Refusal | None = None
    context: Mapping[str, str] = NO_CONTEXT
    warnings: tuple[Refusal, ...] = ()  # decided, but a part of the request was not carried out
    raw: bytes = b""


class _StreamAck(Struct):
    """JetStream's own answer to a publisher."""

    stream: str | None = None
    error: Mapping[str, object] | None = None


_ANSWER = msgspec.json.Decoder(Answer)
_STREAM_ACK = msgspec.json.Decoder(_StreamAck)


def read_answer(data: bytes) -> Answer | None:
    """Read the answer; None for a PubAck, which only says that the request is stored (confirm mode
    "stored").

    Raises BrokerRefused when the stream would not store the request, RouterError for bytes that are
    no answer.
    """
    try:
        return msgspec.structs.replace(_ANSWER.decode(data), raw=data)
    except UNREADABLE_ERRORS:
        _check_stream_ack(data)
        return None


def _check_stream_ack(data: bytes) -> None:
    try:
        publish_ack = _STREAM_ACK.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise RouterError("what came back is not an answer of a router") from exc
    if publish_ack.error is not None:
        number = publish_ack.error.get("err_code")
        raise BrokerRefused(
            number if isinstance(number, int) else 0, str(publish_ack.error.get("description", ""))
        )
    if publish_ack.stream is None:
        raise RouterError("what came back is not an answer of a router")
