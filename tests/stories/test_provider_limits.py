"""What is larger than the server takes, asked of a provider or answered by it: the requester is
told, and no other one is cut off.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import INVOKE, INVOKE_STREAM
from tests.support.broker import Broker
from tests.support.providers import an_entry, answers, register, says_no, serve_provider
from tests.support.router_streams import read_usage
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json

MAX_PAYLOAD = 1024 * 1024  # a server's own default
GROWS = b"\x01" * 500_000  # six times as long in JSON
# half as long again as JSON in JSON
GREW = json.dumps({"output": ["a"] * 220_000, "cost": 0.5}, separators=(",", ":")).encode()
# the router adds the request's id
FILLS = b'{"done":false,"metadata":{"cost":0.5},"data":"%b"}' % (b"x" * (MAX_PAYLOAD - 100))
FAILURES = 5  # in a row that open a breaker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(max_payload=MAX_PAYLOAD) as broker:
        yield broker


@pytest.fixture
async def router(nats_url: str, prefix: str) -> AsyncIterator[Running]:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(router, an_entry())
        yield router


class Held:
    """A provider of streams that sends one piece, and the last one when it may."""

    def __init__(self, nc: Nats) -> None:
        self._nc = nc
        self.may_end = asyncio.Event()

    async def __call__(self, message: Msg) -> None:
        await message.respond(b'{"data": "1", "done": false}')
        await self.may_end.wait()
        await message.respond(b'{"data": "2", "done": true}')


async def ask_too_much(nc: Nats, subject: str, number: int) -> Json:
    """The only answer to a request that the router cannot pass on."""
    asked = provider_pb2.ProviderRequest(
        provider_id="echo", tenant_id="hog", message_id=f"r-{number}", body=GROWS
    )
    answer: Json = json.loads(
        (await nc.request(subject, asked.SerializeToString(), timeout=60)).data
    )
    return answer


async def test_streams_that_ask_too_much_leave_a_provider_open(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        told = [
            (await ask_too_much(nc, INVOKE_STREAM, number))["metadata"]
            for number in range(FAILURES)
        ]
        assert {(one["error_code"], one["fault"]) for one in told} == {
            ("extension_error", "request")
        }
        assert (await client.invoke(tenant_id="quiet", provider_id="echo", prompt="hello")).ok
    assert len(asked) == 1


@pytest.mark.parametrize("subject", [INVOKE, INVOKE_STREAM])
async def test_what_was_not_sent_is_not_metered(
    nc: Nats, router: Running, client: Client, subject: str
) -> None:
    """Nor does it take the place of what fails at the provider under its id."""
    asked = {"tenant_id": "hog", "provider_id": "echo", "prompt": "hello", "request_id": "r-1"}
    await ask_too_much(nc, subject, 1)
    assert await read_usage(nc, router.settings) == []
    async with serve_provider(nc, says_no(400)):
        assert (await client.invoke(**asked)).status == "error"
    assert [event["request_id"] for event in await read_usage(nc, router.settings)] == ["r-1"]


async def test_invocations_that_ask_too_much_leave_a_provider_open(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        told = [await ask_too_much(nc, INVOKE, number) for number in range(FAILURES)]
        assert {(one["error_code"], one["metadata"]["fault"]) for one in told} == {
            ("extension_error", "request")
        }
        assert (await client.invoke(tenant_id="quiet", provider_id="echo", prompt="hello")).ok
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("subject", "answer"), [(INVOKE, GREW), (INVOKE_STREAM, GREW), (INVOKE_STREAM, FILLS)]
)
async def test_an_answer_that_grew_too_large_is_refused_and_cuts_off_no_other(
    nc: Nats, router: Running, client: Client, subject: str, answer: bytes
) -> None:
    await register(router, an_entry("held"))
    body = json.dumps(
        {"provider_id": "echo", "tenant_id": "hog", "message_id": "r" * 128, "body": "hello"}
    ).encode()
    held = Held(nc)

    async def answers_much(message: Msg) -> None:
        await nc.publish(message.reply, answer)  # `respond` would add the request's headers

    async with (
        serve_provider(nc, held, "beamline.provider.held.v1"),
        serve_provider(nc, answers_much),
    ):
        chunks = client.invoke_stream(
            tenant_id="quiet", provider_id="held", prompt="hello", request_id="r-1"
        )
        assert (await anext(chunks)).data == "1"
        told = json.loads((await nc.request(subject, body, timeout=60)).data)
        told |= told["metadata"]
        assert (told["status"], told["error_code"], told["fault"]) == (
            "error",
            "extension_error",
            "request",
        )
        assert "larger than the server takes" in told["error_message"]
        (event,) = await read_usage(nc, router.settings)
        assert (event["request_id"], event["status"], event["cost"]) == ("r" * 128, "error", 0.5)
        held.may_end.set()
        assert [chunk.data async for chunk in chunks] == ["2"]


async def test_a_stream_that_comes_faster_than_it_is_read_ends_with_its_code(
    nc: Nats, router: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.delivery.wire.calls.stream.MAX_BUFFERED_BYTES", 10)

    async def floods(message: Msg) -> None:
        await nc.publish(message.reply, b'{"data": "more than may wait", "done": false}')

    async with serve_provider(nc, floods) as asked:
        for _ in range(FAILURES):
            heard = await nc.request(
                INVOKE_STREAM,
                b'{"provider_id": "echo", "tenant_id": "hog", "body": "hello"}',
                timeout=60,
            )
            assert json.loads(heard.data)["metadata"]["error_code"] == "stream_overrun"
        monkeypatch.undo()
        assert len(asked) == FAILURES
    async with serve_provider(nc, answers):
        assert (await client.invoke(tenant_id="quiet", provider_id="echo", prompt="hello")).ok
