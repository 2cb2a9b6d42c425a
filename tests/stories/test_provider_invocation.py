"""Providers invoked through a router: at once, as a stream, and by a worker; whatever a provider
does, the requester gets an answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client, Worker
from router.config import Settings
from router.contracts.extension import DEADLINE
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import INVOKE, INVOKE_STREAM
from router.sdk.extension import Invocation, provider
from router.sdk.provider_handler import ProviderHandler
from router.sdk.providers import InvocationFailed
from router.work.commands.workers import make_places
from tests.support.extension_author import serve_extension
from tests.support.patient_client import connect_patiently
from tests.support.providers import (
    Answer,
    Streaming,
    an_entry,
    answers,
    hangs,
    read_until_failure,
    register,
    says,
    says_no,
    serve_provider,
)
from tests.support.router_streams import read_usage
from tests.support.sdk import run_workers
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, MessageRecorder, read_metric
from tests.support.waiting import until

PUSHED: Json = {"tenant_id": "acme", "message_type": "chat", "payload": "hello", "push": True}
PROVIDERS = ("openai", "anthropic")
PATIENT, HASTY = (
    "beamline.provider.patient.v1",
    "beamline.provider.hasty.v1",
)  # a busy machine may need its 200 ms
ASKED: Json = {"tenant_id": "acme", "provider_id": "echo", "prompt": "hello"}


@pytest.fixture
async def router(nats_url: str, prefix: str) -> AsyncIterator[Running]:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(
            router,
            an_entry(timeout_ms=20_000),
            an_entry("patient", timeout_ms=10_000),
            an_entry("hasty", timeout_ms=200),
        )
        yield router


async def test_the_answer_of_a_registered_provider_comes_back_with_its_cost_and_tokens(
    nc: Nats, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        response = await client.invoke(
            **ASKED, parameters={"max_tokens": 5}, context={"conversation_id": "c"}, trace_id="t-1"
        )
    assert (response.ok, response.body, response.cost) == (True, "you said hello", 0.25)
    assert response.metadata == {"prompt_tokens": "3", "completion_tokens": "2", "cost": "0.25"}
    (heard,) = asked
    assert json.loads(heard.data) == {
        "trace_id": "t-1",
        "tenant_id": "acme",
        "provider_id": "echo",
        "prompt": "hello",
        "parameters": {"max_tokens": 5},
        "context": {"conversation_id": "c"},
    }
    assert heard.headers is not None
    assert 0 < int(heard.headers["Router-Deadline-Ms"]) <= 20_000
    assert heard.headers["tenant_id"] == "acme"


async def test_any_nats_client_may_ask_in_json_or_protobuf(nc: Nats, router: Running) -> None:
    """docs/reference/extensions.md#invoke-request: both wires, one meaning."""
    request = {"provider_id": "echo", "tenant_id": "acme", "message_id": "m-1", "body": "hello"}
    asked = provider_pb2.ProviderRequest(
        provider_id="echo", tenant_id="acme", message_id="m-1", body=b"hello"
    ).SerializeToString()
    async with serve_provider(nc, answers):
        plain = json.loads(
            (await nc.request(INVOKE, json.dumps(request).encode(), timeout=60)).data
        )
        packed = (
            await nc.request(
                INVOKE, asked, timeout=60, headers={"Accept": "application/x-protobuf"}
            )
        ).data
    told = provider_pb2.ProviderResponse.FromString(packed)
    assert (plain["status"], plain["request_id"], plain["body"]) == (
        "success",
        "m-1",
        "you said hello",
    )
    assert (told.status, told.request_id, told.body, told.cost) == (
        "success",
        "m-1",
        b"you said hello",
        0.25,
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (says_no(400), ("error", "extension_error", "request")),
        (says_no(503), ("error", "extension_error", "service")),
        (says(b"garbage"), ("error", "extension_error", "answer")),
        (
            says(json.dumps({"output": "x" * 2_000_000}).encode()),
            ("error", "extension_error", "answer"),
        ),
        (says(b'{"output": "x", "provider_id": "other"}'), ("error", "extension_error", "answer")),
    ],
    ids=["4xx", "5xx", "garbage", "2 MB", "another's"],
)
async def test_a_provider_that_fails_is_told_by_code(
    nc: Nats, client: Client, answer: Answer, told: tuple[str, str, str | None]
) -> None:
    async with serve_provider(nc, answer):
        response = await client.invoke(**ASKED)
    assert (response.status, response.error_code, response.metadata.get("fault")) == told


async def test_a_provider_that_hangs_is_given_up_after_its_time(nc: Nats, client: Client) -> None:
    async with serve_provider(nc, hangs, HASTY):
        response = await client.invoke(**{**ASKED, "provider_id": "hasty"})
    assert (response.status, response.error_code) == ("timeout", "extension_timeout")


async def test_absent_and_not_registered_are_told_apart(client: Client) -> None:
    absent, unknown = (
        await client.invoke(**ASKED),
        await client.invoke(**{**ASKED, "provider_id": "nope"}),
    )
    assert (absent.error_code, unknown.error_code) == (
        "extension_unavailable",
        "extension_not_found",
    )


async def test_what_cannot_be_read_is_refused_with_its_field(nc: Nats, router: Running) -> None:
    answer = json.loads(
        (
            await nc.request(
                INVOKE, b'{"provider_id": "a.b", "tenant_id": "acme", "body": ""}', timeout=60
            )
        ).data
    )
    assert (answer["status"], answer["error_code"], answer["metadata"]) == (
        "error",
        "invalid_request",
        {"field": "provider_id"},
    )
    chunk = json.loads(
        (await nc.request(INVOKE_STREAM, b'{"provider_id": "echo"}', timeout=60)).data
    )
    assert (chunk["done"], chunk["metadata"]["error_code"], chunk["metadata"]["field"]) == (
        True,
        "invalid_request",
        "tenant_id",
    )


async def test_what_is_refused_is_found_by_its_own_id(nc: Nats, router: Running) -> None:
    for name in ("request_id", "message_id"):
        refusal = await nc.request(INVOKE, json.dumps({name: "r-7", "tenant_id": "acme"}).encode())
        assert json.loads(refusal.data)["request_id"] == "r-7"


async def test_short_deadlines_open_no_breaker_for_others(nc: Nats, client: Client) -> None:
    """The header alone is short, not the time that the requester waits: however slow the machine
    is, it hears the router's answer.
    """
    asked = {**ASKED, "provider_id": "patient"}
    body = json.dumps({"provider_id": "patient", "tenant_id": "acme", "body": "hello"}).encode()
    async with serve_provider(nc, hangs, PATIENT):
        answers_heard = [
            await nc.request(INVOKE, body, timeout=30, headers={DEADLINE: "100"}) for _ in range(6)
        ]
    assert {json.loads(answer.data)["error_code"] for answer in answers_heard} == {
        "extension_timeout"
    }
    async with serve_provider(nc, answers, PATIENT):
        assert (await client.invoke(**asked)).ok


# -- streams ---------------------------------------------------------------------------------------


async def test_chunks_come_as_they_are_sent_and_the_last_one_says_so(
    nc: Nats, client: Client
) -> None:
    async with serve_provider(nc, Streaming(nc)):
        chunks = [chunk async for chunk in client.invoke_stream(**ASKED, request_id="r-1")]
    assert [(chunk.data, chunk.done) for chunk in chunks] == [
        ("1 ", False),
        ("2 ", False),
        ("3 ", False),
        ("", True),
    ]
    assert {chunk.request_id for chunk in chunks} == {"r-1"}
    last = chunks[-1].metadata
    assert (last["status"], last["completion_tokens"], last["chunks"]) == ("success", "3", "4")


async def test_a_provider_that_does_not_stream_is_a_stream_of_one_chunk(
    nc: Nats, client: Client
) -> None:
    async with serve_provider(nc, answers):
        (chunk,) = [chunk async for chunk in client.invoke_stream(**ASKED)]
    assert (chunk.data, chunk.done, chunk.metadata["cost"]) == ("you said hello", True, "0.25")


async def test_a_reader_that_leaves_stops_the_provider(nc: Nats, client: Client) -> None:
    source = Streaming(nc, 1_000_000)
    async with serve_provider(nc, source):
        async for _ in client.invoke_stream(**ASKED):
            break
        await asyncio.wait_for(source.gone.wait(), 60)
    assert source.sent < 1_000_000


@pytest.mark.parametrize("end", ["cancel", "kill"])
async def test_a_reader_that_leaves_before_the_first_piece_stops_a_provider_of_the_sdk(
    router: Running, nats_url: str, end: str
) -> None:
    """And what it did is metered: nothing tells how far the provider had come."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    @provider("echo")
    async def thinks(_: Invocation) -> AsyncIterator[str]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        yield "never"

    async with serve_extension(nats_url, thinks), Client(nats_url) as client:
        reading = asyncio.create_task(_read(client, asyncio.Event()))
        await until(lambda: begun.is_set() or reading.done())
        if end == "kill":
            client._open()._transport.close()  # as the death of its process would
        else:
            reading.cancel()
        await until(stopped.is_set)
        await until(lambda: has_events(router, nats_url, 1))
        reading.cancel()
        await asyncio.wait({reading})


async def has_events(router: Running, nats_url: str, count: int) -> bool:
    async with await connect_patiently(nats_url) as nc:
        return len(await read_usage(nc, router.settings)) == count


@pytest.mark.parametrize("end", ["cancel", "kill"])
async def test_a_reader_that_is_cancelled_or_killed_stops_the_provider(
    nc: Nats, router: Running, nats_url: str, end: str
) -> None:
    source, heard = Streaming(nc, 1_000_000), asyncio.Event()
    async with serve_provider(nc, source), Client(nats_url) as client:
        reading = asyncio.create_task(_read(client, heard))
        await until(lambda: heard.is_set() or reading.done())
        assert not reading.done(), reading
        if end == "kill":
            client._open()._transport.close()  # as the death of its process would
        else:
            reading.cancel()
        await asyncio.wait_for(source.gone.wait(), 60)
        reading.cancel()
        await asyncio.wait({reading})


async def _read(client: Client, heard: asyncio.Event) -> None:
    async for _ in client.invoke_stream(**ASKED):
        heard.set()


async def test_a_provider_that_stalls_between_chunks_is_a_timeout(nc: Nats, client: Client) -> None:
    async with serve_provider(nc, Streaming(nc, 2, ends=False), HASTY):
        chunks, failed = await read_until_failure(
            client.invoke_stream(**{**ASKED, "provider_id": "hasty"})
        )
    assert failed.code == "extension_timeout"
    assert [chunk.data for chunk in chunks] == ["1 ", "2 "][: len(chunks)]


@pytest.mark.parametrize(
    ("answer", "code"), [(says(b"garbage"), "extension_error"), (says_no(500), "extension_error")]
)
async def test_a_stream_that_fails_ends_with_its_code(
    nc: Nats, client: Client, answer: Answer, code: str
) -> None:
    async with serve_provider(nc, answer):
        with pytest.raises(InvocationFailed) as failed:
            [_ async for _ in client.invoke_stream(**ASKED)]
    assert failed.value.code == code


async def test_chunks_that_were_lost_are_not_passed_over(nc: Nats, nats_url: str) -> None:
    """A router's last chunk counts them; this one says three, and two were heard."""
    last = {"data": "", "done": True, "metadata": {"status": "success", "chunks": "3"}}

    async def forgetful(message: Msg) -> None:
        await message.respond(b'{"data": "1", "done": false}')
        await message.respond(json.dumps(last).encode())

    async with serve_provider(nc, forgetful, INVOKE_STREAM), Client(nats_url) as client:
        with pytest.raises(InvocationFailed) as failed:
            [_ async for _ in client.invoke_stream(**ASKED)]
    assert failed.value.code == "stream_broken"


async def test_a_stream_may_be_asked_for_in_protobuf(nc: Nats, router: Running) -> None:
    inbox = await nc.subscribe(nc.new_inbox())
    asked = provider_pb2.ProviderRequest(
        provider_id="echo", tenant_id="acme", message_id="m-1", body=b"hello"
    ).SerializeToString()
    async with serve_provider(nc, Streaming(nc, 1)):
        await nc.publish(
            INVOKE_STREAM, asked, reply=inbox.subject, headers={"Accept": "application/x-protobuf"}
        )
        chunks = [
            provider_pb2.StreamChunk.FromString((await inbox.next_msg(60)).data) for _ in range(2)
        ]
    assert [(chunk.request_id, chunk.data, chunk.done) for chunk in chunks] == [
        ("m-1", b"1 ", False),
        ("m-1", b"", True),
    ]


# -- the router's own limits -----------------------------------------------------------------------


async def test_more_than_it_may_have_in_hand_are_told_to_ask_again(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    may_reply = asyncio.Event()

    async def answers_later(message: Msg) -> None:
        await may_reply.wait()
        await answers(message)

    async with (
        a_router(settings_for(nats_url, prefix, providers__at_once=1)) as router,
        Client(nats_url) as client,
    ):
        await register(router, an_entry(timeout_ms=60_000))
        async with serve_provider(nc, answers_later) as asked:
            first = asyncio.create_task(client.invoke(**ASKED, timeout=60))
            await until(lambda: asked)
            assert (await client.invoke(**ASKED)).error_code == "overloaded"
            may_reply.set()
            assert (await first).ok


async def test_a_tenant_that_is_not_served_reaches_no_provider(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    async with (
        a_router(settings_for(nats_url, prefix, tenants_allowed="globex")) as router,
        Client(nats_url) as client,
    ):
        await register(router, an_entry())
        async with serve_provider(nc, answers) as asked:
            assert (await client.invoke(**ASKED)).error_code == "unauthorized"
            with pytest.raises(InvocationFailed, match="unauthorized"):
                [_ async for _ in client.invoke_stream(**ASKED)]
            assert not asked


async def test_an_answer_goes_to_inboxes_alone(nc: Nats, router: Running, client: Client) -> None:
    ears = await MessageRecorder.on(nc, "somewhere.else")
    async with serve_provider(nc, answers) as asked:
        await nc.publish(
            INVOKE, json.dumps({**ASKED, "body": "hello"}).encode(), reply="somewhere.else"
        )
        assert (await client.invoke(**ASKED)).ok  # so the one before it was taken, and dropped
    assert (len(asked), len(ears)) == (1, 0)
    assert await read_metric(router.ready.http, "router_reply_refused_total") == 1


async def test_what_is_in_hand_when_a_router_stops_is_still_answered(
    nc: Nats, router: Running, client: Client
) -> None:
    may_reply = asyncio.Event()

    async def slowly(message: Msg) -> None:
        await may_reply.wait()
        await answers(message)

    async with serve_provider(nc, slowly, PATIENT) as asked:
        asking = asyncio.create_task(client.invoke(**{**ASKED, "provider_id": "patient"}))
        await until(lambda: asked)
        stopping = asyncio.create_task(router.stop())
        may_reply.set()
        assert (await asking).ok
        await stopping


# -- the circle ------------------------------------------------------------------------------------


async def test_the_whole_circle_runs_with_no_other_system(
    nc: Nats, router: Running, nats_url: str
) -> None:
    """Issue 4, provider invocation: decide → assignment → worker → provider → result → usage."""
    settings = router.settings
    await register(router, *(an_entry(name) for name in PROVIDERS))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(settings, nats_url))
        await stack.enter_async_context(
            run_workers(_worker(settings, ProviderHandler(client), nats_url))
        )
        for name in PROVIDERS:
            await stack.enter_async_context(
                serve_provider(nc, answers, f"beamline.provider.{name}.v1")
            )
        told = [
            await client.decide(
                tenant_id="acme",
                message_type="chat",
                payload="hello",
                request_id=f"r-{n}",
                push=True,
            )
            for n in range(4)
        ]
        await until(lambda: _metered(nc, settings, 4), what="usage events")
    events = await read_usage(nc, settings)
    chosen = {
        answer.context["request_id"]: answer.decision.provider_id
        for answer in told
        if answer.decision is not None
    }
    assert {event["request_id"]: event["provider_id"] for event in events} == chosen
    assert {(event["status"], event["cost"]) for event in events} == {("success", 0.25)}


async def test_a_provider_that_is_away_is_an_error_that_breakers_count(
    nc: Nats, router: Running, nats_url: str
) -> None:
    settings = router.settings
    await register(router, *(an_entry(name) for name in PROVIDERS))
    results = await MessageRecorder.on(nc, settings.results.subject)
    async with (
        _client(settings, nats_url) as client,
        run_workers(_worker(settings, ProviderHandler(client), nats_url)),
    ):
        await client.decide(**PUSHED)
        await until(lambda: len(results) == 1)
    (told,) = (json.loads(data) for data in results.heard[settings.results.subject])
    assert (told["status"], told["error_code"], told["metadata"]["cause"]) == (
        "error",
        "PROVIDER_UNAVAILABLE",
        "extension_unavailable",
    )
    assert told["metadata"]["attempts"] == 2


def _client(settings: Settings, nats_url: str) -> Client:
    return Client(nats_url, subject=settings.decide.subject)


def _worker(settings: Settings, handler: ProviderHandler, nats_url: str) -> Worker:
    subject = settings.assignment.subjects[0]
    return Worker(
        nats_url, handler, worker_id="w-1", subject=subject, topology=make_places(settings)
    )


async def _metered(nc: Nats, settings: Settings, count: int) -> bool:
    return len(await read_usage(nc, settings)) == count
