"""What a page shows while its data take long, or cannot be read: its navigation before them, and
the last answer with the time at which it was true.

    read within `begin_after_s`   one response
    later                         the layout down to its content and a line that says so; then the
                                  rest

No script: a style hides the line once something follows it. What began has the status 200, whatever
its rest says.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from router.core.clock import Clock, wall
from router.core.errors import RouterError, describe_causes

BEGIN_AFTER_S = 0.1
MAIN = b'<main id="main" tabindex="-1">'  # of the layout; texts are escaped, so nothing else is it
READING = b'<p class="reading" role="status">Reading\xe2\x80\xa6</p>'


async def answer_early(
    answer: Coroutine[Any, Any, Response], begin: Callable[[], Response], begin_after_s: float
) -> Response:
    """The answer, or a response that begins with the layout of `begin` and ends with the content of
    the answer.
    """
    task = asyncio.create_task(answer)
    try:
        done, _ = await asyncio.wait({task}, timeout=begin_after_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return (
        task.result() if done else StreamingResponse(_stream(task, begin()), media_type="text/html")
    )


async def _stream(task: asyncio.Task[Response], begun: Response) -> AsyncIterator[bytes]:
    try:
        head, main, rest = bytes(begun.body).partition(MAIN)
        yield head + main + READING
        try:
            answer = await task
        except Exception:
            # whatever it is: the page has begun, so its reader is told in it; the server logs what
            # goes on
            yield (
                b'<p class="notice bad">This page failed. The log of the console has the cause.</p>'
                + rest
            )
            raise
        yield bytes(answer.body).partition(MAIN)[2]
    finally:
        task.cancel()


# -- The last answer to each question of a page, so that the page says what it knew, and when,
# while the broker is unavailable.
#
# fresh (a second)       the kept answer
# asked already          the answer to that request: one read for all browsers that ask at once
# otherwise              read, at most `AT_ONCE` at a time; an error of the broker brings the kept
#                        answer, with the cause
#
# Bounded: the questions that were asked last, each with a bounded answer.


T = TypeVar("T")
KEPT_ANSWERS = 24
FRESH_S = 1.0
AT_ONCE = 4
READ_WITHIN_S = 20.0


class Known(Struct, Generic[T], frozen=True):
    """An answer. `at`: when it was read, seconds since the epoch; `cause`: why it is not newer.
    Both None: nothing is known.
    """

    value: T | None
    at: float | None
    cause: str | None = None


class Knowledge(Generic[T]):
    def __init__(self, clock: Clock = wall) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, Known[T]] = OrderedDict()
        self._reading: dict[Hashable, asyncio.Task[Known[T]]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._expired_at = 0.0

    async def read(self, question: Hashable, read: Callable[[], Awaitable[T]]) -> Known[T]:
        """The answer, as new as it can be had. It raises only what is no RouterError."""
        kept = self._kept.get(question)
        if (
            kept is not None
            and kept.at is not None
            and kept.at > self._expired_at
            and 0 <= self._clock() - kept.at < FRESH_S
        ):
            return kept
        task = self._reading.get(question)
        if task is None:
            task = self._reading[question] = asyncio.create_task(self._read(question, read))
            task.add_done_callback(partial(self._forget, question))
        return await asyncio.shield(task)

    def expire(self) -> None:
        """What was written since is read: no kept answer is fresh any more, and none of those under
        way.
        """
        self._expired_at = self._clock()
        self._reading.clear()

    async def _read(self, question: Hashable, read: Callable[[], Awaitable[T]]) -> Known[T]:
        try:
            async with asyncio.timeout(READ_WITHIN_S), self._slots:
                answer = Known(await read(), self._clock())
        except RouterError as exc:
            return self._explain(question, describe_causes(exc))
        except TimeoutError:
            return self._explain(question, f"the answer took longer than {READ_WITHIN_S:g} s")
        self._keep(question, answer)
        return answer

    def _forget(self, question: Hashable, task: asyncio.Task[Known[T]]) -> None:
        if self._reading.get(question) is task:
            del self._reading[question]

    def _explain(self, question: Hashable, cause: str) -> Known[T]:
        kept = self._kept.get(question)
        return Known(kept.value, kept.at, cause) if kept is not None else Known(None, None, cause)

    def _keep(self, question: Hashable, answer: Known[T]) -> None:
        self._kept[question] = answer
        self._kept.move_to_end(question)
        while len(self._kept) > KEPT_ANSWERS:
            self._kept.popitem(last=False)
