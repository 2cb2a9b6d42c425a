"""Looks at each page of the site in Chromium: with axe-core's eyes, and on a phone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.docs.site.build import list_pages
from tests.support.browser import BrowserPage, a_browser

PHONE = 390
SERIOUS = ("serious", "critical")
RUN = """axe.run({resultTypes: ['violations'], preload: false})
  .then(r => r.violations.map(v => [v.id, v.impact, v.nodes.length, v.nodes[0].html]))"""
WIDTH = "[document.documentElement.scrollWidth, innerWidth]"


async def look_at_pages(site: Path, axe: str | None) -> tuple[list[str], list[str]]:
    """Pages that are wider than a phone, and what axe finds serious; without axe nothing is found."""
    wide, serious = [], []
    async with _served(site) as url, a_browser() as browser:
        for page in list_pages(site):
            name = page.relative_to(site).as_posix().removesuffix("index.html")
            await browser.show(f"{url}/{name}", width=PHONE, height=800)
            has, may = await browser.evaluate(WIDTH)
            wide += [f"{name or '/'}: {has} px"] if has > may else []
            serious += (
                [f"{name or '/'}: {one}" for one in await _ask_axe(browser, axe)] if axe else []
            )
    return wide, serious


async def _ask_axe(browser: BrowserPage, axe: str) -> list[str]:
    await browser.evaluate(axe + ";0")
    return [
        f"{name} ({count}): {shown[:160]}"
        for name, impact, count, shown in await browser.evaluate(RUN)
        if impact in SERIOUS
    ]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@asynccontextmanager
async def _served(site: Path) -> AsyncIterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
