"""The options of the bus, as plain values; `router.config` reads them, `router.bus.build_settings`
passes them on.
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core import ids
from router.core.errors import Misconfigured

A_DAY_S = 86_400.0


class BusSettings(Struct, frozen=True, kw_only=True):
    """Durations are seconds, sizes bytes. Streams, their subjects and the dead letters all begin
    with `stream_prefix`.

    Rule: docs/reference/requirements.md#x7.
    """

    stream_prefix: str = "sr"
    consumer_prefix: str = "sr-consumer"
    message_ttl: float = 7 * A_DAY_S
    max_msgs_per_subject: int = -1
    duplicate_window: float = 120.0
    replicas: int = 1
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    letters_ttl: float = 30 * A_DAY_S
    letters_window: float = 3_600.0
    letters_max_bytes: int = 1024**3
    # shared with every other durable of ours: its keys name stream and consumer
    attempts_bucket: str = "ROUTER_ATTEMPTS"
    attempts_ttl: float = 3_600.0
    attempts_replicas: int = 1
    node_id: str = "bus"  # this process in its dead letters
    # create missing streams and durables; if False, only compare them with the declared ones
    is_making: bool = True

    def __post_init__(self) -> None:
        for name, value in (
            ("bus.stream_prefix", self.stream_prefix),
            ("bus.consumer_prefix", self.consumer_prefix),
        ):
            if not ids.is_token(value):
                raise Misconfigured(name, "should be 1..64 of A-Z a-z 0-9 _ -")

    @property
    def keys_ttl(self) -> float:
        """How long a processed key is kept: its message may be delivered again from its stream, or
        from a dead letter.
        """
        return max(self.message_ttl, self.letters_ttl)

    def durable(self, name: str) -> str:
        """`{consumer_prefix}-{name}` (docs/reference/requirements.md#sr-32). Raises Misconfigured
        for a name that is no token.
        """
        if not ids.is_token(name):
            raise Misconfigured("name", "should be 1..64 of A-Z a-z 0-9 _ -")
        return f"{self.consumer_prefix}-{name}"
