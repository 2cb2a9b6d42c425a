"""A leaf node that works alone: cut off from the hub with its router and its worker, and back
(docs/how-to/two-places.md#leaf).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import nats.errors
import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.usage import USAGE_SUBJECT
from router.sdk import ExecAssignment, StepResult, Worker
from tests.support.beside import beside
from tests.support.lake import Feed
from tests.support.pages import commands_of
from tests.support.places import (
    LEAF,
    PAGE,
    Places,
    client_at,
    settings_at,
    two_places,
    type_command,
    type_commands,
)
from tests.support.proxy import BOTH
from tests.support.router_streams import read_stream, read_usage
from tests.support.service import a_router
from tests.support.stories import Inboxes, a_request, make_topology, read_dead_letters
from tests.support.waiting import slack, until

TEN_MINUTES_S = 600.0
RATE = 5.0  # requests a second, in the long run
FOREIGN_EVERY = 5  # of so many requests one is of a tenant that is not allowed
ALLOWED = {"tenants_allowed": "acme", "assignment__tenants_allowed": "acme"}


async def test_what_is_asked_while_the_leaf_is_cut_off_is_answered_once_and_metered_once_in_the_hub() -> (
    None
):
    async def ask_all(leaf: LeafPlace) -> None:
        for number in range(20):
            await leaf.ask(f"cut-{number}")
        await until(leaf.has_all_answers)
        await until(lambda: leaf.has_usage_of_all(leaf.here))

    async with two_places(domain=LEAF) as places:
        await _rehearse(places, places.way.cut, ask_all)


@pytest.mark.slow
@pytest.mark.matrix
async def test_the_same_for_ten_minutes_without_either_server_being_told() -> None:
    """Nothing passes, and nothing is closed, as behind a firewall that forgot the connection;
    halfway, both servers start again.

    Slow: it lasts ten minutes.
    """

    async def ask_for_long(leaf: LeafPlace) -> None:
        began = time.monotonic()
        count = int(TEN_MINUTES_S * RATE)
        for number in range(count):
            if number == count // 2:
                await _restart_both(places, leaf)
            await leaf.ask(f"cut-{number}")
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))

    async with two_places(domain=LEAF) as places:
        await _rehearse(places, lambda: places.way.silence(*BOTH), ask_for_long)


async def test_a_plain_connection_stores_one_request_in_both_places() -> None:
    """The control: why deploy/nats/second-place.conf denies the router's subjects."""
    async with two_places(denies=False) as places:
        at_hub, at_leaf = settings_at(places.hub), settings_at(places.second)
        await make_topology(at_hub)
        await make_topology(at_leaf)
        async with client_at(places.hub) as hub, client_at(places.second) as leaf:
            await until(lambda: _is_joined(leaf, hub))
            await leaf.publish(at_leaf.decide.subject, a_request("once"))
            await until(lambda: read_stream(leaf, at_leaf.streams.decide.name))
            await until(lambda: read_stream(hub, at_hub.streams.decide.name))


class LeafPlace:
    """The leaf with a router and a worker at work, what is asked there, and the hub."""

    def __init__(self, settings: Settings, here: Client, hub: Client, inboxes: Inboxes) -> None:
        self.settings = settings
        self.here = here
        self.hub = hub
        self._inboxes = inboxes
        self._asked: list[str] = []

    async def ask(self, name: str) -> None:
        """A request that pushes an assignment; every fifth one must be refused."""
        is_foreign = len(self._asked) % FOREIGN_EVERY == FOREIGN_EVERY - 1
        self._asked.append(name)
        body = json.loads(a_request(name, push_assignment=True))
        body["message"]["tenant_id"] = "foreign" if is_foreign else "acme"
        await self._inboxes.publish_named(self.here, self.settings, name, json.dumps(body).encode())

    def has_all_answers(self) -> bool:
        return all(self._inboxes.answers(name) for name in self._asked)

    def outcomes(self) -> dict[str, list[bool]]:
        """What each request was answered: True for a decision, False for a refusal."""
        return {
            name: [json.loads(answer)["ok"] for answer in self._inboxes.answers(name)]
            for name in self._asked
        }

    def expected(self) -> dict[str, list[bool]]:
        """One answer each."""
        return {
            name: [number % FOREIGN_EVERY != FOREIGN_EVERY - 1]
            for number, name in enumerate(self._asked)
        }

    def metered_once(self) -> Counter[str]:
        return Counter({f"r-{name}": 1 for name, (is_ok,) in self.expected().items() if is_ok})

    async def has_usage_of_all(self, client: Client) -> bool:
        return (
            Counter(str(event["request_id"]) for event in await read_usage(client, self.settings))
            == self.metered_once()
        )


async def _rehearse(
    places: Places, cut: Callable[[], None], ask_meanwhile: Callable[[LeafPlace], Awaitable[None]]
) -> None:
    """The commands of the page, a cut while `ask_meanwhile` works at the leaf, and the ledger of
    both places.
    """
    async with _leaf_at_work(places) as leaf:
        await type_commands(places.hub, *commands_of(PAGE, "leaf"))
        await until(lambda: _is_called_connected(places))
        await leaf.ask("before")
        await until(lambda: leaf.has_usage_of_all(leaf.hub))

        cut()
        before = leaf.metered_once()
        await ask_meanwhile(leaf)
        assert {event["request_id"] for event in await read_usage(leaf.hub, leaf.settings)} == set(
            before
        )

        places.way.mend()
        mended = time.monotonic()
        await until(leaf.has_all_answers, within_s=30)
        await until(
            lambda: leaf.has_usage_of_all(leaf.hub),
            within_s=120,
            what="the usage events of the leaf in the hub",
        )
        print(
            f"asked {len(leaf.expected())}; all in the hub {time.monotonic() - mended:.1f} "
            "s after the connection was mended"
        )
        assert leaf.outcomes() == leaf.expected()
        assert await leaf.has_usage_of_all(leaf.here)
        assert (
            await asyncio.to_thread(_read_as_the_lake, places.hub.url, leaf.settings)
            == leaf.metered_once()
        )
        refused = [
            number
            for number, name in enumerate(leaf.expected())
            if leaf.expected()[name] == [False]
        ]
        assert len(await read_dead_letters(leaf.here, leaf.settings)) == len(refused)
        mirrored = leaf.settings.streams.dlq.name + "_LEAF"
        await until(lambda: _holds(leaf.hub, mirrored, len(refused)))
        for stream in (
            leaf.settings.streams.decide,
            leaf.settings.streams.assignments,
            leaf.settings.streams.dlq,
        ):
            assert await read_stream(leaf.hub, stream.name) == []


@asynccontextmanager
async def _leaf_at_work(places: Places) -> AsyncIterator[LeafPlace]:
    settings = settings_at(places.second, **ALLOWED)
    worker = Worker(places.second.url, _work, worker_id="w-1")
    async with (
        a_router(settings),
        client_at(places.second) as here,
        client_at(places.hub) as hub,
        beside(worker.work()),
    ):
        yield LeafPlace(settings, here, hub, await Inboxes.under(here, "asked"))


def _work(_: ExecAssignment) -> StepResult:
    return StepResult(output="done")


def _read_as_the_lake(url: str, settings: Settings) -> Counter[str]:
    """By the lake's own reader, on the hub's stream."""
    usage = Feed(url, settings.streams.usage.name)
    rows = usage.rows(1, usage.messages() + 1)
    return Counter(json.loads(row["data"])["request_id"] for row in rows)


async def _restart_both(places: Places, leaf: LeafPlace) -> None:
    for server in (places.hub, places.second):
        server.stop()
        server.start()
    await until(
        lambda: all(
            client.stats["reconnects"] and client.is_connected for client in (leaf.here, leaf.hub)
        )
    )


async def _is_called_connected(places: Places) -> bool:
    told = (await type_command(places.hub, "doctor", "--json")).lines
    return {"ok"} == {
        one["verdict"]
        for one in told
        if one["check"] == "ROUTER_USAGE of $JS.leaf.API in ROUTER_USAGE"
    }


async def _holds(client: Client, stream: str, messages: int) -> bool:
    return (await client.jsm().stream_info(stream)).state.messages == messages


async def _is_joined(one: Client, other: Client) -> bool:
    """Whether what `one` publishes reaches `other`, in another place."""
    subject = f"joined.{USAGE_SUBJECT}"
    subscription = await other.subscribe(subject)
    await other.flush()
    try:
        await one.publish(subject, b"")
        await subscription.next_msg(0.2 * slack())
    except nats.errors.TimeoutError:
        return False
    finally:
        await subscription.unsubscribe()
    return True
