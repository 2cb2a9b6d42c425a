"""What the asker of an invocation gets: the chunks of one stream, made of a provider's pieces, and
for the same request again the first answer. Pure.

    an id that was not heard before    -> asked; a good answer is kept for `ttl_s`
    the same request                   -> the answer that is kept; of one that is under way, when it
                                       ends
    other content under the id         -> Conflict

Only an id that the asker chose is kept. A failure is not kept: the same again is asked, and billed.
Answers are shared by no two instances. Each tenant has its share of the memory
(`core.bounded_cache`); an answer above MAX_KEPT_BYTES is not kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.provider import SUCCESS, ProviderResponse
from router.contracts.provider_call import read_piece
from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.errors import Conflict, RouterError
from router.extensions.model.failure import (
    ExtensionFailure,
    check_refused,
    chunk_metadata,
    failure_of,
    read_failure,
)
from router.extensions.model.ports import InvocationLedger

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
        kept = self._kept.get(_key(request), self._clock())
        if kept is None:
            return None
        if kept.content != content:
            raise Conflict("this id was used for a different request")
        return kept.answer

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


# -- Turn a provider's pieces into the chunks of one stream. Pure: pieces come through one port,
# chunks leave through another.
#
# {data, done: false} …   {data, done: true}            passed on with the request's id, the last
#                                                       one with what the whole took
# one whole answer                                      the only chunk
# no piece in time, an error, garbage, no responders    a last chunk that says so: no stream ends
#                                                       without one
# what came after the stream was cut                    counted and not passed on: its provider
#                                                       did the work
#
# The reader counts chunks, so the last one says how many there were.


Send = Callable[[StreamChunk], None]


class ProviderMessage(Protocol):
    """One message of a provider, as the connection delivers it."""

    @property
    def data(self) -> bytes: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class StreamRelay:
    """One stream on its way. `send` takes each chunk at once and never waits; for one that it
    cannot send it raises ExtensionFailure.

    `ledger` hears what the provider sends, and ends a stream for which the budget has no more room.
    """

    def __init__(
        self, request: ProviderRequest, send: Send, ledger: InvocationLedger, now: Clock = steady
    ) -> None:
        self._request = request
        self._send = send
        self._ledger = ledger
        self._now = now
        self._begun = now()
        self._count = 0
        self._is_over = False  # by its provider's own last word

    async def run(
        self,
        pieces: AsyncIterable[ProviderMessage],
        on_first_piece: Callable[[], object] = lambda: None,
    ) -> ExtensionFailure | None:
        """Pass pieces on until the last one. Returns the failure, if there was one.

        `on_first_piece` is called at the first piece that is good and not the last.
        """
        try:
            async for piece in pieces:
                chunk = self._take(piece)
                if chunk.done:
                    return self._finish(chunk)
                if not self._count:
                    on_first_piece()
                self._pass_on(chunk)
                self._ledger.require_budget()
        except RouterError as exc:
            failure = failure_of(exc)
            self.fail(failure)
            return failure
        return None

    def count_unread(self, piece: ProviderMessage) -> None:
        """Count a piece that came when no reader was left, or no time, or no budget. The last one
        may tell what all of it used.
        """
        if not self._is_over:
            with suppress(RouterError):
                self._take(piece)

    def fail(self, failure: ExtensionFailure) -> None:
        """End the stream with a chunk that says why."""
        self._end(StreamChunk(done=True, metadata=chunk_metadata(failure)))

    @property
    def latency_ms(self) -> float:
        return (self._now() - self._begun) * 1000

    def _take(self, piece: ProviderMessage) -> StreamChunk:
        """Read a piece, and count it. Raises RouterError: it is an error, or none."""
        self._is_over = True
        check_refused(piece.headers)
        chunk = read_piece(piece.data, self._request.provider_id)
        self._ledger.take(chunk.data, chunk.metadata)
        self._is_over = chunk.done
        return chunk

    def _finish(self, chunk: StreamChunk) -> ExtensionFailure | None:
        failure = read_failure(chunk.metadata) if chunk.failed else None
        told = (
            {**chunk.metadata, **chunk_metadata(failure)}
            if failure is not None
            else {"status": SUCCESS, **chunk.metadata}
        )
        self._end(replace(chunk, metadata=told))
        return failure

    def _end(self, chunk: StreamChunk) -> None:
        summary = {
            **chunk.metadata,
            "latency_ms": str(round(self.latency_ms)),
            "chunks": str(self._count + 1),
        }
        self._pass_on(replace(chunk, metadata=summary))

    def _pass_on(self, chunk: StreamChunk) -> None:
        self._send(replace(chunk, request_id=self._request.request_id))
        self._count += 1
