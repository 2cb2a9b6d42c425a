"""The router's own inboxes: an author of an extension cannot guess another inbox from the one it
sees, and the router answers in none.
"""

import asyncio
import json

from nats.aio.client import Client
from nats.aio.msg import Msg

from router import Client as Gateway
from router.core.ids import random_tokens
from router.delivery.wire.calls.request_reply import RequestReplyClient
from router.delivery.wire.calls.stream import ReplyStreams
from router.delivery.wire.first_connection import connect
from router.sdk.samples.extensions.pii_guard import pii_guard
from tests.support.delivery import connected
from tests.support.deployed import Deployed
from tests.support.extension_author import serve_extension
from tests.support.requests import a_body
from tests.support.service import a_router
from tests.support.stories import read_metric
from tests.support.waiting import until


async def test_a_gateway_cannot_have_an_answer_sent_to_a_call_of_the_router(
    deployed: Deployed, witness: Client
) -> None:
    """Findings M2: with a counter for a token and an allowed `Reply-To`, five of five answers of an
    extension were forged.
    """
    author, router = deployed.settings("author"), deployed.settings("router", http__port=0)
    called: list[str] = []
    answered_there: list[Msg] = []

    async def hear_call(message: Msg) -> None:
        called.append(message.reply)

    async def hear_answer(message: Msg) -> None:
        if b'"decision"' in message.data or b'"ok":false' in message.data:
            answered_there.append(message)

    await witness.subscribe(pii_guard.subject, cb=hear_call)
    await witness.subscribe("_INBOX_router.>", cb=hear_answer)
    await witness.flush()
    async with (
        a_router(router) as running,
        serve_extension(author.nats, pii_guard, reply_prefixes=author.reply.prefixes),
    ):
        await _guard(deployed)
        async with Gateway(deployed.settings("gateway").nats) as gateway:
            await until(lambda: _is_guarded(gateway, called))
            stem, _, token = called[-1].rpartition(".")
            attacker = await deployed.connect("gateway")
            following = (
                [str(int(token) + n) for n in range(1, 40)]
                if token.isdigit()
                else [token[:-1] + "A", token[:-1] + "B"]
            )
            for n, guess in enumerate((*following, token, "x")):
                headers = {"Reply-To": f"{stem}.{guess}", "Nats-Msg-Id": f"attack-{n}"}
                await attacker.publish(
                    "beamline.router.v1.decide",
                    json.dumps(a_body(request_id=f"a-{n}")).encode(),
                    headers=headers,
                )
            await attacker.flush()
            await until(lambda: _has_refused(running.ready.http, len(following) + 2))
            answer = await gateway.decide(
                tenant_id="victim",
                message_type="chat",
                payload="hi",
                policy_id="guarded_inboxes",
                timeout=60.0,
            )
            await attacker.close()
    assert answer.decision is not None
    assert [message.subject for message in answered_there] == []


async def test_no_token_helps_to_guess_another(nats_url: str) -> None:
    """Of inboxes, calls and streams of one connection."""
    async with connected(nats_url) as connection:
        seen: list[str] = []

        async def hear(message: Msg) -> None:
            seen.append(message.reply)

        await connection.subscribe("called", cb=hear)
        await connection.flush()
        calls = RequestReplyClient(connection)
        waiting = [
            asyncio.ensure_future(calls.call("called", b"", calls.head({}), 0.2))
            for _ in range(100)
        ]
        await asyncio.gather(*waiting, return_exceptions=True)
        inboxes = [connection.new_inbox() for _ in range(100)]
        async with ReplyStreams(connection) as outlets:
            for _ in range(100):
                outlets.open("called", lambda: None, {}).send(b"")
            await until(lambda: len(seen) == 200)
    for names in (
        [one.rpartition(".")[2] for one in seen],
        [one.rpartition(".")[2][11:] for one in inboxes],
    ):
        assert len(set(names)) == len(names)
        assert {len(name) for name in names} == {11}
        columns = [len({name[at] for name in names}) for at in range(11)]
        assert min(columns) > 20, "a place of the token hardly changes: it could be guessed"


async def test_its_own_inboxes_are_known_to_a_connection(nats_url: str) -> None:
    connection = await connect({"servers": [nats_url]})
    other = await connect({"servers": [nats_url]})
    try:
        assert connection.new_inbox().startswith(connection.own_inboxes)
        assert not other.new_inbox().startswith(connection.own_inboxes)
    finally:
        await connection.close()
        await other.close()


def test_tokens_are_drawn_for_ever_and_fit_into_a_subject() -> None:
    tokens = random_tokens()
    drawn = [next(tokens) for _ in range(5000)]
    assert len(set(drawn)) == 5000
    assert all(
        token.isascii() and token.replace("-", "").replace("_", "").isalnum() for token in drawn
    )


async def _guard(deployed: Deployed) -> None:
    operator = await deployed.connect("operator")
    policy = {
        "version": "1.0",
        "providers": [{"name": "first", "weight": 1}],
        "validators": [{"id": "pii_guard"}],
    }
    entry = {
        "id": "pii_guard",
        "type": "validator",
        "subject": pii_guard.subject,
        "timeout_ms": 20_000,
    }
    for service, body in (
        ("put_extension", entry),
        ("put_policy", {"tenant_id": "victim", "policy_id": "guarded_inboxes", "policy": policy}),
    ):
        await operator.request(
            f"beamline.router.v1.admin.{service}", json.dumps(body).encode(), timeout=60
        )
    await operator.close()


async def _is_guarded(gateway: Gateway, called: list[str]) -> bool:
    await gateway.decide(
        tenant_id="victim",
        message_type="chat",
        payload="hi",
        policy_id="guarded_inboxes",
        timeout=60.0,
    )
    return bool(called)


async def _has_refused(http: str, count: int) -> bool:
    return await read_metric(http, "router_reply_refused_total") >= count
