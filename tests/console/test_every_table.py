"""Every table of the console: its addresses, its files, its command."""

import asyncio
import csv
import html
import io
import re
import threading
from typing import Any

import pytest
from jinja2 import Environment

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.shell.pages import PAGES as SPECS
from router.shell.rendering import _environment
from tests.support.console import Console, a_console
from tests.support.console_data import ConsoleData, fill_console
from tests.support.console_pages import ADDRESSES
from tests.support.waiting import until

SOME_OF_ALL = ConsoleData(
    letters=6, groups=6, violations=6, policies=6, assignments=6, extensions=4
)
WITHOUT_TABLE = {
    "/",
    *(
        one
        for one in ADDRESSES
        if one.startswith(("/dead-letters/", "/contract/1", "/assignments/"))
    ),
}
TABLES = (*(one for one in ADDRESSES if one not in WITHOUT_TABLE), "/dead-letters?show=each")
# no worker, no tables, no router
EMPTY_HERE = {
    "/workers",
    "/usage",
    "/extensions/providers",
    "/now/answers",
    "/now/work",
    "/now/alerts",
}
NAMED = {
    "/decisions",
    "/dead-letters",
    "/dead-letters/{sequence}",
    "/contract",
    "/policies",
    "/policies/{tenant}/{policy}",
} | {"/extensions", "/assignments", "/usage", "/doctor"}


def test_the_pages_have_the_addresses_that_they_were_promised_to_have() -> None:
    assert {re.sub(r"[:]\w+}", "}", spec.path) for spec in SPECS} >= NAMED


async def test_every_table_is_sorted_filtered_and_exported_by_its_address_and_shows_its_command(
    settings: Settings, jetstream: JetStream
) -> None:
    await fill_console(jetstream, settings, SOME_OF_ALL)
    async with a_console(settings) as console:
        await until(lambda: console.server.link.workers_cause == "")
        await console.server.sampler.take_sample()  # a page of Now waits for one, but not long
        # some wait a second for a router that is not there
        await asyncio.gather(*(check_page(console, path) for path in TABLES))


async def check_page(console: Console, path: str) -> None:
    page = await console.read(f"{path}{'&' if '?' in path else '?'}limit=2")
    # no command shows a table of Now alone
    assert path.startswith("/now/") or 'data-copy="router ' in page, path
    if path not in EMPTY_HERE:
        await check_table(console, path, page)


async def check_table(console: Console, path: str, page: str) -> None:
    more = path + ("&" if "?" in path else "?")
    *_, last = (html.unescape(href) for href in re.findall(r'<th [^>]*><a href="([^"]*)"', page))
    assert "aria-sort=" in await console.read(f"{path.partition('?')[0]}{last}&limit=2"), (
        path,
        last,
    )
    rows = await console.export(path)
    file = (await console.get(f"{more}format=csv")).text
    assert 0 < len(rows) == len(list(csv.DictReader(io.StringIO(file)))), path
    assert "No row matches" in await console.read(f"{more}q=no-cell-has-this"), path


async def test_no_template_is_compiled_in_a_thread(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that are compiled at once end as a failure of the page."""
    threads = set[threading.Thread]()

    def compile_here(*given: Any, **options: Any) -> Any:
        threads.add(threading.current_thread())
        return compile_template(*given, **options)

    compile_template = Environment.compile
    monkeypatch.setattr(Environment, "compile", compile_here)
    _environment.cache_clear()
    async with a_console(settings) as console:
        await asyncio.gather(
            *(console.read(path) for path in ("/doctor/settings", "/contract/rules"))
        )
    assert threads == {threading.main_thread()}
