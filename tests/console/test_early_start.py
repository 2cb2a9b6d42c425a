"""A page that takes long begins before its data: the navigation first, then the rest; its end is
that of a page that came at once.
"""

import asyncio

import pytest
from starlette.responses import HTMLResponse, StreamingResponse

from router.config import Settings
from router.console.slow_pages import READING, answer_early
from router.delivery.wire.api import JetStream
from tests.support.console import HOSTILE, a_console, store_dead_letter
from tests.support.waiting import until

MAIN = '<main id="main" tabindex="-1">'
LAYOUT = HTMLResponse(f"<nav></nav>{MAIN}</main>")


async def test_the_layout_is_sent_before_the_data_are_there() -> None:
    is_read = asyncio.Event()

    async def answer() -> HTMLResponse:
        await is_read.wait()
        return HTMLResponse(f"<nav></nav>{MAIN}<h1>Read</h1></main>")

    response = await answer_early(answer(), lambda: LAYOUT, 0)
    assert isinstance(response, StreamingResponse)
    parts = aiter(response.body_iterator)
    assert await anext(parts) == f"<nav></nav>{MAIN}".encode() + READING
    is_read.set()
    assert [part async for part in parts] == [b"<h1>Read</h1></main>"]


async def test_a_page_that_fails_after_its_beginning_says_so_and_the_error_is_raised() -> None:
    is_begun = asyncio.Event()

    async def fail() -> HTMLResponse:
        await is_begun.wait()
        raise ValueError("broken")

    response = await answer_early(fail(), lambda: LAYOUT, 0)
    assert isinstance(response, StreamingResponse)
    parts = aiter(response.body_iterator)
    await anext(parts)
    is_begun.set()
    assert b"This page failed" in await anext(parts)  # type: ignore[operator]
    with pytest.raises(ValueError, match="broken"):
        await anext(parts)


async def test_a_reader_that_goes_ends_the_reading() -> None:
    is_ended = asyncio.Event()

    async def answer() -> HTMLResponse:
        try:
            await asyncio.Event().wait()
        finally:
            is_ended.set()
        return LAYOUT

    waiting = asyncio.create_task(answer_early(answer(), lambda: LAYOUT, 60))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await is_ended.wait()


async def test_a_page_is_the_same_whether_it_began_early_or_not(
    settings: Settings, jetstream: JetStream
) -> None:
    await store_dead_letter(jetstream, settings, HOSTILE.encode())
    async with a_console(settings) as whole, a_console(settings, begin_after_s=0) as early:
        await until(
            lambda: (
                whole.server.link.hears_since is not None
                and early.server.link.hears_since is not None
            )
        )
        for path in ("/dead-letters", "/contract", "/doctor/settings"):
            at_once, begun = await whole.read(path), await early.read(path)
            assert begun.count(MAIN) == begun.count("<h1>") == begun.count("</html>") == 1, path
            assert READING.decode() in begun
            assert READING.decode() not in at_once
            assert (
                begun.partition("<h1>")[2].split("<time>")[0]
                == at_once.partition("<h1>")[2].split("<time>")[0]
            )
        # one thing does not begin early
        assert (await early.get("/dead-letters/77")).status_code == 404
        assert await early.export("/dead-letters") == await whole.export("/dead-letters")
