"""A lease: a key of a bucket that its holder writes again and again; when it stops, another process
takes the key.

    LeaseBucket   renew    write, whatever is there: an owner
                  replace  write where the revision is the one that was read: of several standbys
                           the server lets one win
    LeaseWatch    how long the key has kept its revision, by this process's own steady clock

No two machines' clocks are compared, and no time is written into the bucket: a watcher sees that a
revision is new, and measures from then on. While the bucket cannot be read it measures nothing and
begins again, so a broker that was unavailable ends no lease.
"""

from __future__ import annotations

from router.core.clock import Clock, steady
from router.core.errors import BrokerRefused
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import unavailable_bucket


class LeaseBucket(DocumentBucket):
    """One bucket of leases over one connection."""

    async def renew(self, key: str, value: bytes) -> int:
        """Write the key, whatever it holds; the new revision. Raises BrokerUnavailable."""
        try:
            answer = await self._jetstream.publish(
                self._jetstream.write_subject(self._prefix + key), value, {}
            )
        except BrokerRefused as exc:
            raise unavailable_bucket(self.bucket, exc) from None
        return int(answer["seq"])

    async def replace(self, key: str, value: bytes, revision: int) -> int:
        """Write the key if this is still its revision; 0: it holds nothing. The new revision.
        Conflict, BrokerUnavailable.
        """
        return await self._write(key, value, {}, revision)


class LeaseWatch:
    """Of one key. A lease is over when its revision stays the same for `span_s`."""

    def __init__(self, span_s: float, clock: Clock = steady) -> None:
        self._span_s = span_s
        self._clock = clock
        self._revision: int | None = None
        self._since: float | None = None

    @property
    def is_over(self) -> bool:
        return self._since is not None and self._clock() - self._since >= self._span_s

    def on_revision(self, revision: int) -> None:
        """The key was read; 0: it holds nothing. A new revision is a renewal."""
        if self._since is None or revision != self._revision:
            self._revision, self._since = revision, self._clock()

    def on_unreadable(self) -> None:
        """The bucket could not be read: what its holder did meanwhile is not known."""
        self._since = None
