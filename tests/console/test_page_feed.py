"""The page Now for browsers that stay: bounded, and slow ones are dropped."""

import asyncio
from collections.abc import AsyncIterator

from router.console.page_feed import PageFeed


async def begin(
    feed: PageFeed,
) -> tuple[AsyncIterator[dict[str, str]], "asyncio.Task[dict[str, str]]"]:
    """A browser that waits for its first event."""
    events = feed.follow()
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    return events, waiting


async def test_a_browser_gets_each_fragment() -> None:
    feed = PageFeed(2)
    events, waiting = await begin(feed)
    feed.publish("one")
    assert await waiting == {"event": "now", "data": "one"}
    feed.publish("two")
    assert (await anext(events))["data"] == "two"
    feed.close()
    assert [event async for event in events] == []
    assert feed.count == 0


async def test_one_that_does_not_take_its_event_is_dropped_and_the_others_go_on() -> None:
    feed = PageFeed(2)
    slow, first = await begin(feed)
    quick, also_first = await begin(feed)
    assert feed.is_full
    feed.publish("1")
    await first
    await also_first
    feed.publish("2")
    assert (await anext(quick))["data"] == "2"
    feed.publish("3")
    assert feed.count == 1
    assert (await anext(quick))["data"] == "3"
    assert [event async for event in slow] == []


async def test_one_that_goes_makes_room() -> None:
    feed = PageFeed(1)
    _, waiting = await begin(feed)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert not feed.is_full
