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
from router.bus.bus_settings import BusConfig
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
from router.config.storage import BucketsConfig, StreamsConfig
from router.config.subscriptions import ACKS, DECIDE, RESULTS, SUBSCRIPTIONS
from router.core.setting_values import Group, Texts, add_fields
from router.decide.settings import (
    AssignmentConfig,
    DecideConfig,
    IdempotencyConfig,
    IngressConfig,
    RecorderConfig,
)
from router.delivery.settings import (
    AdmissionConfig,
    DrainConfig,
    EffectsConfig,
    NatsConfig,
    OptionalConsumerConfig,
    ReplyConfig,
)
from router.extensions.settings import ExtensionBreakerConfig, ExtensionsConfig
from router.mailbox.settings import InboxConfig, MailboxConfig
from router.policies.settings import PoliciesConfig, RateLimitsConfig
from router.work.settings import ProvidersConfig, ResultsConfig, UsageConfig

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
    nats: NatsConfig = NatsConfig()
    decide: DecideConfig = DECIDE.section
    results: ResultsConfig = RESULTS.section
    acks: OptionalConsumerConfig = ACKS.section
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
    drain: DrainConfig = DrainConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
