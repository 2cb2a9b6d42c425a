"""What the router does with a request, and how it is run: answers, dead letters, HTTP, drain, logs,
metrics.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from router.core.setting_values import (
    Count,
    Environment,
    File,
    Group,
    Millis,
    OptionalSubject,
    Port,
    Prefixes,
    Subjects,
    Texts,
)


class PoliciesConfig(Group):
    dir: File = Field(
        default=None,
        description="directory that seeds the bucket of policies: <tenant>/<policy>.json and _shared/",
    )
    sessions_entries: Count = Field(
        default=100_000, description="sticky sessions remembered by one instance"
    )


class ExtensionsConfig(Group):
    """The registry's surroundings (docs/reference/extensions.md#registry)."""

    dir: File = Field(
        default=None,
        description=(
            "directory of registry entries, one JSON file each: a missing one is registered at "
            "start"
        ),
    )
    environment: Environment = Field(
        default=None,
        description="this instance's environment, for versions with rules; empty = none",
    )


class ContractConfig(Group):
    mode: Literal["lenient", "strict"] = Field(
        default="lenient", description="strict: every header violation is a validation failure"
    )
    events_per_minute: Count = Field(
        default=20,
        description="events of violations that one instance stores of one tenant, subject, header and "
        "rule in a minute; one more stands for"
        " the rest",
    )


class ReplyConfig(Group):
    """Who is answered, and when (docs/reference/contracts.md#replies)."""

    confirm: Literal["decision", "stored"] = Field(
        default="decision",
        description="what a requester's first answer is: the decision, or a PubAck",
    )
    listener: bool = Field(
        default=True,
        description="listen to who asked; off above three instances, clients then name their inbox",
    )
    prefixes: Prefixes = Field(
        default=("_INBOX.", "_R_."),
        description="reply addresses are answered only under these, comma-separated",
    )
    subject: OptionalSubject = Field(
        default=None,
        description="where answers without an inbox go; empty = {decide.subject}.reply",
    )
    inbox_wait_ms: int = Field(
        default=250, ge=0, description="an answer waits this long for its inbox, milliseconds"
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


class DeadLetterConfig(Group):
    """What stands in a dead letter, and where it goes (docs/reference/contracts.md#dead-letters)."""

    enabled: bool = Field(
        default=True, description="off: what fails is acknowledged with a loud count, and gone"
    )
    subject_pattern: str = Field(
        default="{original_subject}.dlq",
        description="where a dead letter goes; {original_subject} is replaced",
    )
    include_full_message: bool = Field(
        default=True,
        description="off: a dead letter carries the hash and the source, not the payload",
    )
    tenant_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description=(
            "the part of a half-full stream above which a tenant's dead letters keep no "
            "payload; 1 = no such bound"
        ),
    )
    max_payload_bytes: int = Field(
        default=64 * 1024,
        ge=0,
        description=(
            "a larger payload is left out of its dead letter, which has its hash and its place "
            "in its stream; bytes"
        ),
    )


class AlertsConfig(Group):
    every_ms: Millis = Field(
        default=60_000, description="one cause is alerted at most this often, milliseconds"
    )


class EffectsConfig(Group):
    """Effects are messages that must be stored before the ack."""

    publish_timeout_ms: Millis = Field(
        default=5_000,
        description="an effect without its publish ack after this pauses the subscription, milliseconds",
    )
    retry_ms: Millis = Field(
        default=1_000,
        description="an effect that could not be stored is published again this often, milliseconds",
    )
    full_retry_ms: Millis = Field(
        default=10_000,
        description="while a stream is full and too many messages wait for it, the others are "
        "redelivered after this, or their requesters"
        " are told to ask again after it, milliseconds",
    )
    patience_ms: Millis = Field(
        default=5_000,
        description="a request that waits for a stream or a bucket which refuses until an operator "
        "mends it (missing, sealed) is answered"
        " `cannot_be_stored` after this, milliseconds",
    )


class HttpConfig(Group):
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address that /metrics, /healthz and /readyz are bound to",
    )
    port: Port = Field(default=9001, description="TCP port; 0 = any free one")


class ConsoleConfig(Group):
    """`router console` (docs/how-to/console.md)."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="address that the console is bound to"
    )
    port: Port = Field(default=9002, description="TCP port; 0 = any free one")
    hosts: Texts = Field(
        default=(),
        description="names by which browsers reach the console, beside localhost and console.host, "
        "comma-separated; other Host headers are"
        " refused",
    )
    metrics: Texts = Field(
        default=("http://127.0.0.1:9001",),
        description=(
            "ports on which routers serve /metrics, URLs, comma-separated; the page Now reads them"
        ),
    )
    clients: Count = Field(
        default=32,
        description="pages that are updated live at the same time; one more is told so, and reads on",
    )
    warehouse: str = Field(
        default=".router/warehouse",
        min_length=1,
        description="usage tables of the page Usage: a directory or a URI",
    )
    writes: bool = Field(
        default=False,
        description="who logs in may replay and discard dead letters, write policies, switch "
        "extensions; needs admin.api_key or"
        " console.users",
    )
    users: File = Field(
        default=None,
        description="file of users, a line each: name:argon2 hash or name:argon2 hash:tenant; with it "
        "every page needs a login; empty ="
        " none",
    )


class DrainConfig(Group):
    """Shutdown's two deadlines, both counted from the signal."""

    soft_deadline_ms: int = Field(
        default=10_000, ge=0, description="work in flight may finish until then, milliseconds"
    )
    hard_deadline_ms: int = Field(
        default=15_000, ge=0, description="everything is cancelled and closed by then, milliseconds"
    )


class LogConfig(Group):
    level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="the least that is written"
    )
    format: Literal["json", "console"] = Field(
        default="json", description="one JSON object a line, or text for people"
    )


class MetricsConfig(Group):
    tenant_label_allowlist: Texts = Field(
        default=(),
        description="tenants with a label of their own, comma-separated; the rest are 'other'",
    )
    label_limit: Count = Field(
        default=100,
        description="distinct policy, provider and subject labels; the rest are 'other'",
    )


class ExtensionBreakerConfig(Group):
    """One breaker for each extension, kept by each instance for itself; a provider's goes by the
    policies that name the provider.

    Rule: docs/reference/extensions.md#extension-breaker.
    """

    failure_threshold: Count = Field(default=5, description="failures in a row that open it")
    success_threshold: Count = Field(default=2, description="successful probes that close it")
    timeout_ms: Millis = Field(
        default=60_000, description="from the opening to the first probe, milliseconds"
    )
    half_open_max_calls: Count = Field(default=3, description="probes at once")
    error_rate_threshold: float = Field(
        default=0.5, gt=0, le=1, description="this share of failures opens it as well"
    )
    error_rate_window_ms: Millis = Field(
        default=60_000, description="the share is counted over this span, milliseconds"
    )
    minimum_calls: Count = Field(default=10, description="the share counts from so many calls on")


class BudgetsConfig(Group):
    """How instances share what a budget has left (docs/reference/budgets.md#slices)."""

    slice_percent: Annotated[float, Field(gt=0, le=50)] = Field(
        default=1.0,
        description=(
            "what an instance takes of a budget in advance, percent of its amount; "
            "overspending is bounded by it"
        ),
    )
    reservation_ms: Annotated[int, Field(ge=1_000, le=86_400_000)] = Field(
        default=600_000,
        description=(
            "a reservation without a result ends one to two times so long after its decision, "
            "milliseconds"
        ),
    )
    least_reservation: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1,
        description=(
            "the share of a provider's listed cost that a decision reserves at least, however "
            "little results cost"
        ),
    )


class RateLimitsConfig(Group):
    """Whether instances share the rate limits of policies
    (docs/reference/policies.md#shared-rate-limit).
    """

    shared: bool = Field(
        default=True,
        description=(
            "a policy's rate limit holds over all instances; false: for each by itself, and no "
            "bucket is asked"
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
