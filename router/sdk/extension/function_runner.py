"""Run one request through one extension: bytes in, an answer's bytes out, or `RequestFailed`.
Nothing else can come of it.

    Refused                     its own status, its own text; so RequestRefused, RateLimited,
                                ProviderFailed (`sdk.failures`)
    any other exception         500, logged here with its traceback; the caller learns that it
                                failed, never why
    the deadline passes         504: no caller waits any more, so an async function is cancelled

Does not know NATS; `router extension try` runs the very same. Each request has a span, where the
process traces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from router.core.clock import steady
from router.core.user_functions import is_cancelled, is_from_outside, text_of
from router.extensions.model.entry import POST, PRE, PROVIDER, VALIDATOR
from router.extensions.model.failure import REQUESTS
from router.process.observability import LogRateLimit, events, logs
from router.process.observability import tracing as spans
from router.sdk.extension.author import Extension
from router.sdk.extension.provider_io import (
    Output,
    encode_output,
    join_pieces,
    last_piece,
    piece_of,
    read_invocation,
)
from router.sdk.extension.replies import build_stopping_error
from router.sdk.extension.request import Refused, RequestFailed, read_request
from router.sdk.extension.response import encode_post, encode_pre, encode_validator
from router.sdk.failures import ProviderFailed, RateLimited, RequestRefused
from router.sdk.threads import DaemonThreads

# -- The request.

log = logs.logger(__name__)
_END = object()

Headers = Mapping[str, str]
Read = Callable[[bytes, Headers], Any]  # what a function is given hangs on its kind
Say = Callable[[Any, object], bytes]

_BY_KIND: Mapping[str, tuple[Read, Say]] = {
    PRE: (read_request, encode_pre),
    VALIDATOR: (read_request, encode_validator),
    POST: (read_request, encode_post),
    PROVIDER: (read_invocation, encode_output),
}


def build_overdue_error() -> RequestFailed:
    return RequestFailed(504, "deadline_exceeded", "The request's deadline has passed")


class FunctionRunner:
    """Runs one extension's function. `threads` run a function that blocks, None = one of its own;
    `tell` gets the exceptions that it raised.
    """

    def __init__(
        self,
        extension: Extension,
        threads: DaemonThreads | None = None,
        tell: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._extension = extension
        self._threads = threads or DaemonThreads(1, extension.id)
        self._read, self._say = _BY_KIND[extension.kind]
        self._lines = LogRateLimit(every_s=1.0)
        self._tell = tell or self._log
        self._traced = build_tracer(extension)

    def run_now(self, data: bytes, headers: Headers) -> bytes:
        """For a function that neither awaits nor blocks. Raises RequestFailed."""
        with self._traced(headers):
            try:
                request = self._read(data, headers)
                return self._say(request, self._extension.function(request))
            except BaseException as exc:  # the author's code may raise anything
                raise self._translate(exc) from None

    async def run(self, data: bytes, headers: Headers, deadline: float | None) -> bytes:
        """For any other; `deadline` is a time of the steady clock. Raises RequestFailed,
        CancelledError.
        """
        with self._traced(headers):
            try:
                request = self._read(data, headers)
                return self._say(request, await _run_within(deadline, self._call_function(request)))
            except BaseException as exc:  # the author's code may raise anything
                raise self._translate(exc) from None

    async def stream(
        self, data: bytes, headers: Headers, deadline: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of a streaming provider, the last one done. Raises RequestFailed,
        CancelledError.
        """
        last = Output()
        try:
            async with contextlib.aclosing(
                self._extension.function(self._read(data, headers))
            ) as yields:
                # None would be a piece, and is refused
                while (piece := await _run_within(deadline, anext(yields, _END))) is not _END:
                    if isinstance(piece, Output):
                        last = piece
                        break
                    yield piece_of(piece)
            yield last_piece(last)
        except BaseException as exc:  # the author's code may raise anything
            raise self._translate(exc) from None

    async def _call_function(self, request: Any) -> object:
        function = self._extension.function
        if self._extension.streams:
            return join_pieces([piece async for piece in function(request)])
        if not self._extension.blocking:
            return await function(request)
        return await self._call_in_thread(request)

    async def _call_in_thread(self, request: Any) -> object:
        if self._threads.are_busy and self._threads.held and self._lines.allow("threads"):
            log.warning(
                events.EXTENSION_THREADS_HELD, extension=self._extension.id, held=self._threads.held
            )
        if not await self._threads.acquire():
            raise build_stopping_error()
        return await self._threads.call(self._extension.function, request)

    def _translate(self, exc: BaseException) -> RequestFailed:
        """The error that the caller gets. An author's `sys.exit()`, or a cancelled task of the
        author's own, ends one request.
        """
        match exc:
            case RequestFailed():
                return exc
            case Refused():
                return RequestFailed(exc.status, exc.code, text_of(exc), fault=REQUESTS)
            case RequestRefused():
                return RequestFailed(422, "request_refused", text_of(exc), fault=REQUESTS)
            case RateLimited():
                return RequestFailed(
                    429, "rate_limited", text_of(exc), retry_after_ms=exc.retry_after_ms
                )
            case ProviderFailed():
                return RequestFailed(502, "provider_failed", text_of(exc))
            case _ if is_from_outside(exc):
                raise exc
            case asyncio.CancelledError() if is_cancelled():
                raise exc
        self._tell(exc)
        return RequestFailed(500, "failed", f"{self._extension.id} failed; its own log says why")

    def _log(self, exc: BaseException) -> None:
        if self._lines.allow(type(exc).__name__):
            log.error(
                events.EXTENSION_FAILED,
                extension=self._extension.id,
                error=type(exc).__name__,
                exc_info=exc,
            )


async def _run_within(deadline: float | None, work: Awaitable[object]) -> object:
    """Run `work` unless the deadline passes first; TimeoutErrors of its own stay its own."""
    if deadline is None:
        return await work
    limit = asyncio.timeout(deadline - steady())
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise build_overdue_error() from None
        raise


# -- The span of a request, if the author's process has set up OpenTelemetry before it serves;
# else nothing, at no cost. The caller's `traceparent` is the parent. A span holds neither the
# request nor the exception; of an error, its code.
#
# Streams have none: a span must be left in the context in which it was entered, and a generator
# may leave it in another.

NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()

Traced = Callable[[Mapping[str, str]], AbstractContextManager[None]]


def build_tracer(extension: Extension) -> Traced:
    """Return a context manager for requests; it gets the request's headers."""
    traced = spans.find_tracing()
    if traced is None:
        return lambda _: NO_SPAN
    attributes = {
        "extension.id": extension.id,
        "extension.type": extension.kind,
        "extension.version": extension.version,
    }

    @contextlib.contextmanager
    def span(headers: Mapping[str, str]) -> Iterator[None]:
        error: str | None = None
        begun = traced.start_server_span(f"extension {extension.id}", headers, attributes)
        try:
            with traced.activate(begun):
                yield
        except RequestFailed as failed:
            error = failed.code
            raise
        finally:
            traced.end_span(begun, error)

    return span
