"""The options of a relay and its counters, as plain values."""

from __future__ import annotations

from msgspec import Struct

from router.mailbox.outbox.repository import PARTITIONS, ROUND, RetryPolicy


class RelayOptions(Struct, frozen=True, kw_only=True):
    """How one relay works. Times are seconds."""

    context: str
    stream: str
    round: int = ROUND
    # of them in one publish: a publish has a fixed cost of some milliseconds, and the server
    # accepts no more
    page: int = 1000
    partitions: int = PARTITIONS
    retry_policy: RetryPolicy = RetryPolicy()
    poll_least: float = 0.005
    poll_most: float = 0.5
    retry: float = 0.5  # after a failure of the broker or the database
    check: float = 60.0  # between two checks that the broker still has what it acknowledged
    store_timeout: float = 5.0
    is_atomic: bool = True
    listens: bool = False


class RelayTotals(Struct):
    """The counters of one process."""

    rounds: int = 0
    published: int = 0
    duplicates: int = 0
    failed: int = 0
    parked: int = 0
    lost: int = 0
