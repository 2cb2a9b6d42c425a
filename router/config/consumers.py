"""How the durable pull consumers are driven. Names and counts:
docs/reference/contracts.md#consumers.
"""

from __future__ import annotations

from pydantic import Field

from router.config.stream import DAY_MS, StreamConfig
from router.core.setting_values import (
    Count,
    Group,
    Millis,
    Name,
    OptionalMillis,
    OptionalToken,
    Schedule,
    Subject,
    Tokens,
)


class ConsumerConfig(Group):
    """One durable, shared by every instance: sharing it is the work queue."""

    subject: Subject = Field(description="the subject that its messages are sent to")
    durable: Name = Field(description="the consumer's name on the server")
    deliver_group: str = Field(
        description="the specification's queue group, kept as the consumer's metadata"
    )
    max_attempts: Count = Field(
        default=3, description="attempts (runs of the handler) before a message is given up"
    )
    backoff_ms: Schedule = Field(
        default=(1_000, 2_000, 4_000),
        description="waits after each attempt, the last repeats, milliseconds",
    )
    ack_wait_ms: Millis = Field(
        default=30_000, description="the server delivers again after this silence, milliseconds"
    )
    prefetch: Count = Field(default=512, description="messages pulled ahead and not in a slot")
    prefetch_bytes: int = Field(
        default=8 * 1024 * 1024,
        ge=1024 * 1024,
        description="bytes asked for and not yet come, about; a larger message comes alone",
    )
    slots: Count = Field(default=64, description="handlers that wait for something at once")
    handler_timeout_ms: Millis = Field(
        default=300_000,
        description="a handler that hangs is cancelled, its attempt spent, milliseconds",
    )
    max_ack_pending: Count = Field(
        default=10_000,
        description="unacknowledged messages the server allows; well above what can be delayed",
    )
    pull_expires_ms: Millis = Field(
        default=30_000, description="one pull request lives this long, milliseconds"
    )
    heartbeat_ms: Millis = Field(
        default=1_000,
        description="the server's sign of life on an idle pull, milliseconds; at most half of "
        "pull_expires_ms; after a pull without a"
        " message 7500 at least (2500 where nothing else tells of a lost durable)",
    )

    @property
    def is_enabled(self) -> bool:
        """Whether this instance handles the messages at all."""
        return True

    @property
    def taken_subject(self) -> str:
        """The subject of the messages that this instance handles."""
        return self.subject

    def find_stream(self, stream: StreamConfig) -> StreamConfig:
        """The stream that stores them; `stream`: the one of the settings."""
        return stream


class DecideConfig(ConsumerConfig):
    """The decide requests' consumer (docs/reference/contracts.md#decide-requests): it handles all
    requests, or those of one partition.

    Rule: docs/reference/contracts.md#partitions.

        beamline.router.v1.decide ── the account's mapping ──> beamline.router.v1.decide.p.0   in ROUTER_DECIDE_P0
                                                          └──> beamline.router.v1.decide.p.1   in ROUTER_DECIDE_P1

    The server maps the stored copy and the live copy of a request to the same partition, so the
    listener of an instance receives only the requests of that partition. Clients do not see
    partitions: dead letters, the allow list and the reply subject use `subject`. An instance that
    stands by for a partition hears its requests as well, and takes them while no router renews the
    partition's lease.
    """

    subject: Subject = Field(
        default="beamline.router.v1.decide",
        description="the subject that decide requests are sent to",
    )
    durable: Name = Field(
        default="router-decide-consumer", description="the consumer's name on the server"
    )
    deliver_group: str = Field(
        default="router-decide-group",
        description="the specification's queue group, kept as the consumer's metadata",
    )
    partition: OptionalToken = Field(
        default=None,
        description=(
            "take only {decide.subject}.p.{partition}, from a stream of its own; empty = the "
            "whole subject"
        ),
    )
    standby: Tokens = Field(
        default=(),
        description=(
            "other partitions, comma-separated: it takes them while none of their own routers "
            "renews the lease"
        ),
    )
    lease_ms: Millis = Field(
        default=3_000,
        description=(
            "a partition whose routers renew no lease for so long is taken over, milliseconds; "
            "renewed at a third"
        ),
    )
    max_age_ms: OptionalMillis = Field(
        default=None,
        description="a request that waited longer is answered expired, milliseconds; empty = off",
    )
    pipeline_timeout_ms: Millis = Field(
        default=30_000,
        description=(
            "a policy's extensions and its decision have this long, unless it says timeout_ms, "
            "milliseconds"
        ),
    )
    slots: Count = Field(
        default=2_048,
        description=(
            "handlers that wait for something at once; above pipeline_slots and pipeline_queue "
            "together"
        ),
    )
    pipeline_slots: Count = Field(
        default=128,
        description=(
            "requests whose extensions are called at once; one tenant may have as many as are free"
        ),
    )
    pipeline_queue: Count = Field(
        default=1024,
        description=(
            "requests that wait for one of pipeline_slots, shared alike; one more is answered "
            "overloaded"
        ),
    )

    @property
    def taken_subject(self) -> str:
        return self.subject if self.partition is None else f"{self.subject}.p.{self.partition}"

    def find_stream(self, stream: StreamConfig) -> StreamConfig:
        return (
            stream
            if self.partition is None
            else stream.model_copy(update={"name": f"{stream.name}_P{self.partition}"})
        )


class OptionalConsumerConfig(ConsumerConfig):
    """A subscription that is off unless the settings enable it."""

    enabled: bool = Field(
        default=False,
        description="handle these messages; else they have neither a stream nor a consumer",
    )

    @property
    def is_enabled(self) -> bool:
        return self.enabled


class ResultsConfig(ConsumerConfig):
    """The workers' results, and what a result may say: one beyond a bound is a dead letter, its
    usage event quarantined.

    Rule: docs/reference/contracts.md#results.
    """

    subject: Subject = Field(
        default="caf.exec.result.v1", description="the subject that workers report results on"
    )
    durable: Name = Field(default="router-results", description="the consumer's name on the server")
    deliver_group: str = Field(
        default="router-results-group",
        description="the specification's queue group, kept as the consumer's metadata",
    )
    max_attempts: Count = Field(
        default=10, description="attempts (runs of the handler) before a message is given up"
    )
    max_cost: float = Field(
        default=1e9,
        gt=0,
        le=1e15,
        description="a result that costs more is refused, in the currency of the costs",
    )
    cost_factor: float = Field(
        default=100.0,
        ge=1,
        le=1e9,
        description=(
            "a result's cost is booked up to so many times what the policy expects; the rest "
            "is held for an operator"
        ),
    )
    cost_floor: float = Field(
        default=0.01,
        ge=0,
        le=1e9,
        description="a result's cost up to this is never held, in the currency of the costs",
    )
    max_timestamp_age_ms: Millis = Field(
        default=40 * DAY_MS,
        description="a result whose timestamp lies longer before its storing is refused, milliseconds",
    )
    max_timestamp_ahead_ms: Millis = Field(
        default=DAY_MS,
        description="a result whose timestamp lies longer after its storing is refused, milliseconds",
    )
