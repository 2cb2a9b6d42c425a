"""Writes the dead letters of one consumer: the router's, the bus's, an agent's and an inbox's have
one format (`dead_letter`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from router.contracts.dead_letter import KEPT_BYTES, build_dead_letter
from router.core.clock import now_ms
from router.core.message import Effect, Message
from router.core.outcome import Fault


class DeadLetterWriter(Struct, frozen=True, kw_only=True):
    """`extract`: the ids of a message; `max_bytes`: the connection's `max_payload`, which a
    reconnect may change.
    """

    node_id: str
    max_bytes: Callable[[], int]
    subject_pattern: str
    extract: Callable[[Message], Mapping[str, str]]
    payload_bytes: int = KEPT_BYTES
    include_message: bool = True

    def write(
        self,
        message: Message,
        reason: str,
        fault: Fault,
        *,
        seen: Mapping[str, str] | None = None,
        is_whole: bool = True,
        reserved: int = 0,
    ) -> Effect:
        """`seen`: ids that the caller has extracted; not `is_whole`: without the message;
        `reserved`: bytes that the caller will add.
        """
        return build_dead_letter(
            message,
            reason,
            fault,
            node_id=self.node_id,
            now_ms=now_ms(),
            max_bytes=self.max_bytes() - reserved,
            payload_bytes=self.payload_bytes,
            include_message=self.include_message and is_whole,
            subject_pattern=self.subject_pattern,
            seen=self.extract(message) if seen is None else seen,
        )
