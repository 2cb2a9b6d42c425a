"""A nats-server, a router on it, and what a test does with them, from plain functions; with
providers and extensions that answer what they are told, and assertions on answers.

    decide                                    ask
    serve_extensions, start_worker            what it calls, and what does the work
    read_dead_letters, read_usage             what is stored
    wait_for_dead_letters, wait_for_usage     the same, once there are as many: a result is metered
                                              shortly after it came

All of it runs in an event loop in a thread of its own, so that tests need no plugin for async ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from router.config import Settings, load
from router.contracts.decision import Decision, Refusal
from router.contracts.exec_assignment import ExecAssignment
from router.contracts.usage import UsageEvent
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.dead_letters import DeadLetter, DeadLetterFilter, list_newest_first
from router.process.embedded import EmbeddedServer
from router.sdk.assignments import WorkerTopology
from router.sdk.background import poll, run_in_background
from router.sdk.client import Answer, Client
from router.sdk.connect import open_connection
from router.sdk.extension import Extension, ExtensionServer
from router.sdk.step import Handler, StepResult
from router.sdk.worker import Worker
from router.serve.service import Ready, RouterService

# -- The router of a test.

READY_WITHIN_S = 60.0  # of a busy machine
SEEN_WITHIN_S = 30.0
MAX_READ = 10_000  # messages that one call returns


class EmbeddedRouter:
    """For a `with` block, or the fixture. `store`: a directory for its streams. `settings`: by
    name; no variable is read.
    """

    def __init__(self, store: Path, policies: Path, settings: Mapping[str, object]) -> None:
        self._server = EmbeddedServer(store)
        self._given = {"http.port": 0, "acks.enabled": True, **settings, "policies.dir": policies}
        self._loop = BackgroundLoop()
        self._opened = AsyncExitStack()
        self._workers = 0
        self.settings: Settings
        self.nats_url = ""
        self.http_url = ""

    def __enter__(self) -> Self:
        try:
            self._loop.run(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def decide(
        self,
        payload: object,
        *,
        tenant_id: str = "acme",
        message_type: str = "chat",
        push: bool = False,
        timeout_s: float = 10.0,
        **more: Any,
    ) -> Answer:
        """Ask as `Client.decide` does, which `more` goes to. A refusal is an Answer. Raises
        Unanswered.
        """
        asked = {
            "tenant_id": tenant_id,
            "message_type": message_type,
            "push": push,
            "timeout": timeout_s,
            **more,
        }
        return self._loop.run(self._client.decide(payload=payload, **asked))

    def serve_extensions(self, *extensions: Extension) -> None:
        """Serve them until the test ends; return when the router has them in its registry."""
        self._loop.run(self._serve_extensions(extensions))

    def start_worker(self, handler: Handler) -> None:
        """Do assignments by this function until the test ends; return when it takes them."""
        self._loop.run(self._start_worker(handler))

    def read_dead_letters(self) -> list[DeadLetter]:
        """Return what is stored now, the oldest first."""
        return self._loop.run(self._read_dead_letters())

    def read_usage(self) -> list[UsageEvent]:
        """Return the usage events that are stored now, the oldest first."""
        return self._loop.run(self._read_usage())

    def wait_for_dead_letters(
        self, count: int = 1, timeout_s: float = SEEN_WITHIN_S
    ) -> list[DeadLetter]:
        """Return them once there are `count`. Raises AssertionError after `timeout_s`, and if there
        are more.
        """
        return self._loop.run(_wait_for("dead letters", self._read_dead_letters, count, timeout_s))

    def wait_for_usage(self, count: int = 1, timeout_s: float = SEEN_WITHIN_S) -> list[UsageEvent]:
        """Return the usage events once there are `count`. Raises AssertionError after `timeout_s`,
        and if there are more.
        """
        return self._loop.run(_wait_for("usage events", self._read_usage, count, timeout_s))

    async def _start(self) -> None:
        self._opened.push_async_callback(self._server.stop)
        url = await self._server.start()
        self.settings = settings = load(None, {**self._given, "nats.url": url}, {}).settings
        self._service = RouterService(settings)
        ready: Ready = await self._run_in_background(self._service.run)
        self.nats_url, self.http_url = ready.nats_url, ready.http
        self._client = await self._opened.enter_async_context(Client(settings.nats))
        connection = await open_connection(settings.nats, "router-testing")
        self._opened.push_async_callback(connection.close)
        self._jetstream = JetStream(connection)

    def _stop(self) -> None:
        try:
            self._loop.run(self._opened.aclose())
        finally:
            self._loop.close()

    async def _run_in_background(
        self, work: Callable[[Callable[[Any], None]], Coroutine[Any, Any, None]]
    ) -> Any:
        """Run it until the test ends; return what it announces when it is ready. What it raises
        ends the test.
        """
        return await self._opened.enter_async_context(run_in_background(work, READY_WITHIN_S))

    async def _serve_extensions(self, extensions: tuple[Extension, ...]) -> None:
        await self._run_in_background(
            ExtensionServer(*extensions, nats=self.settings.nats, register=True).work
        )
        wanted = {extension.id for extension in extensions}
        await poll(
            lambda: asyncio.sleep(0, self._service.list_extensions()),
            lambda served: wanted <= served,
            SEEN_WITHIN_S,
        )

    async def _start_worker(self, handler: Handler) -> None:
        self._workers += 1
        settings = self.settings
        places = WorkerTopology(
            stream=settings.streams.assignments.name,
            attempts=settings.buckets.attempts.name,
            results=settings.results.subject,
            acks=settings.acks.subject,
        )
        worker = Worker(settings.nats, handler, worker_id=f"test-{self._workers}", topology=places)
        await self._run_in_background(worker.work)

    async def _read_dead_letters(self) -> list[DeadLetter]:
        stream = self.settings.streams.dlq.name
        return [
            dead_letter
            async for dead_letter in list_newest_first(
                self._jetstream, stream, DeadLetterFilter(), limit=MAX_READ
            )
        ][::-1]

    async def _read_usage(self) -> list[UsageEvent]:
        async with open_reader(self._jetstream, self.settings.streams.usage.name) as reader:
            stored = await reader.read(min(reader.total, MAX_READ)) if reader.total else []
        return [msgspec.json.decode(message.data, type=UsageEvent) for message in stored]


async def _wait_for(
    what: str, read: Callable[[], Awaitable[list[T]]], count: int, timeout_s: float
) -> list[T]:
    messages = await poll(read, lambda stored: len(stored) >= count, timeout_s)
    if len(messages) != count:
        raise AssertionError(
            f"there should be {count} {what}, there are {len(messages)}: {messages[:10]}"
        )
    return messages


# -- The event loop in its thread.

T = TypeVar("T")


class BackgroundLoop:
    """`run` from any other thread; `close` once nothing runs in it any more."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="router-testing", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop, and return what it returns, or raise what it raises."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:  # also Ctrl-C, which reaches this thread alone
            running.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


# -- A provider and an extension for tests: they answer what they are told, and keep what they
# were asked.


MAX_KEPT = 10_000  # the oldest go first


class FakeProvider:
    """A worker's handler, for `EmbeddedRouter.start_worker`.

    `output`: any JSON value, or a StepResult. `cost`: of each attempt. `fails`: raised instead, as
    a worker's function raises it (`router.core.errors`). `latency_s`: seconds that each answer
    takes.
    """

    def __init__(
        self,
        output: object = "",
        *,
        cost: float = 0.0,
        fails: Exception | None = None,
        latency_s: float = 0.0,
    ) -> None:
        self._step = (
            output if isinstance(output, StepResult) else StepResult(output=output, cost=cost)
        )
        self._fails = fails
        self._latency_s = latency_s
        self.assignments: deque[ExecAssignment] = deque(maxlen=MAX_KEPT)

    async def __call__(self, assignment: ExecAssignment) -> StepResult:
        self.assignments.append(assignment)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if self._fails is not None:
            raise self._fails
        return self._step


class FakeExtension(Extension):
    """An extension, for `EmbeddedRouter.serve_extensions`. `kind`: pre, validator, post or
    provider.

    `answer`: what an author's function would return, or an exception that it would raise.
    """

    def __init__(
        self, kind: str, extension_id: str, answer: object = None, *, version: str = "v1"
    ) -> None:
        self._answer = answer
        self.requests: deque[Any] = deque(maxlen=MAX_KEPT)  # Request, of a provider Invocation

        def answer_request(request: Any) -> Any:
            self.requests.append(request)
            if isinstance(self._answer, Exception):
                raise self._answer
            return self._answer

        super().__init__(
            answer_request, kind, extension_id, version, blocking=False, timeout_ms=None, retry=None
        )


# -- What must be true of an answer. Each raises AssertionError that says what was answered
# instead.


def assert_decided(
    answer: Answer, *, provider_id: str | None = None, reason: str | None = None, **metadata: str
) -> Decision:
    """Return the decision; with this provider, this reason and this metadata, where they are given."""
    if answer.decision is None:
        raise AssertionError(f"it was not decided: {_describe(answer)}")
    wanted = {"provider_id": provider_id, "reason": reason, **metadata}
    decision = answer.decision
    had = {"provider_id": decision.provider_id, "reason": decision.reason}
    for name, value in wanted.items():
        actual = had[name] if name in had else decision.metadata.get(name)
        if value is not None and actual != value:
            raise AssertionError(
                f"{name} should be {value!r} and is {actual!r}: {_describe(answer)}"
            )
    return decision


def assert_refused(answer: Answer, code: str) -> Refusal:
    """Return the refusal, which has this code (`router explain CODE`)."""
    if answer.error is None or answer.error.code != code:
        raise AssertionError(f"it should be refused as {code!r}: {_describe(answer)}")
    return answer.error


def _describe(answer: Answer) -> str:
    return answer.raw[:2000].decode(errors="replace") if answer.raw else repr(answer)
