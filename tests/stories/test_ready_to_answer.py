"""A router is ready when it can answer: not before its listener hears the inbox of every request
that is stored.
"""

import asyncio

import pytest
from nats.aio.client import Client

from router.delivery.replies.listen import Listener
from router.serve.service import Ready, RouterService
from tests.support.beside import beside
from tests.support.service import POLICIES, settings_for
from tests.support.stories import a_request, ask
from tests.support.waiting import until


async def test_a_router_is_not_ready_before_its_listener_knows_what_it_hears(
    nats_url: str, prefix: str, nc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a request of which the listener does not know that it heard it waits for no
    inbox: the requester may hear nothing.
    """
    learn, may_learn = Listener._learn, asyncio.Event()

    async def learn_late(listener: Listener) -> None:
        await may_learn.wait()
        await learn(listener)

    monkeypatch.setattr(Listener, "_learn", learn_late)
    settings, ready = settings_for(nats_url, prefix), asyncio.Event()
    service = RouterService(settings, policies_dir=POLICIES)

    def on_ready(_: Ready) -> None:
        ready.set()

    async with beside(service.run(on_ready)):
        await until(lambda: _failing_checks(service) <= {"listener"})
        assert _failing_checks(service) == {"listener"}
        assert not ready.is_set()
        may_learn.set()
        await until(ready.is_set)
        assert (await ask(nc, settings, a_request(1)))["ok"]


def _failing_checks(service: RouterService) -> set[str]:
    return {name for name, check in service.readiness().items() if not check.ok}
