"""Receive one extension's requests, run or queue them, and answer each exactly once.

    plain function     answered between two messages: no task, no queue
    any other          a task each, `concurrency` at once; more wait, each with its own deadline; too many: 503

A deadline is relative (`Router-Deadline-Ms`: the time that is left), since hosts' clocks differ. So it runs from the moment the
message arrives here, and a request that waited too long is not begun.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from router.contracts.extension import DEADLINE
from router.contracts.provider_call import STREAM_HEADER
from router.core.clock import steady
from router.core.ids import is_literal_subject
from router.delivery.calls.reply_streams import ReplyStreams
from router.delivery.connection import Connection
from router.delivery.frame_parser import Headers
from router.sdk.extension.author import Extension
from router.sdk.extension.function_runner import FunctionRunner, build_overdue_error
from router.sdk.extension.replies import CountCallback, IncomingCall, Replies, build_stopping_error
from router.sdk.extension.results import RequestFailed

REPLY_PREFIXES = ("_INBOX.", "_R_.")


class DispatcherRules(Struct, frozen=True, kw_only=True):
    """`concurrency`: tasks at once; `waiting`: requests that may wait for one; `prefixes`: where answers may go."""

    concurrency: int = 64
    waiting: int = 4096
    prefixes: tuple[str, ...] = REPLY_PREFIXES


class RequestDispatcher:
    """The dispatcher of one extension; all of its subjects share it."""

    def __init__(self, extension: Extension, connection: Connection, outlets: ReplyStreams, rules: DispatcherRules) -> None:
        self._pool = ThreadPoolExecutor(rules.concurrency, thread_name_prefix=extension.id) if extension.blocking else None
        self._runner = FunctionRunner(extension, self._pool)
        self._replies = Replies(connection, outlets)
        self._rules = rules
        self._own = connection.own_inboxes
        self._is_plain = extension.is_plain
        self._streams = extension.streams
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[IncomingCall] = deque()

    def dispatch(self, counted: CountCallback, reply: str, data: bytes, headers: Headers | None) -> None:
        """Accept one request and return at once; a plain function has answered by then."""
        if not (reply.startswith(self._rules.prefixes) and not reply.startswith(self._own) and is_literal_subject(reply)):
            return  # no request, or a reply subject on which the sender's text would be published with our rights
        arrived = time.perf_counter_ns()
        found = headers if headers is not None else {}  # its own dict: the author's function may write into it
        left = _remaining_s(found) if DEADLINE in found else None
        call = IncomingCall(reply, data, found, arrived, None if left is None else steady() + left, counted)
        if left is not None and left <= 0:
            self._replies.decline(call, build_overdue_error())
        elif self._is_plain:
            self._answer(call)
        elif len(self._tasks) < self._rules.concurrency:
            self._begin(call)
        elif len(self._waiting) < self._rules.waiting:
            self._waiting.append(call)
        else:
            self._replies.decline(call, RequestFailed(503, "overloaded", "Too many requests wait; ask again"))

    async def drain(self, within_s: float) -> None:
        """After the last request: finish what there is, and after `within_s` seconds answer the rest with 503."""
        until = steady() + within_s
        while self._tasks and (left := until - steady()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        while self._waiting:
            self._replies.decline(self._waiting.popleft(), build_stopping_error())
        await asyncio.sleep(0)  # a task that is cancelled before its first step would end without an answer
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, call: IncomingCall) -> None:
        try:
            data = self._runner.run_now(call.data, call.headers)
        except RequestFailed as failed:
            self._replies.decline(call, failed)
        else:
            self._replies.answer(call, data)

    def _begin(self, call: IncomingCall) -> None:
        streams = self._streams and call.headers.get(STREAM_HEADER) == "true"
        task = asyncio.get_running_loop().create_task(self._stream(call) if streams else self._serve(call))
        self._tasks.add(task)
        task.add_done_callback(self._start_next)

    def _start_next(self, done: asyncio.Task[None]) -> None:
        self._tasks.discard(done)
        while self._waiting:
            call = self._waiting.popleft()
            if call.deadline is None or call.deadline > steady():
                return self._begin(call)
            self._replies.decline(call, build_overdue_error())
        return None

    async def _serve(self, call: IncomingCall) -> None:
        try:
            self._replies.answer(call, await self._runner.run(call.data, call.headers, call.deadline))
        except RequestFailed as failed:
            self._replies.decline(call, failed)
        except asyncio.CancelledError:
            self._replies.decline(call, build_stopping_error())

    async def _stream(self, call: IncomingCall) -> None:
        await self._replies.stream(call, self._runner.stream(call.data, call.headers, call.deadline))


def _remaining_s(headers: Headers) -> float | None:
    """Seconds left; a header that is no number counts as absent."""
    try:
        left = float(headers[DEADLINE]) / 1000
    except ValueError:
        return None
    return left if left < 86_400 else None  # also for what is no number at all
