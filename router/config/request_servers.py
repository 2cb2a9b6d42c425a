"""Services that are asked over NATS: the operators', the way in for messages, and providers invoked
for others.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.core.setting_values import Count, Group, Millis, Name, OptionalTenant
from router.delivery.settings import Secret

LimitMillis = Annotated[Millis, Field(le=3_600_000)]


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
