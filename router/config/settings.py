"""The whole tree of settings, as one frozen value.

`Settings()` is the defaults and nothing else; `load` is what reads the world.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Literal

from pydantic import Field

from router.agents.settings import AgentsConfig
from router.budgets.settings import BudgetsConfig
from router.bus.settings import BusConfig
from router.config.service import (
    AdminConfig,
    AlertsConfig,
    ConsoleConfig,
    ContractConfig,
    DeadLetterConfig,
    HttpConfig,
    LogConfig,
    MetricsConfig,
)
from router.config.subscriptions import ACKNOWLEDGEMENTS, DECIDE, RESULTS, SUBSCRIPTIONS
from router.core.setting_values import Group, Texts, add_fields
from router.decide.settings import (
    AssignmentConfig,
    DecideConfig,
    IdempotencyConfig,
    IngressConfig,
    RecorderConfig,
)
from router.delivery.settings import (
    ATTEMPTS,
    DAY_MS,
    DEAD_LETTERS,
    MIB,
    MINUTE_MS,
    AdmissionConfig,
    BucketConfig,
    DrainConfig,
    EffectsConfig,
    EventStreamConfig,
    NatsConfig,
    OptionalConsumerConfig,
    ReplyConfig,
    StreamConfig,
    declare_stream,
)
from router.extensions.settings import ExtensionBreakerConfig, ExtensionsConfig
from router.gateway.settings import GatewayConfig
from router.mailbox.settings import InboxConfig, MailboxConfig
from router.policies.settings import PoliciesConfig, RateLimitsConfig
from router.work.settings import ProvidersConfig, ResultsConfig, UsageConfig

# -- Streams and buckets: names and limits (docs/reference/contracts.md#streams).


@add_fields({spec.name: spec.stream for spec in SUBSCRIPTIONS})
class StreamsConfig(Group):
    """Every stream of the decide circle; those of a subscription are declared with it."""

    decide: StreamConfig = DECIDE.stream
    results: StreamConfig = RESULTS.stream
    acks: StreamConfig = ACKNOWLEDGEMENTS.stream
    assignments: StreamConfig = declare_stream(
        "ROUTER_ASSIGNMENTS", days=7, mib=512, window_ms=10 * MINUTE_MS
    )
    # A day of 100 outcomes a second is 3 GB.
    usage: StreamConfig = declare_stream(
        "ROUTER_USAGE", days=90, mib=4096, window_ms=10 * MINUTE_MS
    )
    dlq: StreamConfig = DEAD_LETTERS
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
    attempts: BucketConfig = ATTEMPTS
    # older ones count for nothing
    figures: BucketConfig = BucketConfig(name="ROUTER_FIGURES", ttl_ms=10 * MINUTE_MS)
    # above the longest canary's time
    canaries: BucketConfig = BucketConfig(name="ROUTER_CANARIES", ttl_ms=31 * DAY_MS)
    budgets: BucketConfig = BucketConfig(name="ROUTER_BUDGETS", history=64)
    prices: BucketConfig = BucketConfig(name="ROUTER_PRICES", history=64)
    # of the gateway's clients: hashes
    keys: BucketConfig = BucketConfig(name="ROUTER_KEYS", history=64)
    # of the gateway, for clients that send a request again: they hold what providers answered
    gateway_answers: BucketConfig = BucketConfig(
        name="ROUTER_GATEWAY_ANSWERS", ttl_ms=60 * MINUTE_MS, max_bytes=256 * MIB
    )
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


# -- The tree.

# it stands in dead letters, alerts and logs
NodeId = Annotated[str, Field(pattern=r"^[!-~]{1,256}$")]


def _host_and_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@add_fields({spec.name: spec.section for spec in SUBSCRIPTIONS})
class Settings(Group):
    """Everything that can be set (docs/reference/contracts.md#settings). Durations are milliseconds
    where the name says so.
    """

    node_id: NodeId = Field(
        default_factory=_host_and_process,
        description="this instance in dead letters; host and process id unless set",
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="processes of `router serve` on the same durables; 1 = one, no parent",
    )
    process_silence_ms: int = Field(
        default=30_000,
        ge=0,
        description=(
            "of several processes, one whose event loop says nothing for so long is killed and "
            "replaced, milliseconds; 0 = never"
        ),
    )
    topology: Literal["create", "check", "off"] = Field(
        default="create", description="streams and consumers at start: make them, compare, or trust"
    )
    subject_allowlist: Texts = Field(
        default=(),
        description="subjects a message may arrive on (wildcards), comma-separated; empty = all",
    )
    tenants_allowed: Texts = Field(
        default=(), description="tenants that are served, comma-separated; empty = all"
    )
    max_payload_bytes: int = Field(
        default=1024 * 1024,
        ge=1,
        le=8 * 1024 * 1024,
        description="a larger payload is refused, bytes; below the server's max_payload",
    )
    max_depth: int = Field(
        default=64, ge=1, le=512, description="deeper nesting of a payload is refused"
    )
    max_values: int = Field(
        default=20_000,
        ge=100,
        le=1_000_000,
        description="a request with more values beside its payload is refused",
    )
    nats: NatsConfig = NatsConfig()
    decide: DecideConfig = DECIDE.section
    results: ResultsConfig = RESULTS.section
    acks: OptionalConsumerConfig = ACKNOWLEDGEMENTS.section
    policies: PoliciesConfig = PoliciesConfig()
    extensions: ExtensionsConfig = ExtensionsConfig()
    admission: AdmissionConfig = AdmissionConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    rate_limits: RateLimitsConfig = RateLimitsConfig()
    recorder: RecorderConfig = RecorderConfig()
    contract: ContractConfig = ContractConfig()
    reply: ReplyConfig = ReplyConfig()
    idempotency: IdempotencyConfig = IdempotencyConfig()
    assignment: AssignmentConfig = AssignmentConfig()
    usage: UsageConfig = UsageConfig()
    dlq: DeadLetterConfig = DeadLetterConfig()
    extension_breaker: ExtensionBreakerConfig = ExtensionBreakerConfig()
    alerts: AlertsConfig = AlertsConfig()
    admin: AdminConfig = AdminConfig()
    ingress: IngressConfig = IngressConfig()
    providers: ProvidersConfig = ProvidersConfig()
    bus: BusConfig = BusConfig()
    agents: AgentsConfig = AgentsConfig()
    effects: EffectsConfig = EffectsConfig()
    mailbox: MailboxConfig = MailboxConfig()
    inbox: InboxConfig = InboxConfig()
    streams: StreamsConfig = StreamsConfig()
    buckets: BucketsConfig = BucketsConfig()
    http: HttpConfig = HttpConfig()
    console: ConsoleConfig = ConsoleConfig()
    gateway: GatewayConfig = GatewayConfig()
    drain: DrainConfig = DrainConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()


# -- The partitions of the decide subject that an instance knows
# (docs/reference/contracts.md#partitions).


def list_standby(settings: Settings) -> tuple[Settings, ...]:
    """The settings for each partition that this instance stands by for: as if it were its own, and
    it stood by for none.
    """
    return tuple(select_partition(settings, partition) for partition in settings.decide.standby)


def select_partition(settings: Settings, partition: str | None) -> Settings:
    """The settings for one partition, or for the whole subject; they stand by for none."""
    decide = settings.decide.model_copy(update={"partition": partition, "standby": ()})
    return settings.model_copy(update={"decide": decide})
