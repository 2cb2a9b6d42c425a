"""No page of the console is forgotten: each has an address that axe, the pictures and the
measurements walk, and shows a thing there.
"""

import asyncio
import re
from pathlib import Path

import pytest

from router.config import Settings
from router.delivery.wire.api import JetStream
from tests.support.console import a_console
from tests.support.console_data import ConsoleData, fill_console
from tests.support.console_login import Browser, writing
from tests.support.console_pages import (
    ADDRESSES,
    MEND_ADDRESSES,
    MEND_EXAMPLES,
    OTHER_VIEWS,
    find_address,
    list_mend_paths,
    name_picture,
)
from tests.support.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
LOOKS = ("light", "dark", "phone")


async def test_every_address_shows_its_page(settings: Settings, jetstream: JetStream) -> None:
    await fill_console(
        jetstream,
        settings,
        ConsoleData(letters=2, groups=2, violations=2, policies=1, assignments=1, extensions=1),
    )
    async with a_console(writing(settings.nats.url[0])) as console:
        await until(lambda: asyncio.sleep(0, console.server.link.hears_since is not None))
        browser = Browser(console)
        await browser.log_in()
        run = console.server.runs.add(
            "Replay", "1 dead letter", "me", None, lambda _: asyncio.sleep(0, {"sent": 1})
        )
        addresses = [
            address.replace("{run}", run.name) for address in (*ADDRESSES, *MEND_ADDRESSES)
        ]
        # some wait a second for a router that is not there
        pages = await asyncio.gather(*map(browser.read, addresses))
        assert [
            address for address, page in zip(addresses, pages, strict=True) if "<h1>" not in page
        ] == []


def test_a_page_without_an_address_is_named() -> None:
    assert find_address("/new") == "/new"
    with pytest.raises(LookupError, match=re.escape("/new/{thing}")):
        find_address("/new/{thing}")


def test_every_page_of_who_may_write_is_among_them() -> None:
    assert MEND_EXAMPLES.keys() <= set(list_mend_paths())
    assert "/dead-letters/runs" in MEND_ADDRESSES


@pytest.mark.parametrize("address", [*ADDRESSES, *OTHER_VIEWS])
def test_every_page_is_pictured(address: str) -> None:
    page = (DOCS / "how-to" / "console-pictures.md").read_text()
    for look in LOOKS:
        file = f"{name_picture(address)}.{look}.webp"
        assert (DOCS / "pictures" / "console" / file).exists(), (
            f"python -m tests.console.pictures docs/pictures/console '{address}'"
        )
        assert f"../pictures/console/{file}" in page
