"""A router is killed between the record of an attempt and its answer: is each call that its
provider heard metered, and once?
"""

import json
from collections.abc import Callable

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from router.config import Settings
from router.contracts.provider import INVOKE
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.store import ExtensionStore
from tests.support.delivery import connected
from tests.support.kills import (
    KillCount,
    KilledProcess,
    KillPlan,
    a_server,
    count_ids,
    kill_and_restart,
)
from tests.support.providers import an_entry, answers, serve_provider
from tests.support.router_streams import read_usage
from tests.support.service import names_for, settings_for
from tests.support.stories import Json, make_topology
from tests.support.waiting import until

UNFINISHED_MS = 500
TIMEOUT_MS = 500


async def count_billed(plan: KillPlan) -> list[KillCount]:
    async with a_server() as (url, nc):
        settings = settings_for(url, providers__unfinished_after_ms=UNFINISHED_MS)
        await make_topology(settings)
        await _register(settings, url)
        router = KilledProcess(
            {**names_for(url, "t"), "providers.unfinished_after_ms": UNFINISHED_MS}
        )
        async with serve_provider(nc, _answer) as heard:
            try:
                await kill_and_restart(
                    router, plan, lambda share: _invoke(nc, share, lambda: _is_alive(router))
                )
                await until(
                    lambda: _are_metered(nc, settings), within_s=60, what="no record stands"
                )
            finally:
                router.remove()
        return [_count(plan, heard, await read_usage(nc, settings))]


def _count(plan: KillPlan, heard: list[Msg], metered: list[Json]) -> KillCount:
    """What a router recorded and never asked is an estimate: it cannot tell whether its call was
    sent.
    """
    asked = [json.loads(message.data)["context"]["number"] for message in heard]
    billed = [str(event["request_id"]) for event in metered]
    unasked = {request_id for request_id in billed if request_id not in asked}
    estimated = {str(event["request_id"]) for event in metered if event.get("estimated")}
    counted = count_ids(
        plan,
        asked,
        [one for one in billed if one not in unasked],
        {"invented": len(unasked - estimated)},
    )
    return counted._replace(
        beside={"recorded and not asked": len(unasked), "estimates": len(estimated)}
    )


async def _answer(message: Msg) -> None:
    await answers(message)


async def _register(settings: Settings, url: str) -> None:
    async with connected(url) as connection:
        store = ExtensionStore(
            DocumentBucket(JetStream(connection), settings.buckets.extensions.name)
        )
        await store.put(an_entry(timeout_ms=TIMEOUT_MS), author="test")


async def _invoke(nc: Client, share: range, is_alive: Callable[[], bool]) -> None:
    """Each number once, without waiting for an answer: the router may be gone."""
    await until(lambda: _is_served_or_gone(nc, is_alive), within_s=60)
    for number in share:
        named = {"message_id": f"r-{number}", "metadata": {"number": f"r-{number}"}}
        body = json.dumps(
            {"provider_id": "echo", "tenant_id": "acme", "body": "hello", **named}
        ).encode()
        await nc.publish(INVOKE, body, reply=nc.new_inbox())
    await nc.flush()


async def _is_served_or_gone(nc: Client, is_alive: Callable[[], bool]) -> bool:
    return not is_alive() or await _is_served(nc)


async def _is_served(nc: Client) -> bool:
    """Whether a router refuses an invocation of a provider that there is none of."""
    try:
        refused = await nc.request(
            INVOKE,
            json.dumps({"provider_id": "other", "tenant_id": "acme", "body": ""}).encode(),
            timeout=0.5,
        )
    except (NoRespondersError, NatsTimeoutError):
        return False
    return json.loads(refused.data)["error_code"] == "extension_not_found"


def _is_alive(router: KilledProcess) -> bool:
    return router._process is not None and router._process.poll() is None


async def _are_metered(nc: Client, settings: Settings) -> bool:
    info = await nc.jsm().stream_info(f"KV_{settings.buckets.invocations.name}")
    return info.state.messages == 0
