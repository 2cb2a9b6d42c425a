"""An operator lowers a limit of the server under running processes: only what does not fit any more
is refused, and that by name.
"""

import itertools
import json

from nats.aio.client import Client
from nats.errors import TimeoutError as NoAnswer

from router.config import Settings
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    a_request,
    ask,
    expect_others_to_be_answered,
    is_ready,
    is_settled,
    make_topology,
    read_dead_letters,
)
from tests.support.waiting import until

OTHERS = 13
LOWERED = 20_000  # bytes


def _settings(url: str, **more: object) -> Settings:
    return settings_for(
        url, "lowered", effects__retry_ms=50, effects__patience_ms=500, topology="check", **more
    )


async def test_an_assignment_above_a_lowered_max_payload_is_told_and_no_other_request_waits(
    nc: Client, broker: Broker
) -> None:
    """The server tells a connected client nothing of it: it closes the connection of one that sends
    more.
    """
    settings = _settings(broker.url)
    await make_topology(settings)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("before", push_assignment=True)))["ok"]
        broker.reload(max_payload=LOWERED)
        await until(
            lambda: broker.logged("Reloaded: max_payload"),
            what="the server has read its configuration",
        )
        answer = await ask(nc, settings, _just_fits(), timeout_s=60)
        assert (answer["error"]["code"], answer["error"]["details"]["cause"]) == (
            "cannot_be_stored",
            "too_large",
        )
        await expect_others_to_be_answered(nc, settings, OTHERS)
        await until(lambda: is_settled(nc, settings))
        [letter] = await read_dead_letters(nc, settings)
        assert letter["last_error"]["code"] == "too_large"
        await until(lambda: is_ready(router.ready.http))


def _just_fits() -> bytes:
    """A request that the server takes, whose assignment it does not."""
    body = json.loads(a_request("large", push_assignment=True))
    body["message"]["payload"] = "x" * (LOWERED - 400)
    return json.dumps(body).encode()


async def test_requests_are_answered_while_the_account_may_store_nothing_more() -> None:
    """Its streams hold more than the lowered limit of their account, so each of them refuses,
    without a word where it is `no_ack`.
    """
    with Broker(_account("1GB")) as broker:
        async with await connect_patiently(broker.url) as nc:
            await _lower_the_store(nc, broker)


async def _lower_the_store(nc: Client, broker: Broker) -> None:
    unreserved = {
        f"streams__{name}__max_bytes": -1
        for name in type(_settings(broker.url).streams).model_fields
    }
    settings = _settings(broker.url, **unreserved)
    unreserved |= {
        f"buckets__{name}__max_bytes": -1 for name in type(settings.buckets).model_fields
    }
    settings = _settings(broker.url, **unreserved)
    await make_topology(settings)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("before", push_assignment=True)))["ok"]
        broker.reload(_account("1KB"))
        await until(
            lambda: broker.logged("Reloaded: accounts"),
            what="the server has read its configuration",
        )
        await until(
            lambda: _is_answered(nc, settings, "meanwhile"),
            within_s=20,
            what="a plain request is answered",
        )
        await expect_others_to_be_answered(nc, settings, OTHERS)
        pushed = await ask(nc, settings, a_request("pushed", push_assignment=True))
        assert pushed["error"]["code"] == "overloaded"
        assert not await is_ready(router.ready.http)
        broker.reload(_account("1GB"))
        await until(
            lambda: _is_stored(nc, settings), within_s=30, what="an assignment is stored again"
        )
        await until(lambda: is_ready(router.ready.http), within_s=30)


def _account(room: str) -> str:
    users = '[ { user: "a", password: "a" } ]'
    return (
        f"accounts {{ A {{ jetstream: {{ max_file: {room} }}, users: {users} }} }}\n"
        'no_auth_user: "a"'
    )


async def _is_answered(nc: Client, settings: Settings, name: str, **fields: object) -> bool:
    try:
        return bool((await ask(nc, settings, a_request(name, **fields), timeout_s=0.5))["ok"])
    except NoAnswer:
        return False


async def _is_stored(nc: Client, settings: Settings) -> bool:
    return await _is_answered(nc, settings, f"push-{next(_NUMBERS)}", push_assignment=True)


_NUMBERS = itertools.count()
