"""Decide requests: their consumer, what is remembered of them, what they push, and the ingress
subject.

How they are admitted and answered is delivery's (`delivery.settings`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.core.setting_values import (
    Count,
    Group,
    Millis,
    Name,
    OptionalMillis,
    OptionalToken,
    Subject,
    Subjects,
    Texts,
    Tokens,
)
from router.delivery.settings import ConsumerConfig, StreamConfig


class DecideConfig(ConsumerConfig):
    """The decide requests' consumer (docs/reference/contracts.md#decide-requests): it handles all
    requests, or those of one partition.

    Rule: docs/reference/contracts.md#partitions.

        beamline.router.v1.decide ── the account's mapping ──> beamline.router.v1.decide.p.0   in ROUTER_DECIDE_P0
                                                          └──> beamline.router.v1.decide.p.1   in ROUTER_DECIDE_P1

    The server maps the stored copy and the passing copy of a request to the same partition, so the
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
    def lease_s(self) -> float:
        return self.lease_ms / 1000

    @property
    def lease_renewed_s(self) -> float:
        """Seconds between two renewals of a lease, and between two looks at it."""
        return self.lease_s / 3

    @property
    def taken_subject(self) -> str:
        return self.subject if self.partition is None else f"{self.subject}.p.{self.partition}"

    def find_stream(self, stream: StreamConfig) -> StreamConfig:
        return (
            stream
            if self.partition is None
            else stream.model_copy(update={"name": f"{stream.name}_P{self.partition}"})
        )


class IdempotencyConfig(Group):
    ttl_ms: Millis = Field(
        default=600_000,
        description="the same request gets the same decision this long, milliseconds",
    )
    entries: Count = Field(
        default=100_000,
        description="requests remembered by one instance; one of n KiB, up to 16, counts as n + 1",
    )


class AssignmentConfig(Group):
    enabled: bool = Field(
        default=True, description="push assignments to workers when a request asks for it"
    )
    subjects: Subjects = Field(
        default=("caf.exec.assign.v1",),
        description="subjects a request may name; the first is the default, comma-separated",
    )
    tenants_allowed: Texts = Field(
        default=(), description="tenants that may push assignments, comma-separated; empty = all"
    )
    tenant_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description=(
            "the part of a half-full stream above which a tenant may push nothing more; 1 = no "
            "such bound"
        ),
    )
    removal_every_ms: int = Field(
        default=15_000,
        ge=0,
        description=(
            "how often assignments that are done leave their stream, milliseconds; 0 = they "
            "stay until they are too old"
        ),
    )


class RecorderConfig(Group):
    """Whose decisions are kept to be explained and tried again. Memory of one instance: at most
    tenants x entries x entry_max_bytes.
    """

    tenants: Texts = Field(
        default=(),
        description="tenants whose decisions are recorded, masked and without payload; empty = none",
    )
    entries: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_000, description="newest decisions kept of each tenant"
    )
    entry_max_bytes: Annotated[int, Field(ge=2_048, le=1024 * 1024)] = Field(
        default=16_384, description="a larger record is kept without its routing context, bytes"
    )


class IngressConfig(Group):
    """`beamline.ingress.v1.message`: deprecated in the mapping page, and off."""

    enabled: bool = Field(
        default=False, description="take messages of the ingress subject as decide requests"
    )
    queue_group: Name = Field(
        default="router-decide-group", description="instances of one group share the messages"
    )
    at_once: Count = Field(
        default=1_000, description="messages in flight; more are told to ask again"
    )
    confirm_ms: Millis = Field(
        default=2_000, description="a message must be found stored within this time, milliseconds"
    )
