"""The facts that the doctor checks, as plain values. Durations are seconds, sizes bytes, times seconds since the epoch."""

from __future__ import annotations

from msgspec import Struct

from router.delivery.topology import ConsumerSpec, Difference, StreamSpec


class SyncMode(Struct, frozen=True):
    """How often the server flushes a stream's file to the disk. `interval` is None if it could not be read."""

    interval: float | None = None
    is_always: bool = False


class ServerFacts(Struct, frozen=True, kw_only=True):
    version: tuple[int, int, int]
    has_jetstream: bool
    why_not: str = ""  # the server's error when JetStream was asked for
    max_payload: int
    is_clustered: bool = False
    sync: SyncMode = SyncMode()


class StreamFacts(Struct, frozen=True, kw_only=True):
    """A stream as declared, and as it is on the server."""

    spec: StreamSpec
    messages: int = 0
    size: int = 0
    max_bytes: int = -1
    max_age: float = 0.0
    duplicate_window: float = 0.0
    discard: str = "old"
    replicas: int = 1
    lagging: tuple[str, ...] = ()  # peers that are offline or behind
    first_sequence: int = 0
    last_sequence: int = 0
    first_at: float | None = None
    recent_sequence: int | None = None  # where its newest tenth begins
    recent_at: float | None = None
    last_at: float | None = None


class ConsumerFacts(Struct, frozen=True, kw_only=True):
    """A consumer, and the oldest message that it has not acknowledged."""

    spec: ConsumerSpec
    pending: int = 0  # not delivered yet
    unacknowledged: int = 0  # delivered, not acknowledged
    redelivered: int = 0
    waiting_pulls: int = 0
    delivered_sequence: int | None = None  # the last delivered one
    oldest_sequence: int | None = None
    oldest_at: float | None = None


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """A partition of the decide subject whose stream is on the server. Ages are by the server's clock alone; None: no record."""

    name: str
    pending: int = 0
    waiting_pulls: int = 0
    holder: str = ""  # the node that wrote the lease last
    is_owned: bool = True  # the partition is the holder's own; else a standby has taken it over
    lease_age: float | None = None
    standby_age: float | None = None  # since a standby said last that it is there


class Facts(Struct, frozen=True, kw_only=True):
    """All facts. A stream or consumer that does not exist is only in `differences`."""

    now: float  # seconds since the epoch, for ages
    server: ServerFacts
    max_request: int  # the largest request that the router accepts
    streams: tuple[StreamFacts, ...] = ()
    consumers: tuple[ConsumerFacts, ...] = ()
    differences: tuple[Difference, ...] = ()
    denied: tuple[str, ...] = ()  # the server's refusals of what this user may not read
    partitions: tuple[PartitionFacts, ...] = ()
    lease: float = 3.0  # a partition's lease lasts so long
    left_over: tuple[str, ...] = ()  # buckets of the earlier version, which nothing reads any more
    letters: str = ""  # the name of the dead letters' stream
    cleaned_stream: str = ""  # the name of the stream whose finished messages are removed
