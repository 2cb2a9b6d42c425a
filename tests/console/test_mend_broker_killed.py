"""The broker is killed in a replay of the console: the pages say what is known and when it was, and
the next replay finishes it.
"""

import asyncio
import re
import sys

import pytest

from router.config.connect import connect_by
from router.core.errors import RouterError
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import apply
from router.operate.topology.declared_topology import declare_topology
from router.shell.broker_link import BrokerLink
from tests.console.test_mend_killed import prove_each_once, store_many
from tests.support.broker import Broker
from tests.support.console import Console, a_console
from tests.support.console_login import Browser, writing
from tests.support.waiting import until

LETTERS = 300  # three handfuls: it dies in the second
RUN = re.compile(r'href="(/dead-letters/runs/[^"]+)"')


OTHER_POINTS = (("replay_posted", 100), ("replay_removed", 200))


@pytest.mark.parametrize(
    ("where", "looked"),
    [
        ("replay_proven", 100),
        *(pytest.param(*one, marks=pytest.mark.matrix) for one in OTHER_POINTS),
    ],
)
async def test_a_replay_whose_broker_is_killed_says_so_and_is_finished_by_the_next(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch, where: str, looked: int
) -> None:
    settings = writing(own_broker.url)
    connection = await connect_by(settings.nats)
    jetstream = JetStream(connection)
    await apply(jetstream, declare_topology(settings))
    await store_many(jetstream, settings, LETTERS)
    kill_at_second(own_broker, where, monkeypatch)
    async with a_console(settings) as console:
        await until(lambda: is_connected(console))
        browser = Browser(console)
        await browser.log_in()
        first = await replay_all(browser)
        await until(lambda: has_ended(browser, first))
        page = await browser.read(first)
        assert "It ended early" in page
        assert f"{looked} of {LETTERS} dead letters looked at" in page
        assert re.search(r"failed</span> as of <time>[-0-9]{10} [:0-9]{8} UTC", page)
        assert "This is what was known at" in await browser.read("/dead-letters")
        monkeypatch.undo()
        own_broker.start()
        await until(lambda: is_connected(console))
        second = await replay_all(browser)
        await until(lambda: has_ended(browser, second))
        assert ">done<" in await browser.read(second)
    await until(lambda: asyncio.sleep(0, connection.is_connected))
    await prove_each_once(jetstream, settings, LETTERS)
    await connection.close()


def kill_at_second(broker: Broker, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process that is killed would die, for the second time that a replay comes there; what
    is awaited then does not come.
    """
    replay, publishers, discard = (
        sys.modules[f"router.operate.dead_letters.{name}"]
        for name in ("replay", "publishers", "discard")
    )
    seen: list[str] = []
    opened: list[JetStream] = []

    def open_jetstream(link: BrokerLink) -> JetStream:
        opened.append(JetStream(link.connection()))
        return opened[-1]

    def come(point: str) -> None:
        seen.append(point)
        if point == where and seen.count(where) == 2:
            broker.kill()
            for one in opened:
                monkeypatch.setattr(one, "_timeout_s", 0.1)
            monkeypatch.setattr(discard, "PATIENCE_S", 0.1)
            monkeypatch.setattr(publishers, "PUBLISH_TIMEOUT_S", 0.1)

    monkeypatch.setattr(BrokerLink, "jetstream", open_jetstream)
    monkeypatch.setattr(replay, "crashpoint", come)
    monkeypatch.setattr(publishers, "crashpoint_sent", come)


async def is_connected(console: Console) -> bool:
    try:
        return console.server.link.connection() is not None
    except RouterError:
        return False


async def replay_all(browser: Browser) -> str:
    """The address of the run."""
    await until(lambda: has_form(browser))
    form = {"all": "yes", "note": "after the fix"}
    sent = await browser.submit("/dead-letters", "/dead-letters/replay", form)
    assert sent.status_code == 303, sent.text
    return sent.headers["location"]


async def has_form(browser: Browser) -> bool:
    return (
        'name="all"' in (page := await browser.read("/dead-letters"))
        and "This is what was known" not in page
    )


async def has_ended(browser: Browser, run: str) -> bool:
    page = await browser.read(run)
    return ">waiting<" not in page and ">running<" not in page
