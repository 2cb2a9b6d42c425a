"""Streams and buckets: names and limits (docs/contracts.md#streams). What they bind and how they discard is delivery's."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from router.config.group import Group, Millis, Name

MIB = 1024 * 1024


class StreamConfig(Group):
    """One stream's limits. A duplicate window is at least 100 ms: the server takes no shorter one."""

    name: Name = Field(description="the stream's name")
    max_age_ms: Millis = Field(description="messages older than this are dropped, milliseconds")
    max_bytes: int = Field(description="the stream holds at most this many bytes; -1 = no limit", ge=-1)
    duplicate_window_ms: int = Field(description="an id is remembered this long, milliseconds", ge=100)
    replicas: int = Field(default=1, description="copies in a cluster", ge=1, le=5)


class BucketConfig(Group):
    """One key-value bucket."""

    name: Name = Field(description="the bucket's name")
    max_bytes: int = Field(default=-1, description="the bucket holds at most this many bytes, and takes nothing more; -1 = no limit", ge=-1)
    ttl_ms: int = Field(default=0, description="a key is dropped this long after its last write, milliseconds; 0 = never", ge=0)
    history: int = Field(default=1, description="versions kept of each key", ge=1, le=64)
    replicas: int = Field(default=1, description="copies in a cluster", ge=1, le=5)


def _millis(**span: float) -> int:
    return timedelta(**span) // timedelta(milliseconds=1)


def _stream(name: str, *, days: float, mib: int, window_ms: int) -> StreamConfig:
    return StreamConfig(name=name, max_age_ms=_millis(days=days), max_bytes=mib * MIB, duplicate_window_ms=window_ms)


class StreamsConfig(Group):
    """Every stream of the decide circle."""

    # The decide window is the server's minimum on purpose: a client's retry must be stored again (docs/contracts.md#decide-window).
    decide: StreamConfig = _stream("ROUTER_DECIDE", days=1, mib=1024, window_ms=100)
    results: StreamConfig = _stream("ROUTER_RESULTS", days=7, mib=512, window_ms=_millis(minutes=2))
    acks: StreamConfig = _stream("ROUTER_ACKS", days=7, mib=256, window_ms=_millis(minutes=2))
    assignments: StreamConfig = _stream("ROUTER_ASSIGNMENTS", days=7, mib=512, window_ms=_millis(minutes=10))
    # A day of 100 outcomes a second is 3 GB.
    usage: StreamConfig = _stream("ROUTER_USAGE", days=90, mib=4096, window_ms=_millis(minutes=10))
    dlq: StreamConfig = _stream("ROUTER_DLQ", days=30, mib=1024, window_ms=_millis(hours=1))
    advisories: StreamConfig = _stream("ROUTER_ADVISORIES", days=7, mib=64, window_ms=_millis(minutes=2))


class BucketsConfig(Group):
    """Every bucket. `attempts` holds the attempts of what failed: it forgets after an hour, far above any pause between two attempts."""

    policies: BucketConfig = BucketConfig(name="ROUTER_POLICIES", history=64)
    extensions: BucketConfig = BucketConfig(name="ROUTER_EXTENSIONS", history=64)
    assignments_known: BucketConfig = BucketConfig(name="ROUTER_ASSIGNMENTS_KNOWN", ttl_ms=_millis(hours=24))
    attempts: BucketConfig = BucketConfig(name="ROUTER_ATTEMPTS", ttl_ms=_millis(hours=1))
    breakers: BucketConfig = BucketConfig(name="ROUTER_BREAKERS", ttl_ms=_millis(days=1))  # far above any opening's time
