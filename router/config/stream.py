"""One stream's limits. What a stream binds and how it discards is decided in
`operate.topology.declared_topology`.
"""

from __future__ import annotations

from pydantic import Field

from router.core.setting_values import Group, Millis, Name

MIB = 1024 * 1024
MINUTE_MS = 60_000
DAY_MS = 86_400_000


class StreamConfig(Group):
    """One stream's limits. A duplicate window is at least 100 ms: the server takes no shorter one."""

    name: Name = Field(description="the stream's name")
    max_age_ms: Millis = Field(description="messages older than this are dropped, milliseconds")
    max_bytes: int = Field(
        description="the stream holds at most this many bytes; -1 = no limit", ge=-1
    )
    duplicate_window_ms: int = Field(
        description="an id is remembered this long, milliseconds", ge=100
    )
    replicas: int = Field(default=1, description="copies in a cluster", ge=1, le=5)


class EventStreamConfig(StreamConfig):
    """A stream that is bounded by the number of its messages too."""

    max_messages: int = Field(
        default=-1, description="the stream holds at most this many messages; -1 = no limit", ge=-1
    )


def declare_stream(name: str, *, days: int, mib: int, window_ms: int) -> StreamConfig:
    return StreamConfig(
        name=name, max_age_ms=days * DAY_MS, max_bytes=mib * MIB, duplicate_window_ms=window_ms
    )
