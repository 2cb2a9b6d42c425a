"""The inboxes of requests that the listener heard and this instance has not answered, by the key of
their request.

They are kept in two generations, so that a request costs one entry in a table and no timer:
`start_generation` drops the older one. So an inbox is kept for one to two times the span between
two generations, and a full table makes that span short. The inboxes of requests that this instance
is handling are kept whatever the span is: these are few, and each tenant has its share of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

CorrelationKey = int  # a hash of the Nats-Msg-Id, or of the whole request when it has none

# The inbox; the hash of the request's content, or without an id its number among all heard requests
# (0: none); when it was heard; and the content, if its id came with other content before (else
# empty).
WaitingInbox = tuple[str, int, float, bytes]

NO_INBOX = ""  # of a request without an inbox
MAX_IN_FLIGHT_INBOXES = 1_000  # of one key: identical requests have one key
# of requests whose id came with other bytes before, in each of two generations
MAX_KEPT_BYTES = 4 * 1024 * 1024


class RequestIdentity(Struct, frozen=True, gc=False):
    """What the listener and the decision know of a request."""

    msg_id: str | None
    tenant: str | None
    data: bytes


class WaitingInboxes:
    """The two generations. `younger` and `count` are plain attributes: each request without headers
    reads and writes them itself.
    """

    def __init__(self) -> None:
        self.younger: dict[CorrelationKey, list[WaitingInbox]] = {}
        self.older: dict[CorrelationKey, list[WaitingInbox]] = {}
        self.count = 0  # inboxes in the younger generation
        self.started_at = 0.0  # the younger generation
        self._kept_bytes = 0  # in the younger generation

    def __len__(self) -> int:
        return len(self.younger) + len(self.older)

    def start_generation(self, now: float, in_flight: Iterable[CorrelationKey] = ()) -> None:
        """Drop the older generation, but for the inboxes of these keys."""
        dropped = self.older
        self.older, self.younger, self.started_at, self.count = self.younger, {}, now, 0
        self._kept_bytes = 0
        for key in in_flight:
            if (inboxes := dropped.pop(key, None)) is not None:
                self.older[key] = (inboxes + self.older.get(key, []))[-MAX_IN_FLIGHT_INBOXES:]

    def pop(self, key: CorrelationKey) -> list[WaitingInbox]:
        """Take all inboxes of a key out, oldest first."""
        inboxes = self.younger.pop(key, None)
        if inboxes is not None:
            self.count -= len(inboxes)
        if self.older and (older := self.older.pop(key, None)) is not None:
            inboxes = older + inboxes if inboxes is not None else older
        return inboxes or []

    def put_back(self, key: CorrelationKey, inboxes: list[WaitingInbox]) -> None:
        """Keep those that were popped and are not answered."""
        if inboxes:
            self.younger[key] = inboxes
            self.count += len(inboxes)

    def keep_bytes(self, request: RequestIdentity) -> bytes:
        """Return the bytes to keep until their id is answered; empty when too many are kept
        already.
        """
        if request.msg_id is None or self._kept_bytes + len(request.data) > MAX_KEPT_BYTES:
            return b""
        self._kept_bytes += len(request.data)
        return request.data
