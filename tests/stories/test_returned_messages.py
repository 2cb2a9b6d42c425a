"""What the pre-processors left of a message reaches its requester alone, each time that it asks."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from router import Client
from router.config import Settings
from router.sdk.client import Answer
from tests.support.broker import Broker
from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline, hangs
from tests.support.patient_client import connect_patiently
from tests.support.policy import a_provider
from tests.support.router_streams import read_stream
from tests.support.service import Running
from tests.support.stories import MessageRecorder, a_request, ask, read_metric
from tests.support.waiting import until

CARD = "4111 1111 1111 1111"
ASKED = {"tenant_id": "acme", "message_type": "chat", "payload": {"text": f"my card is {CARD}"}}
ENTRIES = {"redact": {"kind": "pre", "timeout_ms": 20_000}}
MAX_PAYLOAD = 64 * 1024
TOO_LARGE = {"field": "return_message", "reason": "message_too_large"}
POLICY = {"pre": [{"id": "redact", "mode": "required", "retry": 0}]}


async def redacts(message: Msg) -> None:
    body = json.loads(message.data)["payload"]
    text = json.dumps(body).replace(CARD, "[card]")
    await message.respond(b'{"payload":%b}' % text.encode())


@asynccontextmanager
async def a_redacting_router(
    nc: NatsClient, at: PipelinePlace, **sections: object
) -> AsyncIterator[tuple[Running, Settings, Extension, Client]]:
    redactor = await Extension(nc, "pre", "redact", redacts).start()
    async with (
        a_pipeline(at, ENTRIES, {"default": {**POLICY, **sections}}) as (router, settings),
        Client(settings.nats, subject=settings.decide.subject) as client,
    ):
        yield router, settings, redactor, client


async def decide(client: Client, name: str, **wishes: object) -> Answer:
    return await client.decide(
        **ASKED,  # type: ignore[arg-type]
        request_id=name,
        trace_id="t-1",
        return_message=True,
        timeout=30.0,
        **wishes,  # type: ignore[arg-type]
    )


async def test_the_requester_gets_the_redacted_message_again_and_again_and_pays_once(
    nc: NatsClient, at: PipelinePlace
) -> None:
    limit = {"rate_limit": {"requests_per_second": 1, "burst": 1}}
    async with a_redacting_router(nc, at, **limit) as (router, settings, redactor, client):
        answers = [await decide(client, "r-1") for _ in range(3)]
        for answer in answers:
            assert answer.message is not None
            assert answer.message.read_payload() == {"text": "my card is [card]"}
            assert answer.message.message_type == "chat"
        assert {answer.raw for answer in answers} == {answers[0].raw}
        assert len(redactor.asked) == 3
        assert await read_metric(router.ready.http, "router_extension_calls_total") == 3
        # what was sent is in the stream of requests alone, as ever
        stored = await read_stream(nc, settings.streams.decide.name)
        assert sum(CARD.encode() in data for _, data, _ in stored) == 3


async def test_several_at_once_are_one_decision(nc: NatsClient, at: PipelinePlace) -> None:
    async with a_redacting_router(nc, at) as (_, _, _, client):
        answers = await asyncio.gather(*(decide(client, "r-1") for _ in range(8)))
        assert {answer.raw for answer in answers} == {answers[0].raw}
        assert answers[0].message is not None


async def test_a_required_redactor_that_is_down_gives_no_message_and_no_decision(
    nc: NatsClient, at: PipelinePlace
) -> None:
    async with a_redacting_router(nc, at) as (_, _, redactor, client):
        assert (await decide(client, "r-1")).ok
        await redactor.stop()
        for name in ("r-1", "r-2"):
            answer = await decide(client, name)
            assert answer.error is not None
            assert answer.error.code == "pre_processor_failed"
            assert (answer.message, answer.decision) == (None, None)
            assert CARD.encode() not in answer.raw
        redactor.answer = hangs


async def test_on_the_reply_subject_many_read_and_no_message_stands(
    nc: NatsClient, at: PipelinePlace
) -> None:
    async with a_redacting_router(nc, at) as (_, settings, _, _):
        heard = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
        body = a_request(1, payload="x", **{"message": ASKED, "return_message": True})
        await nc.publish(settings.decide.subject, body)
        await until(lambda: bool(heard.heard), what="the answer on the reply subject")
        ((data,),) = heard.heard.values()
        assert json.loads(data)["error"]["details"]["reason"] == "no_inbox"
        assert b"card is" not in data


async def test_a_message_that_grew_above_what_the_server_takes_is_refused_and_the_router_goes_on(
    prefix: str, tmp_path: Path
) -> None:
    """The server closes the connection of a client that sends more than `max_payload`."""

    async def grows(message: Msg) -> None:
        grown = b"x" * (MAX_PAYLOAD - 100)
        await message.respond(b'{"payload":{"payload":"%b"}}' % grown)

    with Broker(max_payload=MAX_PAYLOAD) as broker:
        nc = await connect_patiently(broker.url)
        at = PipelinePlace(broker.url, prefix, tmp_path)
        async with a_redacting_router(nc, at) as (_, settings, redactor, client):
            redactor.answer = grows
            for name in ("r-1", "r-1", "r-2"):
                refused = (await decide(client, name)).error
                assert refused is not None
                assert (refused.code, refused.details) == ("invalid_request", TOO_LARGE)
            redactor.answer = redacts
            assert (await decide(client, "r-3")).message is not None
            assert (await ask(nc, settings, a_request(4)))["ok"]
        await nc.close()


async def test_a_narrowed_choice_and_what_its_provider_is_asked_with(
    nc: NatsClient, at: PipelinePlace
) -> None:
    providers = [
        a_provider("a", 99, model="m-1", parameters={"temperature": 0}),
        a_provider("b", 1, priority=10),
    ]
    fallbacks = [{"when": {"status": "timeout"}, "retry": 0, "to": "a"}]
    sections = {"providers": providers, "fallbacks": fallbacks}
    async with a_redacting_router(nc, at, **sections) as (_, _, _, client):
        first = await decide(client, "r-1")
        assert first.decision is not None
        assert first.decision.provider_id == "a"
        asked = {name: first.decision.metadata.get(name) for name in ("model", "parameters")}
        assert asked == {"model": "m-1", "parameters": '{"temperature":0}'}
        # it failed: the same message is decided again without it, and the rule leads back to none
        wish = {"constraints": {"excluded_providers": ["a"]}, "context": {"status": "timeout"}}
        second = await decide(client, "r-1.2", **wish)
        assert second.decision is not None
        assert (second.decision.provider_id, second.decision.reason) == ("b", "weighted")
        assert second.message is not None
        last = await decide(client, "r-1.3", constraints={"excluded_providers": ["a", "b"]})
        assert last.error is not None
        assert last.error.details["providers"] == {"a": "excluded", "b": "excluded"}  # type: ignore[index]
