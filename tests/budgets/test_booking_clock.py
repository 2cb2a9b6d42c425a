"""The settlement reads the server's clock: when it begins, and in each round, or it would settle a
stream that is no longer there.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from router.budgets.budgets import Budgets
from router.config import Settings
from router.delivery.wire.api import JetStream
from router.operate.alerts import Alerts
from tests.support.delivery import connected
from tests.support.made_anew import create_stream, delete_streams
from tests.support.service import settings_for
from tests.support.waiting import until


class HeldSteady:
    """A steady clock that only the test moves."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


class Settling:
    """The settlement of one instance, with a budget to settle, over a usage stream of the test's
    own.
    """

    def __init__(self, jetstream: JetStream, settings: Settings) -> None:
        self.jetstream = jetstream
        self.stream = settings.streams.usage.name
        self.steady = HeldSteady()
        self.budgets = Budgets(jetstream, settings, Alerts("test", 60.0), now=self.steady)
        self.budgets.table.tenants["acme"] = None  # type: ignore[assignment]  # there is a budget: rounds are worth it

    async def make_stream(self) -> None:
        await delete_streams(self.jetstream, [self.stream])
        await create_stream(self.jetstream, self.stream, {"subjects": [self.stream]})

    async def read_created(self) -> str:
        info = await self.jetstream.stream(self.stream)
        assert info is not None
        return str(info["created"])

    @property
    def place_created(self) -> str:
        return self.budgets.booking._place.created

    @property
    def is_settling(self) -> bool:
        return self.budgets.booking._reader is not None


@pytest.fixture
async def settling(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Settling]:
    settings = settings_for(nats_url, prefix)
    buckets = settings.buckets.budgets.name, settings.buckets.budgets_spent.name
    async with connected(nats_url) as connection:
        for name in buckets:
            await nc.jetstream().create_key_value(bucket=name)
        settling = Settling(JetStream(connection), settings)
        await settling.make_stream()
        yield settling
        await settling.budgets.booking._stop()
        await settling.jetstream.ask(f"STREAM.DELETE.{settling.stream}")
        for name in buckets:
            await nc.jetstream().delete_key_value(name)


async def test_one_that_begins_knows_the_stream_that_is_there_now(settling: Settling) -> None:
    """Its clock was read a moment ago, with the info of the stream before."""
    await settling.budgets.clock.read()
    await asyncio.sleep(0)
    await settling.make_stream()
    await settling.budgets.booking._try_round()
    assert settling.is_settling, "it did not stop at once, and begin again, and again"
    assert (
        settling.budgets.clock.stream_created
        == settling.place_created
        == await settling.read_created()
    )


async def test_each_round_looks_whether_the_stream_was_made_anew(settling: Settling) -> None:
    """The info of a stream that is not the one that is settled, ten seconds after the last: the
    reader has noticed nothing.
    """
    settlement = settling.budgets.booking
    await settlement._try_round()
    assert settling.is_settling
    settlement._place = type(settlement._place)("another", 0, 0)
    settling.budgets.clock.stream_created = "another"
    await settlement._try_round()
    assert settling.is_settling, "within ten seconds the answer is not asked for again"
    settling.steady.at += 11.0
    await settlement._try_round()
    assert not settling.is_settling
    settling.steady.at += 11.0  # the lease of the one before, which was this, is over
    await until(lambda: begin_again(settling), within_s=10)
    assert settling.place_created == await settling.read_created()


async def begin_again(settling: Settling) -> bool:
    settling.steady.at += 1.0
    await settling.budgets.booking._try_round()
    return settling.is_settling
