"""One tenant sends more than the router can answer: it hears so at once, and the other tenants are
answered as ever.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.policy import a_document
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    ask,
    has_metric,
    is_settled,
    make_topology,
    read_metric,
    wrap_decide_handler,
)
from tests.support.waiting import until

BACKLOG, MORE = 700, 700
PLACES = 128  # of the queue for passing copies, of which one tenant gets half
STORED_BEFORE = 1_000  # requests of the flood, two seconds of work
# of one request of the flood, in seconds of the processor: a busy machine slows it down as it does
# everything else
WORK_S = 0.002
# tenants of shared policies that were never seen would share one place
KNOWN = "acme=1,flood=1"


def _busy(handle: Handler) -> Handler:
    """The flood's requests take their time, as those of a machine that is too small do."""

    def slow(message: Message) -> Outcome | Awaitable[Outcome]:
        if b"flood" in message.data:
            until_s = time.thread_time() + WORK_S
            while time.thread_time() < until_s:
                pass
        return handle(message)

    return slow


@pytest.fixture
def settings(nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    wrap_decide_handler(monkeypatch, _busy)
    return settings_for(
        nats_url, prefix, admission__overloaded_after_ms=200, admission__tenant_weights=KNOWN
    )


class Flood:
    """Requests of one tenant, or each of another, and the answers to them."""

    def __init__(
        self, nc: Client, settings: Settings, inboxes: Inboxes, *, is_made_up: bool = False
    ) -> None:
        self._is_made_up = is_made_up
        self._nc = nc
        self._settings = settings
        self.inboxes = inboxes
        self.published = 0

    @property
    def unanswered(self) -> int:
        return self.published - len(self.inboxes)

    async def grow(self, count: int) -> None:
        for number in range(self.published, self.published + count):
            name = f"flood-{number}"
            body = a_request(name, tenant_id=name if self._is_made_up else "flood")
            await self.inboxes.publish(self._nc, self._settings, number, body)
        self.published += count
        await self._nc.flush()

    async def grow_until_overloaded(self, *https: str) -> None:
        """At each look at least BACKLOG wait: on a busy machine the first ones are done before the
        metrics are read.
        """

        async def look() -> bool:
            await self.grow(max(0, BACKLOG - self.unanswered))
            return all([await has_metric(http, "router_overloaded", 1) for http in https])

        await until(look)


def _outcomes(inboxes: Inboxes) -> Counter[str]:
    answers = [json.loads(data) for answers in inboxes.heard.values() for data in answers]
    return Counter("decided" if answer["ok"] else answer["error"]["code"] for answer in answers)


async def test_a_tenant_that_floods_is_told_so_and_the_others_are_answered_before_its_backlog(
    nc: Client, settings: Settings
) -> None:
    inboxes = await Inboxes.under(nc, "flood")
    flood = Flood(nc, settings, inboxes)
    async with a_router(settings) as router:
        await flood.grow_until_overloaded(router.ready.http)
        await flood.grow(MORE)
        for number in range(20):
            answer = await ask(nc, settings, a_request(f"quiet-{number}"))
            assert answer["ok"], answer
        await until(lambda: is_settled(nc, settings), within_s=30)
        await until(lambda: not flood.unanswered, within_s=10)
        outcomes = _outcomes(inboxes)
        assert set(outcomes) == {"decided", "overloaded"}
        assert outcomes.total() == flood.published
        assert max(len(answers) for answers in inboxes.heard.values()) == 1
        refused = [
            json.loads(data)
            for answers in inboxes.heard.values()
            for data in answers
            if b"overloaded" in data
        ]
        assert all(
            answer["error"]["details"]["retry_after_ms"] >= 100 and answer["context"]["request_id"]
            for answer in refused
        )
        await until(lambda: has_metric(router.ready.http, "router_overloaded", 0))
        assert (await ask(nc, settings, a_request("flood-later", tenant_id="flood")))["ok"]


async def test_a_flood_under_made_up_tenants_is_one_flood_and_a_known_tenant_is_answered_before_it(
    nc: Client, settings: Settings
) -> None:
    """Each of them would have had a turn before the next request of the known one."""
    flood = Flood(nc, settings, await Inboxes.under(nc, "flood"), is_made_up=True)
    async with a_router(settings) as router:
        await flood.grow_until_overloaded(router.ready.http)
        for number in range(10):
            await flood.grow(max(0, BACKLOG - flood.unanswered))
            answer = await ask(nc, settings, a_request(f"quiet-{number}"))
            assert answer["ok"], answer
            assert flood.unanswered > BACKLOG / 4
        await until(lambda: not flood.unanswered, within_s=30)
        assert set(_outcomes(flood.inboxes)) <= {"decided", "overloaded"}
        await until(lambda: has_metric(router.ready.http, "router_overloaded", 0))
        made_up = a_request("made-up-later", tenant_id="flood-0")
        for later in (made_up, a_request("quiet-later")):
            assert (await ask(nc, settings, later))["ok"]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    shelf = tmp_path / "flood"
    shelf.mkdir()
    for name, sections in (("default", {}), ("urgent", {"priority": "high"})):
        (shelf / f"{name}.json").write_text(json.dumps(a_document(**sections)))
    return tmp_path


async def test_requests_of_high_priority_are_answered_before_what_their_own_tenant_floods_with(
    nc: Client, nats_url: str, prefix: str, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap_decide_handler(monkeypatch, _busy)
    settings = settings_for(
        nats_url,
        prefix,
        admission__overloaded_after_ms=200,
        admission__queue=PLACES,
        admission__tenant_weights=KNOWN,
    )
    flood = Flood(nc, settings, await Inboxes.under(nc, "flood"))
    async with a_router(settings, policies) as router:
        await flood.grow_until_overloaded(router.ready.http)
        for number in range(10):
            await flood.grow(PLACES)
            answer = await ask(
                nc, settings, a_request(f"urgent-{number}", tenant_id="flood", policy_id="urgent")
            )
            assert answer["ok"], answer
            assert flood.unanswered


async def test_requests_of_a_quiet_tenant_that_are_stored_behind_a_flood_are_answered_before_most_of_it(
    nc: Client, settings: Settings
) -> None:
    """No router heard them: the stream is all that is known of them."""
    await make_topology(settings)
    flood, quiet = await Inboxes.under(nc, "flood"), await Inboxes.under(nc, "quiet")
    for number in range(STORED_BEFORE):
        await flood.publish_named(
            nc, settings, number, a_request(f"flood-{number}", tenant_id="flood")
        )
    for number in range(10):
        await quiet.publish_named(nc, settings, f"q-{number}", a_request(f"quiet-{number}"))
    await nc.flush()
    async with a_router(settings):
        await until(lambda: len(quiet) == 10, within_s=30)
        answered_before = len(flood)
    assert all(json.loads(answer)["ok"] for answers in quiet.heard.values() for answer in answers)
    # some two hundred: what is in flight when the backlog is found deep, and the turns of ten
    assert answered_before < STORED_BEFORE / 2


async def test_two_routers_share_what_passes_by_and_the_others_are_answered(
    nc: Client, settings: Settings
) -> None:
    flood = Flood(nc, settings, await Inboxes.under(nc, "flood"))
    async with a_router(settings) as one, a_router(settings) as two:
        await flood.grow(MORE)
        await flood.grow_until_overloaded(one.ready.http, two.ready.http)
        answers = await asyncio.gather(
            *(ask(nc, settings, a_request(f"quiet-{number}")) for number in range(10))
        )
        assert all(answer["ok"] for answer in answers), answers
        live = [
            await read_metric(router.ready.http, "router_live_requests_total", outcome="answered")
            for router in (one, two)
        ]
        assert sum(live) <= 10 + flood.published  # no request is taken twice


async def test_a_request_whose_requester_left_is_answered_without_work_unless_it_is_to_be_pushed(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, admission__patience_ms=1)
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, "late")
    await inboxes.publish_named(nc, settings, "asked")
    await inboxes.publish_named(nc, settings, "pushed", a_request("pushed", push_assignment=True))
    await nc.flush()
    async with a_router(settings):
        await until(lambda: len(inboxes) == 2)
    asked, pushed = (json.loads(inboxes.answers(name)[0]) for name in ("asked", "pushed"))
    assert asked["error"]["code"] == "expired"
    assert pushed["ok"]
