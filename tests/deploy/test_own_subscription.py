"""One spec and one handler are a subscription: everything else of the router follows, on a server
with the shipped permissions.
"""

import asyncio
import runpy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import create_model

from router.config import SUBSCRIPTIONS, Settings, SubscriptionSpec, describe, load
from router.config.names import SettingNames
from router.config.settings import StreamsConfig
from router.contracts.result import RESULT
from router.core.errors import Misconfigured
from router.core.message import Message
from router.core.outcome import Dead, Done, Fault, Outcome
from router.core.setting_values import add_fields
from router.delivery.settings import OptionalConsumerConfig, declare_stream
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.operate.topology.declared_topology import declare_topology
from router.process.supervision import draw
from router.serve.app_context import AppContext
from router.serve.consumer_child import JoinedSubscription, SubscriptionHandler
from router.serve.subscriptions import JOINED
from tests.support.deployed import DEPLOY, TOML, Deployed
from tests.support.service import a_router
from tests.support.stories import read_dead_letters, read_metric, read_page
from tests.support.waiting import until

NOTICES = SubscriptionSpec(
    name="notices",
    section=OptionalConsumerConfig(
        subject="caf.notice.v1", durable="router-notices", deliver_group="router-notices-group"
    ),
    stream=declare_stream("ROUTER_NOTICES", days=1, mib=16, window_ms=1_000),
    sender="worker",
)
SPECS = (*SUBSCRIPTIONS, NOTICES)
HEADERS = {"tenant_id": "acme", "Nats-Msg-Id": "n-1"}


def handle_notice(message: Message) -> Outcome:
    body = orjson.loads(message.data)
    return (
        Done()
        if "text" in body
        else Dead(Fault("SCHEMA_VALIDATION_FAILED", "Missing required field: text", "text"))
    )


def join_notices(_: AppContext) -> SubscriptionHandler:
    return SubscriptionHandler(handle=handle_notice)


JOINED_HERE = (*JOINED, JoinedSubscription(NOTICES, join_notices, RESULT))


@pytest.fixture(scope="module")
def names() -> SettingNames:
    """As if NOTICES stood in SUBSCRIPTIONS."""
    streams = add_fields({"notices": NOTICES.stream})(StreamsConfig)
    sections: dict[str, Any] = {
        "notices": (OptionalConsumerConfig, NOTICES.section),
        "streams": (streams, streams()),
    }
    return SettingNames(create_model("OwnSettings", __base__=Settings, **sections)())


@pytest.fixture(scope="module")
def deployed(names: SettingNames) -> Iterator[Deployed]:
    write = runpy.run_path(str(DEPLOY / "nats" / "permissions.py"))["write"]
    with Deployed(change=lambda accounts: write(accounts, names.defaults, SPECS)) as deployed:
        yield deployed


def settings_of(names: SettingNames, overrides: dict[str, object]) -> Settings:
    return load(
        TOML,
        overrides,
        {"ROUTER_NOTICES__ENABLED": "true", "ROUTER_NOTICES_MAX_ATTEMPTS": "2"},
        names,
    ).settings


def test_its_settings_have_their_names_defaults_and_rules(names: SettingNames) -> None:
    settings = load(
        None, {}, {"ROUTER_NOTICES__ENABLED": "true", "NATS_MAX_DELIVER": "7"}, names
    ).settings
    rows = {row.name: row.value for row in describe(settings, {})}
    assert (
        rows["notices.enabled"],
        rows["notices.max_attempts"],
        rows["streams.notices.name"],
    ) == ("true", "7", "ROUTER_NOTICES")
    assert NOTICES.read_section(settings).subject == "caf.notice.v1"
    with pytest.raises(Misconfigured, match=r"notices\.subject"):
        load(None, {"notices.subject": "caf.exec.result.v1"}, {}, names)


async def test_a_message_is_handled_and_a_poisoned_one_is_a_dead_letter_and_nothing_is_refused(
    deployed: Deployed, names: SettingNames
) -> None:
    operator = await deployed.connect("operator")
    settings = settings_of(names, deployed.names("router", http__port=0))
    await topology.create(JetStream(operator), declare_topology(settings, SPECS))
    worker = await deployed.connect("worker")
    async with a_router(settings, subscriptions=JOINED_HERE) as running:
        assert "notices  one_for_one" in draw(running.service.tree())
        await worker.publish("caf.notice.v1", b'{"text": "hello"}', headers=HEADERS)
        await worker.publish("caf.notice.v1", b"{}", headers={**HEADERS, "Nats-Msg-Id": "n-2"})
        http = running.ready.http
        await until(lambda: _is_booked(http))
        _, ready = await read_page(http, "/readyz")
        dead = await read_metric(
            http, "router_dlq_total", subject="caf.notice.v1", reason="validation_failed"
        )
    (letter,) = await read_dead_letters(operator, settings)
    assert deployed.violations() == []
    assert (dead, "router-notices" in ready) == (1, True)
    assert (
        letter["original_subject"],
        letter["tenant_id"],
        letter["validation_error"]["field"],
    ) == ("caf.notice.v1", "acme", "text")
    for client in (operator, worker):
        await client.close()


async def _is_booked(http: str) -> bool:
    return await read_metric(http, "router_jetstream_ack_total", consumer="router-notices") == 2


async def test_a_role_that_does_not_send_the_messages_is_refused(deployed: Deployed) -> None:
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_error(exc: Exception) -> None:
        refused.set_result(str(exc))

    gateway = await deployed.connect("gateway", error_cb=on_error)
    await gateway.publish("caf.notice.v1", b"{}")
    assert "caf.notice.v1" in await asyncio.wait_for(refused, 60)
    await gateway.close()
