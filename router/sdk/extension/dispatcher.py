"""Receive one extension's requests, run or queue them, and answer each exactly once.

    plain function     answered between two messages: no task, no queue
    any other          a task each, `concurrency` at once; more wait, each with its own deadline;
                       too many: 503
    blocking           the same, and a request begins when a thread is free: one past its deadline
                       keeps its thread until it returns

A deadline is relative (`Router-Deadline-Ms`: the time that is left), since hosts' clocks differ. So
it runs from the moment the message arrives here, and a request that waited too long is not begun.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from router.contracts.extension import DEADLINE
from router.contracts.provider_call import STREAM_HEADER
from router.core.clock import steady
from router.delivery.wire.calls.request_server import (
    FAILED,
    INBOXES,
    OVERLOADED,
    STOPPING,
    CountCallback,
    ReplyAddresses,
    RequestServer,
)
from router.delivery.wire.calls.stream import ReplyStreams
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from router.sdk.extension.author import Extension
from router.sdk.extension.function_runner import FunctionRunner, build_overdue_error
from router.sdk.extension.replies import IncomingCall, Replies, build_stopping_error
from router.sdk.extension.request import RequestFailed
from router.sdk.threads import DaemonThreads

REFUSALS: Mapping[str, RequestFailed] = {
    OVERLOADED: RequestFailed(503, "overloaded", "Too many requests wait; ask again"),
    STOPPING: build_stopping_error(),
    FAILED: RequestFailed(500, "internal", "The extension failed"),
}


class DispatcherRules(Struct, frozen=True, kw_only=True):
    """`concurrency`: tasks at once; `waiting`: requests that may wait for one; `prefixes`: where
    answers may go; `drain_s`: seconds.
    """

    concurrency: int = 64
    waiting: int = 4096
    prefixes: tuple[str, ...] = INBOXES
    drain_s: float = 10.0


class RequestDispatcher(RequestServer[IncomingCall]):
    """The dispatcher of one extension; all of its subjects share it."""

    def __init__(
        self,
        extension: Extension,
        connection: Connection,
        outlets: ReplyStreams,
        rules: DispatcherRules,
    ) -> None:
        super().__init__(connection, extension.id, at_once=rules.concurrency, drain_s=rules.drain_s)
        self._threads = (
            DaemonThreads(rules.concurrency, extension.id) if extension.blocking else None
        )
        self._runner = FunctionRunner(extension, self._threads)
        self._replies = Replies(connection, outlets)
        self._rules = rules
        self._addresses = ReplyAddresses(rules.prefixes, (connection.own_inboxes,))
        self._is_plain = extension.is_plain
        self._streams = extension.streams
        self._waiting: deque[IncomingCall] = deque()

    def dispatch(
        self, counted: CountCallback, reply: str, data: bytes, headers: Headers | None
    ) -> None:
        """Accept one request and return at once; a plain function has answered by then."""
        if not self._addresses.may_reach(reply):
            return
        arrived = time.perf_counter_ns()
        # its own dict: the author's function may write into it
        given = headers if headers is not None else {}
        left = _remaining_s(given) if DEADLINE in given else None
        call = IncomingCall(
            reply, data, given, arrived, None if left is None else steady() + left, counted
        )
        if left is not None and left <= 0:
            self._replies.decline(call, build_overdue_error())
        elif self._is_plain:
            self._answer_now(call)
        elif len(self._tasks) < self._rules.concurrency:
            self.begin(call)
        elif len(self._waiting) < self._rules.waiting:
            self._waiting.append(call)
        else:
            self.refuse(call, OVERLOADED)

    async def answer(self, request: IncomingCall) -> None:
        if self._streams and request.headers.get(STREAM_HEADER) == "true":
            await self._replies.stream(
                request, self._runner.stream(request.data, request.headers, request.deadline)
            )
            return
        try:
            self._replies.send(
                request, await self._runner.run(request.data, request.headers, request.deadline)
            )
        except RequestFailed as failed:
            self._replies.decline(request, failed)

    def refuse(self, request: IncomingCall, reason: str) -> None:
        self._replies.decline(request, REFUSALS[reason])

    def on_end(self, request: IncomingCall) -> None:
        """Start the next one that waits and is not overdue."""
        while self._waiting and not self._is_stopping:
            call = self._waiting.popleft()
            if call.deadline is None or call.deadline > steady():
                self.begin(call)
                return
            self._replies.decline(call, build_overdue_error())

    async def drain(self) -> None:
        await super().drain()
        for call in self._waiting:
            self.refuse(call, STOPPING)
        if self._threads is not None:
            self._threads.close()

    def _answer_now(self, call: IncomingCall) -> None:
        try:
            data = self._runner.run_now(call.data, call.headers)
        except RequestFailed as failed:
            self._replies.decline(call, failed)
        else:
            self._replies.send(call, data)


def _remaining_s(headers: Headers) -> float | None:
    """Seconds left; a header that is no number counts as absent."""
    try:
        left = float(headers[DEADLINE]) / 1000
    except ValueError:
        return None
    return left if left < 86_400 else None  # also for what is no number at all
