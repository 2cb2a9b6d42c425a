"""What the doctor checks, and what it finds, as plain values. Durations are seconds, sizes bytes,
times seconds since the epoch.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from router.delivery.wire.topology import ConsumerSpec, Difference, StreamSpec


class SyncMode(Struct, frozen=True):
    """How often the server flushes a stream's file to the disk. `interval` is None if it could not
    be read.
    """

    interval: float | None = None
    is_always: bool = False


class Follower(Struct, frozen=True):
    """A server whose copy follows the leader's. `lag`: operations that it is behind."""

    name: str
    is_current: bool = True
    is_offline: bool = False
    lag: int = 0


class RaftGroup(Struct, frozen=True):
    """The servers that hold a stream, a consumer, or the list of all of them. `leader` is empty if
    there is none now.
    """

    leader: str = ""
    followers: tuple[Follower, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.leader, *(follower.name for follower in self.followers))))

    @property
    def is_without_leader(self) -> bool:
        return not self.leader


class ServerStorage(Struct, frozen=True, kw_only=True):
    """One server, as its monitoring port shows it: what its disk may hold, and what the streams
    there may grow to.
    """

    name: str
    limit: int  # max_file_store
    reserved: int  # the sum of the streams' max_bytes, of all accounts
    used: int = 0
    cluster_size: int = 1
    meta: RaftGroup | None = None  # as this server sees it; only the leader's list is exact


class AccountCount(Struct, frozen=True):
    """How many of a kind the account has, and may have."""

    kind: str  # streams | consumers
    used: int
    most: int  # -1: any number


class ServerFacts(Struct, frozen=True, kw_only=True):
    version: tuple[int, int, int]
    has_jetstream: bool
    why_not: str = ""  # the server's error when JetStream was asked for
    has_quorum: bool = True  # False: JetStream runs, and its cluster has no leader
    max_payload: int
    is_clustered: bool = False
    sync: SyncMode = SyncMode()
    storage: tuple[ServerStorage, ...] = ()  # of the servers whose monitoring port was read
    unread: tuple[str, ...] = ()  # why the monitoring ports of other servers could not be read
    # bytes that this account's streams may reserve, each copy counted; -1 = no limit
    account_limit: int = -1
    account_reserved: int = 0  # what they reserve, each stream counted once
    account_counts: tuple[AccountCount, ...] = ()


class Origin(Struct, frozen=True):
    """A stream of another place that a stream takes in. `silence`: since the last sign of it; None:
    there was none yet.

    The server's own figure of how far it is behind is not here: it stays 0 while the connection is
    cut.
    """

    name: str
    place: str
    silence: float | None = None


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
    group: RaftGroup | None = None  # None: its server is in no cluster
    origins: tuple[Origin, ...] = ()
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
    held_back: str | None = None  # the server's pause of it, and what ends it
    group: RaftGroup | None = None


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """A partition of the decide subject whose stream is on the server. Ages are by the server's
    clock alone; None: no record.
    """

    name: str
    pending: int = 0
    waiting_pulls: int = 0
    holder: str = ""  # the node that wrote the lease last
    is_owned: bool = True  # the partition is the holder's own; else a standby has taken it over
    lease_age: float | None = None
    standby_age: float | None = None  # since a standby said last that it is there


class ViolationFacts(Struct, frozen=True, kw_only=True):
    """Violations of the header contract within the last hour, and the tenant, subject and rule with
    the most of them.
    """

    messages: int = 0
    tenants: int = 0
    tenant: str = ""
    worst: int = 0  # its violations
    subject: str = ""
    rule: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """All facts. A stream or consumer that does not exist is only in `differences`."""

    now: float  # seconds since the epoch, for ages
    server: ServerFacts
    max_request: int  # the largest request that the router accepts
    declared: tuple[StreamSpec, ...] = ()  # those that could be read, or do not exist
    streams: tuple[StreamFacts, ...] = ()
    consumers: tuple[ConsumerFacts, ...] = ()
    differences: tuple[Difference, ...] = ()
    # streams and consumers that could not be read, because they have no leader now
    without_leader: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()  # the server's refusals of what this user may not read
    partitions: tuple[PartitionFacts, ...] = ()
    lease: float = 3.0  # a partition's lease lasts so long
    violations: ViolationFacts | None = None  # None: they could not be read
    left_over: tuple[str, ...] = ()  # buckets of the earlier version, which nothing reads any more
    dead_letters: str = ""  # the name of the dead letters' stream
    cleaned_stream: str = ""  # the name of the stream whose finished messages are removed


# -- One result of a check: what was found, how bad it is, and what to do. And how its numbers are
# written for people.


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, with a risk
    FAIL = "fail"  # it does not work, or messages are being lost


class Finding(Struct, frozen=True):
    """`remedy` is empty when all is well."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.FAIL, found, remedy)


_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(seconds: float) -> str:
    """A duration in its largest fitting unit: `1.5 h`, `2 min`, `0.1 s`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{round(seconds / size, 1):g} {unit}"
    return f"{seconds:.2g} s"


def share(part: float) -> str:
    """A part of one as a percentage."""
    return f"{part:.0%}" if part >= 0.01 or part == 0 else "below 1%"


def size(count: float) -> str:
    """Bytes in their largest fitting unit: `2.1 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
