"""A request-reply server: each request is answered exactly once, by a task of its own, and counted
as nats.micro counts it.

a request ── may its reply address be answered? ──> a task ── are few in flight? ──> `answer`
                no: dropped                                     no: `refuse`, overloaded
it fails     `refuse`, failed; the log has the cause, the client does not learn it
the end      unsubscribe, so that the other instances of the queue group get the requests; wait for
             the tasks within `drain_s`;
             cancel the others: `refuse`, stopping
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

import nats.errors
import orjson
from nats.micro.request import Request
from nats.micro.service import Endpoint, EndpointConfig, Service

from router.core.clock import steady
from router.core.ids import is_literal_subject
from router.delivery.wire.connection import Connection, OnMessage
from router.delivery.wire.frames import Headers
from router.process.observability import events, logs

log = logs.logger(__name__)

OVERLOADED, FAILED, STOPPING = "overloaded", "failed", "stopping"  # why a request is refused
INBOXES = ("_INBOX.", "_R_.")
CANCEL_TIMEOUT_S = 1.0  # a handler of an author may ignore its cancellation

R = TypeVar("R")


class ReplyAddresses:
    """The reply addresses that may be answered: a client chooses its address, and on another
    subject it would publish with our rights.

    `prefixes`: of inboxes; `own`: of this router's inboxes, which only requests between its
    instances name. `on_refused` gets every other address.
    """

    def __init__(
        self,
        prefixes: tuple[str, ...] = INBOXES,
        own: tuple[str, ...] = (),
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._prefixes = prefixes
        self._own = own
        self._on_refused = on_refused

    def may_reach(self, address: str, *, is_instance: bool = False) -> bool:
        """Whether an answer may be sent there. `is_instance`: the request is one between instances
        of the router.
        """
        is_inbox = (
            is_instance if address.startswith(self._own) else address.startswith(self._prefixes)
        )
        if is_inbox and is_literal_subject(address):
            return True
        if address:
            self._on_refused(address)
        return False


class RequestServer(ABC, Generic[R]):
    """The requests of one service; R is a request as its subclass reads it. `name`: in log lines.

    `at_once`: requests in flight; more are refused. `drain_s`: seconds that tasks may take at the
    end.
    """

    def __init__(
        self, connection: Connection, name: str, *, at_once: int, drain_s: float = 0.0
    ) -> None:
        self._connection = connection
        self._name = name
        self._at_once = at_once
        self._drain_s = drain_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._is_stopping = False
        self.is_serving = False

    @abstractmethod
    async def answer(self, request: R) -> None:
        """Work on a request and answer it. What it raises is logged, and the request is refused."""

    @abstractmethod
    def refuse(self, request: R, reason: str) -> None:
        """Answer that the request is not handled: OVERLOADED, FAILED or STOPPING."""

    def name_of(self, request: R) -> str:
        """The service of a request, for log lines."""
        return self._name

    def on_end(self, request: R) -> None:
        """The task of a request has ended, whatever came of it."""

    async def serve(self, on_message: OnMessage, *subjects: str, queue_group: str) -> None:
        """Until cancelled; then drain. `on_message`: called from the connection's reader; it reads
        the message, then calls `begin`.
        """
        self._is_stopping = False
        subscriptions = [
            await self._connection.subscribe_direct(subject, on_message, queue_group)
            for subject in subjects
        ]
        self.is_serving = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_serving = False
            for sid in subscriptions:
                await self._connection.unsubscribe(sid)
            await self.drain()

    def begin(self, request: R) -> None:
        """Start the task of a request. The task refuses it if too many are in flight then: one that
        never waits is in no other's way.
        """
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, request))

    async def drain(self) -> None:
        """After the last request: let the tasks finish within `drain_s`, and cancel the others."""
        until = steady() + self._drain_s
        while self._tasks and (left_s := until - steady()) > 0:
            await asyncio.wait(self._tasks, timeout=left_s)
        # a task that is cancelled before its first step would end without an answer
        await asyncio.sleep(0)
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_TIMEOUT_S)

    async def _run(self, request: R) -> None:
        if self._in_flight >= self._at_once:
            self.refuse(request, OVERLOADED)
            return
        self._in_flight += 1
        try:
            await self.answer(request)
        except asyncio.CancelledError:
            if self._is_stopping:  # else the client has left, and gets no answer
                self.refuse(request, STOPPING)
            raise
        except Exception as exc:  # every request gets an answer
            log.exception(
                events.SERVICE_FAILED, service=self.name_of(request), error=type(exc).__name__
            )
            self.refuse(request, FAILED)
        finally:
            self._in_flight -= 1

    def _on_done(self, request: R, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.on_end(request)


# -- A subject of a service as nats.micro describes and counts it; its messages come straight from
# the connection's reader.
#
# nats.micro's own endpoint runs its requests one after the other, behind a queue that says
# neither how long one of them has waited nor how many there are. Here the reader hands each to a
# plain function, which answers at once or begins a task, and counts it at its end. It uses
# private names of nats-py, whose minor version is pinned for the same reason as in
# `delivery.connection`.


SCHEMA = "_schema"  # what the names of metadata that hold a JSON Schema end with
FRAME_BYTES = 512  # of a service or an endpoint in `$SRV.INFO`, beside its metadata
STOP_TIMEOUT_S = 2.0  # for the server to confirm the end of the subscriptions

CountCallback = Callable[[int, str | None], None]  # nanoseconds, the error's code
# its last three: reply address, data, headers
OnRequest = Callable[[CountCallback, str, bytes, Headers | None], None]


class MicroEndpoint(Endpoint):
    """One subject. It may join one service after the other, and keeps its counts."""

    def __init__(
        self,
        connection: Connection,
        on_request: OnRequest,
        *,
        name: str,
        subject: str,
        queue_group: str,
        metadata: Mapping[str, str],
    ) -> None:
        config = EndpointConfig(
            name=name,
            subject=subject,
            queue_group=queue_group,
            handler=_ignore_request,
            metadata=dict(metadata),
        )
        super().__init__(None, config)  # type: ignore[arg-type]  # it joins one later
        self._described = dict(metadata)
        self._connection = connection
        self._on_request = on_request
        self._sid = 0

    async def join(self, service: Service) -> None:
        """Start to listen, as a part of the service. Its schemas are left out where `$SRV.INFO`
        could be larger than the server takes.
        """
        self._service = service
        self._metadata = self._described
        if (
            sum(_measure(endpoint) for endpoint in (*service._endpoints, self)) + FRAME_BYTES
            > self._connection.max_payload
        ):
            self._metadata = {
                name: text for name, text in self._described.items() if not name.endswith(SCHEMA)
            }
        await self._start()
        service._endpoints.append(self)

    async def _start(self) -> None:
        self._sid = await self._connection.subscribe_direct(
            self._subject, self._on_message, self._queue_group
        )

    async def _stop(self) -> None:
        await self._connection.unsubscribe(self._sid)

    def _on_message(self, _subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self._on_request(self._count, reply, data, headers)

    def _count(self, nanos: int, error: str | None) -> None:
        """One request answered, for `$SRV.STATS`; `error` is a code, never a text, which may quote
        the request.
        """
        self._num_requests += 1
        self._processing_time += nanos
        self._average_processing_time = self._processing_time // self._num_requests
        if error is not None:
            self._num_errors += 1
            self._last_error = error  # type: ignore[assignment]  # nats-py says None and means str | None


def _measure(endpoint: Endpoint) -> int:
    """Bytes in `$SRV.INFO`. A server closes the connection that sends more than its max_payload."""
    return len(orjson.dumps(endpoint._metadata)) + FRAME_BYTES


async def stop_service(service: Service) -> None:
    """End its subscriptions. A server that hangs does not delay the end of the process for longer
    than 2 s.
    """
    with contextlib.suppress(nats.errors.Error, OSError):  # TimeoutError is an OSError
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await service.stop()


async def _ignore_request(_: Request) -> None:
    """nats.micro needs a handler; `MicroEndpoint` never lets a request reach it."""
