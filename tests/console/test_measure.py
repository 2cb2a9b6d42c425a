"""What is measured of the console: a page with much data is whole and bounded in a browser; the
pages of the figures say what is late.
"""

from pathlib import Path

import pytest

from router.config import Settings
from router.delivery.wire.api import JetStream
from tests.console.measure.memory import MIB, MemoryCourse
from tests.console.measure.page import replace_part, write_memory, write_pages
from tests.console.measure.pages import PageTimes, measure_pages
from tests.console.measure.stage import Stage
from tests.support.browser import CHROMIUM, NO_CHROMIUM
from tests.support.console import Console, a_console, console_settings
from tests.support.console_data import PROVIDERS, TENANTS, ConsoleData, fill_console
from tests.support.console_signs import send_heartbeats, store_figures, write_usage
from tests.support.service import POLICIES, a_router
from tests.support.waiting import until


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
async def test_pages_with_much_data_are_bounded_and_begin_early(
    settings: Settings, jetstream: JetStream
) -> None:
    await fill_console(
        jetstream,
        settings,
        ConsoleData(letters=3_000, violations=300, policies=4, assignments=4, extensions=4),
    )
    async with a_console(settings, begin_after_s=0) as console:
        await until(lambda: console.server.link.hears_since is not None)
        stage = Stage(settings.nats.url[0], console.url, 0, {})
        groups, each = await measure_pages(stage, 1, ("/dead-letters", "/dead-letters?show=each"))
        assert (groups.rows, each.rows) == (40, 100)
        assert max(groups.bytes, each.bytes) < 200_000
        assert groups.painted_ms > [0]
        assert len(await console.export("/dead-letters?show=each")) == 1_000
        found = await console.export("/dead-letters?show=each&subject=beamline.router.v1.usage")
        assert len(found) == 375  # fewer than a list shows: every sequence is read


async def test_pages_of_what_no_stream_stores_have_rows(
    settings: Settings, jetstream: JetStream, tmp_path: Path
) -> None:
    """Workers, providers, usage: as the measurement fills them."""
    write_usage(tmp_path, days=2)
    served = console_settings(
        settings.nats.url[0], policies__dir=POLICIES, console__warehouse=str(tmp_path)
    )
    async with a_router(served), a_console(served) as console:
        await until(lambda: console.server.link.workers_cause == "")
        await store_figures(jetstream, served, providers=3)
        await send_heartbeats(jetstream, workers=7)
        for path, rows in (
            ("/workers", 7),
            ("/extensions/providers", 3 * len(TENANTS)),
            ("/usage", 2 * len(TENANTS) * len(PROVIDERS)),
        ):
            await until(lambda path=path, rows=rows: has_rows(console, path, rows), what=path)


async def has_rows(console: Console, path: str, rows: int) -> bool:
    return len(await console.export(path)) == rows


def test_what_is_later_than_promised_is_bold() -> None:
    late, soon = (
        PageTimes("/late", [310.0], [900.0], 2048, 3),
        PageTimes("/soon", [90.0, 500.0, 80.0], [90.0, 90.0, 90.0], 1024, 3),
    )
    page = write_pages({"CPU": "two"}, {"ROUTER_DLQ": 100_000}, 3, [late, soon])
    assert "| `/late` | 3 | 2 | **310** (310) | 900 (900) |" in page
    assert "| `/soon` | 3 | 1 | 90 (500) | 90 (90) |" in page
    assert "* ROUTER_DLQ: 100,000 messages" in page
    assert (late.is_soon, soon.is_soon) == (False, True)


@pytest.mark.parametrize(("last", "verdict"), [(102, "It is flat."), (110, "**It is not flat.**")])
def test_memory_is_flat_if_the_last_quarter_is_as_the_second(last: int, verdict: str) -> None:
    held = [
        (15.0 * number, size * MIB)
        for number, size in enumerate([10] * 4 + [100] * 4 + [101] * 4 + [last] * 4)
    ]
    page = write_memory({}, {}, MemoryCourse(held, events=5, reads=16))
    assert verdict in page
    assert "| start | 10.0 |\n| 1 | 10.0 |\n" in page
    assert f"quarters: 10.0, 100.0, 101.0, {last}.0." in page


def test_the_slope_is_that_of_the_second_half() -> None:
    held = [(60.0 * minute, (100 + max(0, minute - 30)) * MIB) for minute in range(61)]
    assert round(MemoryCourse(held, events=0, reads=61).slope, 6) == 60.0


def test_one_file_keeps_the_part_that_is_not_written() -> None:
    memory = write_memory(
        {}, {}, MemoryCourse([(float(number), MIB) for number in range(8)], events=5, reads=8)
    )
    again = memory.replace("5 events", "6 events")
    assert replace_part("# Pages\n\nold\n", memory) == f"# Pages\n\nold\n\n{memory}"
    assert (
        replace_part(f"# Pages\n\nold\n\n{memory}", "# Pages\n\nnew\n")
        == f"# Pages\n\nnew\n\n{memory}"
    )
    assert replace_part(f"# Pages\n\nold\n\n{memory}", again) == f"# Pages\n\nold\n\n{again}"
    assert replace_part("", memory) == memory
