"""Where the gateway listens, and how long, how often and for how many it asks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.core.setting_values import Count, File, Group, Millis, Port


class GatewayConfig(Group):
    """`router gateway` (docs/reference/gateway.md)."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="address that the gateway is bound to"
    )
    port: Port = Field(default=9003, description="TCP port; 0 = any free one")
    tls_cert: File = Field(
        default=None, description="certificate chain, PEM; with it the gateway speaks TLS"
    )
    tls_key: File = Field(default=None, description="private key of tls_cert, PEM")
    pages_port: Port = Field(
        default=9004,
        description="TCP port of the gateway's /metrics, /healthz and /readyz, on http.host",
    )
    at_once: Count = Field(
        default=1_000,
        description="requests in flight, shared by tenants; more are told to ask again",
    )
    connections: Count = Field(
        default=2_000, description="connections of clients; one more is answered 503"
    )
    timeout_ms: Millis = Field(
        default=60_000, description="for a whole answer, attempts together, milliseconds"
    )
    stream_timeout_ms: Millis = Field(
        default=600_000, description="for a stream, from its request to its end, milliseconds"
    )
    decide_timeout_ms: Millis = Field(
        default=35_000, description="for a decision, extensions included, milliseconds"
    )
    body_timeout_ms: Millis = Field(
        default=30_000, description="a client may take so long to send a request, milliseconds"
    )
    keep_alive_ms: Millis = Field(
        default=15_000,
        description="a stream without an event for so long gets a comment, milliseconds",
    )
    tenant_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.25,
        description=(
            "the part of a half-full bucket of kept answers above which a tenant's further ones "
            "are not kept; 1 = no such bound"
        ),
    )
    drain_ms: Millis = Field(
        default=5_000,
        description="requests in flight may take so long when the gateway stops, milliseconds",
    )
    attempts: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="providers that one request may be sent to, one after the other"
    )
    retry_percent: Annotated[float, Field(ge=0, le=100)] = Field(
        default=20.0,
        description="further attempts of a tenant, percent of its requests",
    )
