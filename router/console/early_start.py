"""A page whose data take long begins before them: its navigation is painted while they are read.

    read within `begin_after_s`   one response
    later                         the layout down to its content and a line that says so; then the
                                  rest

No script: a style hides the line once something follows it. What began has the status 200, whatever
its rest says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from starlette.responses import Response, StreamingResponse

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
