"""When each page is painted first, and when it is whole: the browser's own clock, from the moment
it began to navigate.

A page is read anew each time, because an answer is kept for a second; styles and scripts are kept
by the browser after the first page.
"""

import asyncio
from statistics import median

from msgspec import Struct

from tests.console.measure.stage import Stage
from tests.support.browser import BrowserPage, a_browser
from tests.support.console_pages import ADDRESSES
from tests.support.waiting import until

FRESH_S = 1.1  # an answer is kept for a second
FIRST_PAINT_MS, WHOLE_MS = 300, 1_000
PAINTED = "performance.getEntriesByName('first-contentful-paint').length"
TIMES = """[performance.getEntriesByName('first-contentful-paint')[0].startTime,
  performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd,
  performance.getEntriesByType('navigation')[0].decodedBodySize, document.querySelectorAll('tbody tr').length]"""
MORE = (
    "/dead-letters?show=each",
    "/dead-letters?tenant=acme",
    "/decisions?tenant=acme&request_id=request-000000",
)


class PageTimes(Struct, frozen=True):
    """Of one page: each visit's first paint and end of its content, in ms; the bytes of its HTML,
    the rows of its tables.
    """

    path: str
    painted_ms: list[float]
    whole_ms: list[float]
    bytes: int
    rows: int

    @property
    def is_soon(self) -> bool:
        return median(self.painted_ms) <= FIRST_PAINT_MS and median(self.whole_ms) <= WHOLE_MS


async def measure_pages(
    stage: Stage, rounds: int, paths: tuple[str, ...] = (*ADDRESSES, *MORE)
) -> list[PageTimes]:
    async with a_browser() as browser:
        await browser.show(stage.console + "/")  # styles and scripts
        return [await _measure(browser, stage.console, path, rounds) for path in paths]


async def _measure(browser: BrowserPage, console: str, path: str, rounds: int) -> PageTimes:
    visits = [await _visit(browser, console + path) for _ in range(rounds)]
    painted, whole, sizes, rows = zip(*visits, strict=True)
    return PageTimes(path, list(painted), list(whole), int(sizes[-1]), int(rows[-1]))


async def _visit(browser: BrowserPage, url: str) -> list[float]:
    await asyncio.sleep(FRESH_S)
    await browser.show(url)
    await until(lambda: browser.evaluate(PAINTED), what=url)
    times: list[float] = await browser.evaluate(TIMES)
    return times
