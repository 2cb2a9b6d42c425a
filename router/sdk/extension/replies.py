"""Answer a request: a response, an error, or a stream of pieces. Each of them is counted.

answer      the bytes that `function_runner` made
refusal     {error{code, message, field?}}, with Nats-Service-Error-Code and Nats-Service-Error,
            Router-Fault, Router-Retry-After-Ms
stream      pieces until the last one, or until the subscriber is gone
            (`delivery.wire.calls.stream`); a failure is its last piece
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

import orjson
from msgspec import Struct

from router.contracts.extension import (
    FAULT,
    RETRY_AFTER,
    SERVICE_ERROR,
    SERVICE_ERROR_CODE,
    read_tick_s,
)
from router.delivery.wire.calls.request_server import CountCallback
from router.delivery.wire.calls.stream import ReplyStreams
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers
from router.sdk.extension.provider_io import broken_piece
from router.sdk.extension.request import RequestFailed
from router.sdk.extension.response import raise_invalid

ERROR_LETTERS = 200  # of an error's text in a header
MAX_UNSENT_BYTES = 1024 * 1024  # bytes of streams that wait for the broker
DRAIN_CHECK_S = 0.005
NO_HEADERS: Headers = {}


class IncomingCall(Struct, frozen=True):
    """One request; `deadline` is a time of the steady clock."""

    reply: str
    data: bytes
    headers: Headers
    arrived_ns: int
    deadline: float | None
    counted: CountCallback

    def finish(self, error: str | None = None) -> None:
        self.counted(time.perf_counter_ns() - self.arrived_ns, error)


class Replies:
    """The answers, over one connection."""

    def __init__(self, connection: Connection, outlets: ReplyStreams) -> None:
        self._connection = connection
        self._outlets = outlets

    def send(self, call: IncomingCall, data: bytes) -> None:
        try:
            self._require_fit(data)
        except RequestFailed as failed:
            self.decline(call, failed)
            return
        self._connection.publish_nowait(call.reply, data)
        call.finish()

    def decline(self, call: IncomingCall, failed: RequestFailed) -> None:
        details = {"code": failed.code, "message": str(failed)}
        body = {"error": details if failed.field is None else {**details, "field": failed.field}}
        said = {
            SERVICE_ERROR_CODE: str(failed.status),
            SERVICE_ERROR: f"{failed.code}: {failed}"[:ERROR_LETTERS],
        }
        if failed.fault is not None:
            said[FAULT] = failed.fault
        if failed.retry_after_ms is not None:
            said[RETRY_AFTER] = str(failed.retry_after_ms)
        head = head_of(said)
        self._connection.publish_nowait(call.reply, orjson.dumps(body), head=head)
        call.finish(failed.code)

    async def stream(self, call: IncomingCall, pieces: AsyncGenerator[bytes, None]) -> None:
        """A caller that unsubscribes cancels the author's generator; so does a drain."""
        error: str | None = None
        tick_s = read_tick_s(call.headers)
        with self._outlets.open(call.reply, _canceller(), NO_HEADERS, tick_s) as outlet:
            try:
                async with contextlib.aclosing(pieces):
                    async for piece in pieces:
                        self._require_fit(piece)
                        outlet.send(piece)
                        await self._room()
            except RequestFailed as failed:
                error = failed.code
                outlet.send(broken_piece(failed))
            except asyncio.CancelledError:
                error = "stopped"
                outlet.send(broken_piece(build_stopping_error()))
        call.finish(error)

    def _require_fit(self, data: bytes) -> None:
        """Raises RequestFailed: for an answer above the server's limit, it would close the
        connection.
        """
        if len(data) > self._connection.max_payload:
            raise_invalid(
                "payload",
                (
                    f"the answer of {len(data)} bytes is above the server's limit of "
                    f"{self._connection.max_payload}"
                ),
            )

    async def _room(self) -> None:
        """Let other tasks run, and the socket send: an author's generator may never await, nor know
        how fast the reader is.
        """
        while True:
            await asyncio.sleep(0)
            if self._connection.pending_data_size < MAX_UNSENT_BYTES:
                return
            await asyncio.sleep(DRAIN_CHECK_S)


def build_stopping_error() -> RequestFailed:
    return RequestFailed(503, "stopping", "This instance is stopping; ask again")


def _canceller() -> Callable[[], object]:
    task = asyncio.current_task()
    return task.cancel if task is not None else (lambda: None)
