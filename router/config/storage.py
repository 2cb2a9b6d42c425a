"""Streams and buckets: names and limits (docs/reference/contracts.md#streams). What they bind and
how they discard is delivery's.
"""

from __future__ import annotations

from router.config.subscriptions import ACKS, DECIDE, RESULTS, SUBSCRIPTIONS
from router.core.setting_values import Group, add_fields
from router.delivery.settings import (
    DAY_MS,
    MIB,
    MINUTE_MS,
    BucketConfig,
    EventStreamConfig,
    StreamConfig,
    declare_stream,
)


@add_fields({spec.name: spec.stream for spec in SUBSCRIPTIONS})
class StreamsConfig(Group):
    """Every stream of the decide circle; those of a subscription are declared with it."""

    decide: StreamConfig = DECIDE.stream
    results: StreamConfig = RESULTS.stream
    acks: StreamConfig = ACKS.stream
    assignments: StreamConfig = declare_stream(
        "ROUTER_ASSIGNMENTS", days=7, mib=512, window_ms=10 * MINUTE_MS
    )
    # A day of 100 outcomes a second is 3 GB.
    usage: StreamConfig = declare_stream(
        "ROUTER_USAGE", days=90, mib=4096, window_ms=10 * MINUTE_MS
    )
    dlq: StreamConfig = declare_stream("ROUTER_DLQ", days=30, mib=1024, window_ms=60 * MINUTE_MS)
    violations: EventStreamConfig = EventStreamConfig(
        name="ROUTER_VIOLATIONS",
        max_age_ms=7 * DAY_MS,
        max_bytes=64 * MIB,
        duplicate_window_ms=2 * MINUTE_MS,
        max_messages=100_000,
    )
    # as long as an instance knows its publish acks
    held: StreamConfig = declare_stream("ROUTER_HELD", days=365, mib=256, window_ms=DAY_MS)
    audit: EventStreamConfig = EventStreamConfig(
        name="ROUTER_AUDIT",
        max_age_ms=365 * DAY_MS,
        max_bytes=64 * MIB,
        duplicate_window_ms=2 * MINUTE_MS,
        max_messages=100_000,
    )
    advisories: StreamConfig = declare_stream(
        "ROUTER_ADVISORIES", days=7, mib=64, window_ms=2 * MINUTE_MS
    )


class BucketsConfig(Group):
    """Every bucket. `attempts` holds the attempts of what failed: it forgets after an hour, far
    above any pause between two attempts.
    """

    policies: BucketConfig = BucketConfig(name="ROUTER_POLICIES", history=64)
    extensions: BucketConfig = BucketConfig(name="ROUTER_EXTENSIONS", history=64)
    assignments_known: BucketConfig = BucketConfig(name="ROUTER_ASSIGNMENTS_KNOWN", ttl_ms=DAY_MS)
    # each goes when its attempt is metered
    invocations: BucketConfig = BucketConfig(name="ROUTER_INVOCATIONS")
    attempts: BucketConfig = BucketConfig(name="ROUTER_ATTEMPTS", ttl_ms=60 * MINUTE_MS)
    # older ones count for nothing
    figures: BucketConfig = BucketConfig(name="ROUTER_FIGURES", ttl_ms=10 * MINUTE_MS)
    # above the longest canary's time
    canaries: BucketConfig = BucketConfig(name="ROUTER_CANARIES", ttl_ms=31 * DAY_MS)
    budgets: BucketConfig = BucketConfig(name="ROUTER_BUDGETS", history=64)
    prices: BucketConfig = BucketConfig(name="ROUTER_PRICES", history=64)
    # of tenants that invoke
    ratios: BucketConfig = BucketConfig(name="ROUTER_RATIOS", ttl_ms=31 * DAY_MS)
    # past windows, for a look back
    budgets_spent: BucketConfig = BucketConfig(name="ROUTER_BUDGETS_SPENT", ttl_ms=62 * DAY_MS)
    # one small key a limit in use
    rate_limits: BucketConfig = BucketConfig(
        name="ROUTER_RATE_LIMITS", ttl_ms=DAY_MS, max_bytes=16 * MIB
    )
    # far above any opening's time
    breakers: BucketConfig = BucketConfig(name="ROUTER_BREAKERS", ttl_ms=DAY_MS)
    # made where decide.partition is set
    partitions: BucketConfig = BucketConfig(name="ROUTER_PARTITIONS", ttl_ms=DAY_MS)
