"""The first answers of invocations: the same request gets the same answer, and its provider is not
asked again. Pure.

    an id that was not heard before    -> asked; a good answer is kept for `ttl_s`
    the same request                   -> the answer that is kept; of one that is under way, when it
                                       ends
    other content under the id         -> Conflict

Only an id that the asker chose is kept. A failure is not kept: the same again is asked, and billed.
Answers are shared by no two instances. Each tenant has its share of the memory
(`core.bounded_cache`); an answer above MAX_KEPT_BYTES is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from router.contracts.provider import ProviderResponse
from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.errors import Conflict

KILOBYTE = 1024  # of one weight
MAX_KEPT_BYTES = 256 * KILOBYTE
REPEATED = {"repeated": "true"}  # in the metadata of an answer that is given again

T = TypeVar("T", ProviderResponse, Sequence[StreamChunk])


class _KeptAnswer(Struct, Generic[T], frozen=True, gc=False):
    content: str  # the request's digest
    answer: T


class FirstAnswers(Generic[T]):
    """Of plain invocations, or of streams. `kept_bytes`: of all answers together."""

    def __init__(self, kept_bytes: int, ttl_s: float, clock: Clock = steady) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._kept: BoundedCache[str, _KeptAnswer[T]] = BoundedCache(max(1, kept_bytes // KILOBYTE))

    def find(self, request: ProviderRequest, content: str) -> T | None:
        """The answer of the same request. `content`: its digest. Raises Conflict."""
        known = self._kept.get(_key(request), self._clock())
        if known is None:
            return None
        if known.content != content:
            raise Conflict("this id was used for a different request")
        return known.answer

    def check(self, request: ProviderRequest, content: str) -> None:
        """Raises Conflict where another request has this id."""
        self.find(request, content)

    def keep(self, request: ProviderRequest, content: str, answer: T, size: int) -> None:
        """Keep a good answer of `size` bytes, if it is not too large."""
        if size <= MAX_KEPT_BYTES:
            now = self._clock()
            weight = 1 + size // KILOBYTE
            self._kept.put(
                _key(request),
                _KeptAnswer(content, answer),
                now + self._ttl_s,
                now,
                owner=request.tenant_id,
                weight=weight,
            )

    def __len__(self) -> int:
        return len(self._kept)


def _key(request: ProviderRequest) -> str:
    """A text, not a tuple, which the collector would look at. No tenant id holds a zero byte."""
    return f"{request.tenant_id}\0{request.request_id}"
