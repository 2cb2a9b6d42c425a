"""What workers report, how it is metered, and how providers are invoked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from router.core.setting_values import Count, Group, Millis, Name, Subject
from router.delivery.settings import DAY_MS, ConsumerConfig

LimitMillis = Annotated[Millis, Field(le=3_600_000)]


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


class UsageConfig(Group):
    enabled: bool = Field(default=True, description="publish a usage event for every outcome")
    uncorrelated: Literal["mark", "refuse"] = Field(
        default="mark",
        description=(
            "a result of an unknown assignment: metered with `correlated: false` in its event, "
            "which is no bill; or a dead letter"
        ),
    )
    currency: str = Field(
        default="USD",
        pattern="^[A-Z]{3}$",
        description="of every cost, ISO 4217: `router usage report` and `export` tell it",
    )
    trim_ingested: bool = Field(
        default=False,
        description=(
            "`router usage ingest` deletes from the stream what all its tables hold: nothing "
            "else may need it"
        ),
    )


class ProvidersConfig(Group):
    """`beamline.provider.v1.invoke` and its stream (docs/reference/extensions.md#provider-figures)."""

    enabled: bool = Field(
        default=True,
        description="serve beamline.provider.v1.invoke and beamline.provider.v1.invoke.stream",
    )
    queue_group: Name = Field(
        default="router-provider-group", description="instances of one group share the invocations"
    )
    at_once: Count = Field(
        default=512,
        description=(
            "invocations and streams in flight, a tenant at most as many as are free; more are "
            "told to ask again"
        ),
    )
    longest_ms: Millis = Field(
        default=600_000,
        description="an invocation or stream ends after this, whatever its deadline, milliseconds",
    )
    rate_limited_ms: LimitMillis = Field(
        default=5_000,
        description=(
            "a provider that limits a tenant is left alone for this long where its result "
            "names no time, milliseconds"
        ),
    )
    longest_rate_limit_ms: LimitMillis = Field(
        default=600_000,
        description="it is left alone no longer than this, whatever time its result names, milliseconds",
    )
    kept_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        description=(
            "first answers, which the same request gets again within idempotency.ttl_ms, take "
            "at most so many bytes of memory"
        ),
    )
    unfinished_after_ms: Millis = Field(
        default=30_000,
        description=(
            "an attempt whose router died is metered so long after its deadline, as an "
            "estimate, milliseconds"
        ),
    )

    def find_span_s(self, named_s: float | None) -> float:
        """For how many seconds a provider that limits a tenant is left alone. `named_s`: what its
        result says.
        """
        wanted_s = self.rate_limited_ms / 1000 if named_s is None else named_s
        return min(wanted_s, self.longest_rate_limit_ms / 1000)
