"""The envelope bus, by SOLVER-Ralph's six variables; NATS_URL applies to all rooms, the other five
to the bus only.

Rule: docs/reference/requirements.md#sr-configuration. `router.bus.build_settings` adds what the bus
shares with the router.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core import ids
from router.core.errors import Misconfigured
from router.core.setting_values import Group
from router.delivery.settings import ATTEMPTS, DEAD_LETTERS, BucketConfig, StreamConfig

Prefix = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
IS_NO_NAME = "should be 1..64 of A-Z a-z 0-9 _ -"


class BusConfig(Group):
    """Streams `{stream_prefix}-events`, `-commands`, `-queries`, `-dlq`; durables
    `{consumer_prefix}-{name}`. Durations are seconds.
    """

    stream_prefix: Prefix = Field(
        default="sr",
        description="streams, and the subjects in them, begin with this (NATS_STREAM_PREFIX)",
    )
    consumer_prefix: Prefix = Field(
        default="sr-consumer",
        description="durables of the bus begin with this (NATS_CONSUMER_PREFIX)",
    )
    message_ttl_secs: int = Field(
        default=604_800,
        ge=1,
        description="a message is kept this long, seconds (NATS_MESSAGE_TTL_SECS)",
    )
    max_msgs_per_subject: int = Field(
        default=-1,
        ge=-1,
        description="newest messages kept of each subject; -1 = all (NATS_MAX_MSGS_PER_SUBJECT)",
    )
    duplicate_window_secs: int = Field(
        default=120,
        ge=1,
        description=(
            "an idempotency key is remembered by the server this long, seconds "
            "(NATS_DUPLICATE_WINDOW_SECS)"
        ),
    )


class BusSettings(BusConfig):
    """The settings `bus.*` (docs/reference/settings.md), and beside them what the bus shares with
    the router.

    The first are `stream_prefix`, `consumer_prefix`, `message_ttl_secs`, `max_msgs_per_subject`,
    `duplicate_window_secs`.

    `letters`, `attempts`: the limits of dead letters and of attempt records. `node_id`: this
    process in its dead letters. `is_making`: create missing streams and durables; if False, only
    compare them with the declared ones.

    Rule: docs/reference/requirements.md#x7.
    """

    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    letters: StreamConfig = DEAD_LETTERS
    attempts: BucketConfig = ATTEMPTS
    node_id: str = "bus"
    is_making: bool = True

    @field_validator("stream_prefix", "consumer_prefix", mode="before")
    @classmethod
    def _check_prefix(cls, value: str, info: ValidationInfo) -> str:
        if not ids.is_token(value):
            raise Misconfigured(f"bus.{info.field_name}", IS_NO_NAME)
        return value

    @property
    def keys_ttl(self) -> float:
        """How long a processed key is kept: its message may be delivered again from its stream, or
        from a dead letter.
        """
        return max(float(self.message_ttl_secs), self.letters.max_age_ms / 1000)

    def durable(self, name: str) -> str:
        """`{consumer_prefix}-{name}` (docs/reference/requirements.md#sr-32). Raises Misconfigured
        for a name that is no token.
        """
        if not ids.is_token(name):
            raise Misconfigured("name", IS_NO_NAME)
        return f"{self.consumer_prefix}-{name}"
