"""One request gets one answer: what this instance decided, remembered by request identity (CONTRACTS §4).

Only decisions are remembered: a refusal has no effect that could happen twice, and a client that asks again after
its policy was mended should hear of it. Where the memory is gone, the deterministic draw decides alike again.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from router.clock import Clock, steady
from router.contracts.decision import Decision
from router.contracts.request import RouteRequest
from router.memory import Memory


class Recall(Enum):
    """What is known of a request, when it is not a decision."""

    NEW = "new"
    CONFLICT = "conflict"  # the same identity came with other bytes


class _Known(Struct, frozen=True, gc=False):
    decision: Decision
    content: int | None  # None: an idempotency key stands for the request, whatever its bytes


class Replays:
    """At most `limit` decisions for `ttl_s` each; the one longest unused goes first."""

    def __init__(self, limit: int = 100_000, ttl_s: float = 600.0, clock: Clock = steady) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._known: Memory[tuple[str, str], _Known] = Memory(limit)

    def recall(self, request: RouteRequest, data: bytes) -> Decision | Recall:
        """The decision of the same request, NEW, or CONFLICT."""
        known = self._known.recall((request.tenant_id, request.request_key), self._clock())
        if known is None:
            return Recall.NEW
        if known.content is not None and known.content != hash(data):
            return Recall.CONFLICT
        return known.decision

    def remember(self, request: RouteRequest, data: bytes, decision: Decision) -> None:
        content = hash(data) if request.idempotency_key is None else None
        self._known.keep((request.tenant_id, request.request_key), _Known(decision, content), self._clock() + self._ttl_s)

    def __len__(self) -> int:
        return len(self._known)
