"""Where agents work: MeshForge's streams and how their durables are driven
(docs/reference/requirements.md#mf-1).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from router.core.setting_values import Count, Group, Millis, Name

Scope = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$")]


class AgentsConfig(Group):
    """An agent without filters of its own listens to `cmd.{scope}.{agent}.>`."""

    events_stream: Name = Field(default="MESHFORGE_EVENTS", description="the stream of evt.>")
    commands_stream: Name = Field(
        default="MESHFORGE_COMMANDS", description="the stream of cmd.>, a work queue"
    )
    failed_stream: Name = Field(
        default="MESHFORGE_FAILED",
        description="the stream of agents' dead letters, meshforge.failed.>",
    )
    events_retention: Literal["limits", "workqueue"] = Field(
        default="limits",
        description="how long an event is kept: by limits, or until one agent has it",
    )
    events_max_age_ms: int = Field(
        default=0, ge=0, description="events older than this are dropped, milliseconds; 0 = never"
    )
    max_bytes: int = Field(
        default=-1,
        ge=-1,
        description="events, and commands, hold at most this many bytes; -1 = no limit",
    )
    scope: Scope = Field(
        default="default.demo", description="the middle tokens of an agent's default filter"
    )
    duplicate_window_ms: int = Field(
        default=120_000,
        ge=100,
        description="an outgoing message's id is remembered this long, milliseconds",
    )
    max_deliver: Count = Field(
        default=5, description="deliveries allowed by the server, and attempts by us"
    )
    ack_wait_ms: Millis = Field(
        default=30_000, description="the server delivers again after this silence, milliseconds"
    )
    max_ack_pending: Count = Field(
        default=10_000, description="messages delivered and not acknowledged, at most"
    )
    prefetch: Count = Field(default=2_048, description="messages in flight at once, at most")
    sweep_ms: Millis = Field(
        default=60_000,
        description="between two looks for messages that the server gave up, milliseconds",
    )
    replicas: int = Field(default=1, ge=1, le=5, description="copies of the streams in a cluster")
