"""Streams and buckets vanish under a live router: where it makes its topology, all are back soon,
with what a start seeds.
"""

import asyncio

from nats.aio.client import Client

from router.config import Settings
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, is_ready, read_page
from tests.support.waiting import until

WITHIN_S = 30.0  # a busy machine; a quiet one has them back after one round of the comparison


async def test_a_broker_that_comes_back_empty_gets_streams_buckets_and_policies_again(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("before")))["ok"]
        made = await _list_streams(nc, settings)
        await asyncio.gather(*(nc.jsm().delete_stream(name) for name in made))
        await until(lambda: _are_back(nc, settings, made), within_s=WITHIN_S)
        await until(lambda: _has_keys(nc, settings.buckets.policies.name), within_s=WITHIN_S)
        await until(lambda: is_ready(router.ready.http), within_s=WITHIN_S)
        for push in (False, True):
            assert (await ask(nc, settings, a_request(f"after-{push}", push_assignment=push)))["ok"]


async def test_each_bucket_that_is_deleted_alone_comes_back(nc: Client, settings: Settings) -> None:
    async with a_router(settings) as router:
        made = {name for name in await _list_streams(nc, settings) if name.startswith("KV_")}
        for name in made:
            await nc.jsm().delete_stream(name)
        await until(lambda: _are_back(nc, settings, made), within_s=WITHIN_S)
        await until(lambda: is_ready(router.ready.http), within_s=WITHIN_S)
        assert (await ask(nc, settings, a_request("after", push_assignment=True)))["ok"]


async def test_a_bucket_that_was_deleted_is_named_where_the_router_makes_none(
    nc: Client, settings: Settings, nats_url: str, prefix: str
) -> None:
    async with a_router(settings):
        pass
    checking = settings_for(nats_url, prefix, topology="check")
    async with a_router(checking) as router:
        bucket = f"KV_{settings.buckets.attempts.name}"
        await nc.jsm().delete_stream(bucket)
        await until(
            lambda: _names(router.ready.http, f"stream {bucket} is missing"), within_s=WITHIN_S
        )


async def _names(http: str, text: str) -> bool:
    return text in (await read_page(http, "/readyz"))[1]


async def _has_keys(nc: Client, bucket: str) -> bool:
    return (await nc.jsm().stream_info(f"KV_{bucket}")).state.messages > 0


async def _list_streams(nc: Client, settings: Settings) -> set[str]:
    prefix = settings.streams.decide.name.removesuffix("DECIDE")
    return {
        one.config.name
        for one in await nc.jsm().streams_info()
        if one.config.name and prefix in one.config.name
    }


async def _are_back(nc: Client, settings: Settings, made: set[str]) -> bool:
    return made <= await _list_streams(nc, settings)
