"""The envelope bus, by SOLVER-Ralph's six variables; NATS_URL applies to all rooms, the other five
to the bus only.

Rule: docs/reference/requirements.md#sr-configuration.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.core.setting_values import Group

Prefix = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


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
