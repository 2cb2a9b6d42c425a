"""How the durable pull consumers are driven. Names and counts: docs/contracts.md#consumers."""

from __future__ import annotations

from pydantic import Field

from router.config.group import Count, Group, Millis, Name, OptionalMillis, OptionalToken, Schedule, Subject

DAY_MS = 86_400_000


class ConsumerConfig(Group):
    """One durable, shared by every instance: sharing it is the work queue."""

    subject: Subject = Field(description="what the consumer takes from its stream")
    durable: Name = Field(description="the consumer's name on the server")
    deliver_group: str = Field(description="the specification's queue group, kept as the consumer's metadata")
    max_attempts: Count = Field(default=3, description="attempts (runs of the handler) before a message is given up")
    backoff_ms: Schedule = Field(default=(1_000, 2_000, 4_000), description="waits after each attempt, the last repeats, milliseconds")
    ack_wait_ms: Millis = Field(default=30_000, description="the server delivers again after this silence, milliseconds")
    prefetch: Count = Field(default=512, description="messages pulled ahead and not in a slot")
    prefetch_bytes: int = Field(
        default=8 * 1024 * 1024, ge=1024 * 1024, description="bytes asked for and not yet come, about; a larger message comes alone"
    )
    slots: Count = Field(default=64, description="handlers that wait for something at once")
    handler_timeout_ms: Millis = Field(default=300_000, description="a handler that hangs is cancelled, its attempt spent, milliseconds")
    max_ack_pending: Count = Field(default=10_000, description="unacknowledged messages the server allows; well above what can be delayed")
    pull_expires_ms: Millis = Field(default=30_000, description="one pull request lives this long, milliseconds")
    heartbeat_ms: Millis = Field(
        default=5_000, description="the server's sign of life on an idle pull, milliseconds; at most half of pull_expires_ms"
    )


class DecideConfig(ConsumerConfig):
    """The decide requests' consumer (docs/contracts.md#decide-requests)."""

    subject: Subject = Field(default="beamline.router.v1.decide", description="the subject that decide requests are sent to")
    durable: Name = Field(default="router-decide-consumer", description="the consumer's name on the server")
    deliver_group: str = Field(
        default="router-decide-group", description="the specification's queue group, kept as the consumer's metadata"
    )
    partition: OptionalToken = Field(
        default=None, description="take only {decide.subject}.p.{partition}, from a stream of its own; empty = the whole subject"
    )
    max_age_ms: OptionalMillis = Field(
        default=None, description="a request that waited longer is answered expired, milliseconds; empty = off"
    )
    pipeline_timeout_ms: Millis = Field(
        default=30_000, description="a policy's extensions and its decision have this long, unless it says timeout_ms, milliseconds"
    )
    slots: Count = Field(
        default=2_048, description="handlers that wait for something at once; above pipeline_slots and pipeline_queue together"
    )
    pipeline_slots: Count = Field(
        default=128, description="requests whose extensions are called at once; one tenant may have as many as are free"
    )
    pipeline_queue: Count = Field(
        default=1024, description="requests that wait for one of pipeline_slots, shared alike; one more is answered overloaded"
    )


class AcksConfig(ConsumerConfig):
    """The workers' acknowledgements (docs/contracts.md#acks), off unless asked for."""

    enabled: bool = Field(default=False, description="consume the workers' acknowledgements")
    subject: Subject = Field(default="caf.exec.assign.v1.ack", description="the subject that workers acknowledge assignments on")
    durable: Name = Field(default="router-acks", description="the consumer's name on the server")
    deliver_group: str = Field(default="router-acks-group", description="the specification's queue group, kept as the consumer's metadata")


class ResultsConfig(ConsumerConfig):
    """The workers' results, and what a result may say: one beyond a bound is a dead letter, its usage event quarantined.

    Rule: docs/contracts.md#results.
    """

    subject: Subject = Field(default="caf.exec.result.v1", description="the subject that workers report results on")
    durable: Name = Field(default="router-results", description="the consumer's name on the server")
    deliver_group: str = Field(
        default="router-results-group", description="the specification's queue group, kept as the consumer's metadata"
    )
    max_attempts: Count = Field(default=10, description="attempts (runs of the handler) before a message is given up")
    max_cost: float = Field(default=1e9, gt=0, le=1e15, description="a result that costs more is refused, in the currency of the costs")
    max_timestamp_age_ms: Millis = Field(
        default=40 * DAY_MS, description="a result whose timestamp lies longer before its storing is refused, milliseconds"
    )
    max_timestamp_ahead_ms: Millis = Field(
        default=DAY_MS, description="a result whose timestamp lies longer after its storing is refused, milliseconds"
    )
