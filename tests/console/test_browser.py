"""The console in a real browser: within the policy of its pages, painted, updated by itself, on a
phone, without scripts, read by axe.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from router.config import Settings
from router.delivery.wire.api import JetStream
from tests.support.browser import CHROMIUM, NO_CHROMIUM, BrowserPage, a_browser
from tests.support.console import (
    HOSTILE,
    PAGES,
    Console,
    a_console,
    store_dead_letter,
)
from tests.support.console_data import ConsoleData, fill_console
from tests.support.console_login import LOG_IN, writing
from tests.support.console_pages import ADDRESSES, MEND_ADDRESSES, OTHER_VIEWS
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
# `make test` gets it where npm is
AXE = Path(os.environ.get("ROUTER_TEST_AXE", f"{sys.prefix}/axe/node_modules/axe-core/axe.min.js"))
NO_AXE = (
    "THERE IS NO AXE-CORE HERE: it read no page of the console (`make .venv/.axe` needs npm; "
    "ROUTER_TEST_AXE names axe.min.js)"
)
RUN_AXE = (
    "axe.run({resultTypes: ['violations'], preload: false})"
    ".then(found => found.violations.map(one => [one.id, one.impact, one.nodes[0].html]))"
)
HIDE = (
    "Object.defineProperty(document, 'hidden', {value: HIDDEN, configurable: true});"
    "document.dispatchEvent(new Event('visibilitychange')); 0"
)
SOME_OF_ALL = ConsoleData(
    letters=6, groups=6, violations=6, policies=6, assignments=6, extensions=4
)
LOOKS: tuple[dict[str, Any], ...] = (
    {},
    {"is_dark": True},
    {"width": 390},
    {"width": 390, "is_dark": True},
)


@pytest.fixture
async def console(settings: Settings, jetstream: JetStream) -> AsyncIterator[Console]:
    async with a_console(settings) as running:
        await until(lambda: running.server.link.hears_since is not None)
        await store_dead_letter(jetstream, settings, HOSTILE.encode())
        yield running


async def test_every_page_paints_within_its_policy_and_fits_on_a_phone(console: Console) -> None:
    async with a_browser() as browser:
        for path in (*PAGES, "/dead-letters/1", "/nowhere"):
            await browser.show(console.url + path, width=390, height=800, is_dark=path == "/")
            assert await browser.evaluate("document.querySelector('h1').textContent.length") > 0, (
                path
            )
            assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                f"{path} is wider than a phone"
            )
            await until(lambda: has_painted(browser), what=path)
        unwanted = [problem for problem in browser.problems if "404" not in problem]
        assert unwanted == []


async def has_painted(browser: BrowserPage) -> bool:
    return bool(
        await browser.evaluate("performance.getEntriesByName('first-contentful-paint').length")
    )


async def test_now_updates_by_itself_draws_its_charts_and_is_not_read_for_while_its_tab_is_hidden(
    console: Console,
) -> None:
    async with a_browser() as browser:
        await browser.show(console.url + "/")
        await until(
            lambda: browser.evaluate("document.getElementById('live').dataset.live === 'on'")
        )
        for _ in range(3):
            await console.server.sampler.take_sample()
        await until(
            lambda: browser.evaluate("document.querySelectorAll('.chart canvas').length === 2")
        )
        assert (
            await browser.evaluate(
                "document.querySelector('#tiles div:nth-child(6) strong').textContent.trim()"
            )
            == "1"
        )
        assert " s, on all routers" in await browser.evaluate(
            "document.getElementById('window').textContent"
        )
        await browser.evaluate(HIDE.replace("HIDDEN", "true"))
        await until(lambda: asyncio.sleep(0, console.server.feed.count == 0))
        assert "paused" in await browser.evaluate("document.getElementById('live').textContent")
        await browser.evaluate(HIDE.replace("HIDDEN", "false"))
        await until(lambda: asyncio.sleep(0, console.server.feed.count == 1))
        await console.server.sampler.take_sample()
        await until(
            lambda: browser.evaluate(
                "document.getElementById('live').textContent.startsWith('live, ')"
            )
        )
        assert browser.problems == []


async def test_without_scripts_a_table_is_sorted_filtered_and_exported_by_links(
    console: Console,
) -> None:
    async with a_browser() as browser:
        await browser.show(console.url + "/dead-letters", has_scripts=False)
        page = await browser.call("DOM.getDocument")
        links = await browser.call(
            "DOM.querySelectorAll",
            nodeId=page["root"]["nodeId"],
            selector="th a, .exports a, form button",
        )
        assert len(links["nodeIds"]) == 10


@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
async def test_axe_finds_nothing_serious_on_one_page_of_each_kind(
    console: Console, jetstream: JetStream, settings: Settings
) -> None:
    await read_by_axe(
        console,
        jetstream,
        settings,
        list(zip(("/", "/dead-letters", "/dead-letters/1"), LOOKS, strict=False)),
    )


@pytest.mark.matrix
@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
async def test_axe_finds_nothing_serious_on_any_page_in_any_look(
    console: Console, jetstream: JetStream, settings: Settings
) -> None:
    await read_by_axe(
        console, jetstream, settings, list(itertools.product((*ADDRESSES, *OTHER_VIEWS), LOOKS))
    )


@pytest.mark.matrix
@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
async def test_axe_finds_nothing_serious_on_the_pages_of_who_may_write(
    jetstream: JetStream, settings: Settings
) -> None:
    """And on the other pages with their forms."""
    await fill_console(jetstream, settings, SOME_OF_ALL)
    async with (
        a_console(writing(settings.nats.url[0])) as console,
        a_browser() as browser,
    ):
        await until(lambda: asyncio.sleep(0, console.server.link.hears_since is not None))
        run = console.server.runs.add(
            "Replay", "1 dead letter", "me", None, lambda _: asyncio.sleep(0, {"sent": 1})
        )
        await browser.show(console.url + "/login?next=/doctor")
        await browser.evaluate(LOG_IN)
        await until(
            lambda: browser.evaluate("document.querySelector('h1')?.textContent.includes('Doctor')")
        )
        addresses = [path.replace("{run}", run.name) for path in (*MEND_ADDRESSES, *ADDRESSES[1:])]
        await read_views(browser, console, list(itertools.product(addresses, LOOKS)))


async def read_by_axe(
    console: Console,
    jetstream: JetStream,
    settings: Settings,
    views: list[tuple[str, dict[str, Any]]],
) -> None:
    """Each page in each look, with data on it."""
    await fill_console(jetstream, settings, SOME_OF_ALL)
    async with a_browser() as browser:
        await read_views(browser, console, views)


async def read_views(
    browser: BrowserPage, console: Console, views: list[tuple[str, dict[str, Any]]]
) -> None:
    axe = await asyncio.to_thread(AXE.read_text)
    for path, look in views:
        await browser.show(console.url + path, **look)
        await browser.evaluate(axe + ";0")
        found = await browser.evaluate(RUN_AXE)
        assert [one for one in found if one[1] in ("serious", "critical")] == [], (path, look)
