"""Every table: sorted by each of its columns and searched by the address, exported as CSV and JSON, with its command."""

import csv
import html
import io
import re
from urllib.parse import parse_qs

from router.config import Settings
from router.delivery.api import JetStream
from tests.support.console import BELOW, PAGES, a_console
from tests.support.console_data import ConsoleData, fill_console
from tests.support.waiting import until

TABLES = ("/dead-letters?show=each", *(path for path in (*PAGES, *BELOW) if path != "/"))
WITHOUT_DATA = ("/workers", "/usage", "/extensions/providers")  # no router runs here; their pages' tests fill them


async def test_every_table_is_sorted_searched_and_exported_by_its_address(settings: Settings, jetstream: JetStream) -> None:
    await fill_console(jetstream, settings, ConsoleData(letters=30, groups=8, violations=12, policies=9, assignments=9, extensions=5))
    async with a_console(settings) as console:
        await until(lambda: console.server.link.hears_since is not None)
        for path in TABLES:
            page = html.unescape(await console.read(path))
            assert "The same in a terminal" in page, path
            assert 'data-copy="router ' in page, path
            if path in WITHOUT_DATA:
                continue
            exported = await console.export(path)
            separator = "&" if "?" in path else "?"
            text = (await console.get(f"{path}{separator}format=csv")).text
            assert len(list(csv.reader(io.StringIO(text)))) == len(exported) + 1 > 1, path
            sorts = {parse_qs(address)["sort"][0].removeprefix("-") for address in re.findall(r'<th [^>]*><a href="\?([^"]+)"', page)}
            assert sorts == set(next(csv.reader(io.StringIO(text)))), path
            for name in sorts:
                cells = [row[name] for row in await console.export(f"{path}{separator}sort={name}") if name in row]
                assert cells == sorted(cells, key=order), (path, name)
            assert await console.export(f"{path}{separator}q=no-such-cell") == []


def order(cell: object) -> tuple[bool, float, str]:
    return (False, cell, "") if isinstance(cell, int | float) else (True, 0.0, str(cell).casefold())
