"""The client, against a real router."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from router import Client
from router.contracts.malformed import Malformed
from router.core.errors import BrokerRefused, BrokerUnavailable, RouterError, Unanswered
from router.delivery.wire.connection import Connection
from router.sdk.client import _body
from tests.support.service import Running, a_router, settings_for

ASKED: dict[str, Any] = {"tenant_id": "acme", "message_type": "chat", "payload": "hello"}


@pytest.fixture
async def running(nats_url: str) -> AsyncIterator[Running]:
    async with a_router(settings_for(nats_url, "sdk")) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncIterator[Client]:
    async with Client(running.settings.nats, subject=running.settings.decide.subject) as client:
        yield client


async def test_a_decision_comes_back_with_its_types(client: Client) -> None:
    answer = await client.decide(**ASKED, request_id="r-1", trace_id="t-1")
    assert answer.ok
    assert answer.decision is not None
    assert answer.decision.metadata["policy_id"] == "default"
    assert answer.context == {"request_id": "r-1", "trace_id": "t-1"}
    assert json.loads(answer.raw)["decision"]["provider_id"] == answer.decision.provider_id


async def test_a_no_is_an_answer(client: Client) -> None:
    answer = await client.decide(**ASKED, policy_id="nope")
    assert not answer.ok
    assert answer.decision is None
    assert answer.error is not None
    assert answer.error.code == "policy_not_found"


async def test_a_hundred_questions_at_once_each_get_their_own_answer(client: Client) -> None:
    answers = await asyncio.gather(
        *(client.decide(**ASKED, request_id=f"many-{n}") for n in range(100))
    )
    assert [answer.context["request_id"] for answer in answers] == [f"many-{n}" for n in range(100)]


async def test_two_tenants_may_use_the_same_request_id_at_once(client: Client) -> None:
    """Within the duplicate window the stream would drop a second message with the same message id."""
    both = await asyncio.gather(
        *(
            client.decide(**{**ASKED, "tenant_id": tenant}, request_id="same")
            for tenant in ("acme", "globex")
        )
    )
    assert all(answer.ok for answer in both)


def test_a_payload_of_long_numbers_is_sent_with_every_digit() -> None:
    assert b'"payload":18446744073709551616}' in _body("acme", "chat", 2**64, {})
    assert b'"payload":0.10000000000000000001}' in _body(
        "acme", "chat", Raw(b"0.10000000000000000001"), {}
    )
    for no_json in (Raw(b"{"), float("nan"), {1, 2}):
        with pytest.raises(Malformed):
            _body("acme", "chat", no_json, {})


async def test_bytes_are_a_payload_too(client: Client) -> None:
    assert (await client.decide(**{**ASKED, "payload": b"\x00\xff"})).ok


async def test_every_request_names_its_inbox_and_has_a_message_id_and_the_contract_headers(
    connection: Connection, nats_url: str
) -> None:
    heard: asyncio.Future[tuple[str, dict[str, str] | None]] = (
        asyncio.get_running_loop().create_future()
    )
    await connection.subscribe_direct(
        "s.d", lambda _s, reply, _d, headers: heard.set_result((reply, headers))
    )
    await connection.flush()
    async with Client(nats_url, subject="s.d") as client:
        with pytest.raises(Unanswered):
            await client.decide(**ASKED, timeout=0.05)
    reply, headers = await heard
    assert headers is not None
    assert headers["Reply-To"] == reply
    assert reply.startswith("_INBOX.")
    assert (headers["tenant_id"], headers["version"]) == ("acme", "1")
    assert headers["Nats-Msg-Id"]
    assert headers["trace_id"]


async def test_another_attempt_is_the_same_message_again(
    connection: Connection, nats_url: str
) -> None:
    heard: list[tuple[str, bytes, dict[str, str] | None]] = []

    def hear(_subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> None:
        heard.append((reply, data, headers))
        if len(heard) >= 2:
            connection.publish_nowait(
                reply, b'{"ok":false,"error":{"code":"internal","message":""},"context":{}}'
            )

    await connection.subscribe_direct("s.twice", hear)
    await connection.flush()
    async with Client(nats_url, subject="s.twice") as client:
        answer = await client.decide(**ASKED, timeout=0.3, attempts=9)
    assert answer.error is not None
    assert len(heard) >= 2
    assert all(again == heard[0] for again in heard)


async def test_silence_says_what_to_look_at(connection: Connection, nats_url: str) -> None:
    await connection.subscribe_direct("s.silent", lambda *_: None)
    await connection.flush()
    async with Client(nats_url, subject="s.silent") as client:
        with pytest.raises(Unanswered, match="router doctor"):
            await client.decide(**ASKED, timeout=0.05)


async def test_a_server_where_no_router_ever_was_says_so_at_once(nats_url: str) -> None:
    async with Client(nats_url, subject="not.served") as client:
        with pytest.raises(Unanswered, match="no router was ever started"):
            await client.decide(**ASKED, timeout=30)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"what?", RouterError),
        (b"{}", RouterError),
        (b'{"error":{"err_code":10077,"description":"full"},"stream":""}', BrokerRefused),
    ],
)
async def test_what_is_no_answer_is_an_error(
    connection: Connection, nats_url: str, reply: bytes, error: type[RouterError]
) -> None:
    await connection.subscribe_direct(
        "s.odd", lambda _s, inbox, _d, _h: connection.publish_nowait(inbox, reply)
    )
    await connection.flush()
    async with Client(nats_url, subject="s.odd") as client:
        with pytest.raises(error):
            await client.decide(**ASKED)


async def test_a_publish_ack_of_the_stream_is_not_taken_for_the_answer(
    connection: Connection, nats_url: str
) -> None:
    def hear(_subject: str, inbox: str, _data: bytes, _headers: object) -> None:
        connection.publish_nowait(inbox, b'{"stream":"S","seq":1}')
        connection.publish_nowait(
            inbox, b'{"ok":false,"error":{"code":"internal","message":""},"context":{}}'
        )

    await connection.subscribe_direct("s.stored", hear)
    await connection.flush()
    async with Client(nats_url, subject="s.stored") as client:
        assert (await client.decide(**ASKED)).error is not None


async def test_a_request_above_the_server_s_limit_is_refused_before_it_closes_the_connection(
    client: Client,
) -> None:
    with pytest.raises(RouterError, match="above the server's limit"):
        await client.decide(**{**ASKED, "payload": "x" * (9 << 20)})
    assert (await client.decide(**ASKED)).ok


async def test_an_address_where_nothing_listens_is_told() -> None:
    with pytest.raises(BrokerUnavailable):
        async with Client("nats://127.0.0.1:1"):
            pass


def test_importing_the_package_imports_nothing_else() -> None:
    script = (
        "import router, router.contracts, sys; print([m for m in ('nats', 'pydantic', 'typer') "
        "if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
