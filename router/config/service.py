"""What belongs to no feature alone: dead letters, alerts, operators, pages, logs, metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from router.core.setting_values import Count, File, Group, Millis, Name, OptionalTenant, Port, Texts
from router.delivery.settings import Secret


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


class AdminConfig(Group):
    """`beamline.router.v1.admin.*` and `beamline.router.v1.get_decision`
    (docs/reference/operators.md#admin-services).
    """

    enabled: bool = Field(default=True, description="serve operators over NATS")
    api_key: Secret = Field(
        default=None,
        description="asked of every request when it is set, in the body or as a header",
    )
    single_tenant: OptionalTenant = Field(
        default=None,
        description=(
            "tenant of a get_decision that names none; empty = the one in tenants_allowed, if "
            "it is one"
        ),
    )
    queue_group: Name = Field(
        default="router-decide-group", description="instances of one group share the requests"
    )
    at_once: Count = Field(default=64, description="requests in flight; more are told to ask again")
    peers_wait_ms: Millis = Field(
        default=250, description="other instances are waited for this long, milliseconds"
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
