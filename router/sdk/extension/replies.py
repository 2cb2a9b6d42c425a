"""What is said to whoever asked: an answer, why there is none, or a stream of pieces. Each of them is counted.

answer      the bytes that `work` made
refusal     {error{code, message, field?}}, with Nats-Service-Error-Code and Nats-Service-Error
stream      pieces until the last one, or until nobody listens any more (`calls.reply_streams`); a failure is its last piece
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

import orjson
from msgspec import Struct

from router.calls.reply_streams import ReplyStreams
from router.contracts.extension import ERROR, ERROR_CODE
from router.delivery.connection import Connection, head_of
from router.delivery.wire import Headers
from router.sdk.extension.provided import broken_piece
from router.sdk.extension.said import Failed

ERROR_LETTERS = 200  # of an error's text in a header
MOST_UNSENT = 1024 * 1024  # bytes of streams that wait for the broker
LOOK_S = 0.005
NO_HEADERS: Headers = {}

Counted = Callable[[int, str | None], None]  # nanoseconds, the error's code


class Call(Struct, frozen=True):
    """One request that has arrived; `deadline` is a time of the steady clock."""

    reply: str
    data: bytes
    headers: Headers
    arrived_ns: int
    deadline: float | None
    counted: Counted

    def done(self, error: str | None = None) -> None:
        self.counted(time.perf_counter_ns() - self.arrived_ns, error)


class Replies:
    """The way out, over one connection."""

    def __init__(self, connection: Connection, outlets: ReplyStreams) -> None:
        self._connection = connection
        self._outlets = outlets

    def answer(self, call: Call, data: bytes) -> None:
        self._connection.post(call.reply, data)
        call.done()

    def decline(self, call: Call, failed: Failed) -> None:
        said = {"code": failed.code, "message": str(failed)}
        body = {"error": said if failed.field is None else {**said, "field": failed.field}}
        head = head_of({ERROR_CODE: str(failed.status), ERROR: f"{failed.code}: {failed}"[:ERROR_LETTERS]})
        self._connection.post(call.reply, orjson.dumps(body), head=head)
        call.done(failed.code)

    async def stream(self, call: Call, pieces: AsyncGenerator[bytes, None]) -> None:
        """Whoever leaves cancels the author's generator; so does a drain."""
        error: str | None = None
        with self._outlets.open(call.reply, _canceller(), NO_HEADERS) as outlet:
            try:
                async with contextlib.aclosing(pieces):
                    async for piece in pieces:
                        outlet.send(piece)
                        await self._room()
            except Failed as failed:
                error = failed.code
                outlet.send(broken_piece(failed))
            except asyncio.CancelledError:
                error = "stopped"
                outlet.send(broken_piece(stopping()))
        call.done(error)

    async def _room(self) -> None:
        """Let others run, and what was said be sent: an author's generator may never await, nor know how fast the reader is."""
        while True:
            await asyncio.sleep(0)
            if self._connection.pending_data_size < MOST_UNSENT:
                return
            await asyncio.sleep(LOOK_S)


def stopping() -> Failed:
    return Failed(503, "stopping", "This instance is stopping; ask again")


def _canceller() -> Callable[[], object]:
    task = asyncio.current_task()
    return task.cancel if task is not None else (lambda: None)
