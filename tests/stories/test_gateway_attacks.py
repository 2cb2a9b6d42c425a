"""A gateway before hostile clients and hostile providers: what is refused, and what goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router.config import Settings
from tests.support.gateway import Gateway, a_gateway, add_key, read_events, wait_for_models
from tests.support.providers import (
    Answer,
    an_entry,
    answers,
    register,
    says_no,
    serve_provider,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json
from tests.support.waiting import slack, until

CHAT: Json = {"model": "router/default", "messages": [{"role": "user", "content": "hello"}]}
PATH = "/v1/chat/completions"
NAMES = ("openai", "anthropic")


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(
        nats_url, prefix, gateway__port=0, gateway__pages_port=0, gateway__at_once=4
    )


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Running]:
    async with a_router(settings) as router:
        await register(router, *map(an_entry, NAMES))
        yield router


@pytest.fixture
async def gateway(router: Running, settings: Settings) -> AsyncIterator[Gateway]:
    async with a_gateway(settings) as gateway:
        await wait_for_models(gateway, "router/default")
        yield gateway


@asynccontextmanager
async def both(nc: Nats, answer: Answer) -> AsyncIterator[None]:
    """Both candidates of the policy answer so."""
    async with AsyncExitStack() as served:
        for name in NAMES:
            subject = f"beamline.provider.{name}.v1"
            await served.enter_async_context(serve_provider(nc, answer, subject))
        yield


@asynccontextmanager
async def a_socket(
    gateway: Gateway,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Until the gateway closes the connection."""
    try:
        async with asyncio.timeout(30 * slack()):
            return await reader.read()
    except ConnectionResetError:
        return b""


def write_head(key: str, *lines: str, path: str = PATH) -> bytes:
    """A request without its body."""
    sent = (f"POST {path} HTTP/1.1", "host: x", f"authorization: Bearer {key}", *lines, "", "")
    return "\r\n".join(sent).encode()


# -- Clients.


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (("transfer-encoding: chunked",), b"3\r\nabc\r\nno chunk\r\n\r\n"),
        (("content-length: 3", "content-length: 4"), b"abcd"),
        (("content-length: 2", "traceparent: 00-a\rb"), b"{}"),
        (("content-length: 2", "x: " + "y" * 100_000), b"{}"),
        (("content-length: 200000",), b'{"a":' * 40_000),
    ],
    ids=["bad chunk", "two lengths", "line feed", "large headers", "deep"],
)
async def test_what_is_no_request_is_refused(
    gateway: Gateway, lines: tuple[str, ...], body: bytes
) -> None:
    async with a_socket(gateway) as (reader, writer):
        writer.write(write_head(gateway.key, *lines))
        writer.write(body)
        assert (await reader.readline()).split()[1] == b"400"


async def test_garbage_after_an_answer_closes_the_connection_and_is_not_logged(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_socket(gateway) as (reader, writer):
        writer.write(write_head("none", "transfer-encoding: chunked"))
        assert (await reader.readline()).split()[1] == b"401"
        writer.write(b"no chunk\r\n\r\n")
        await read_to_end(reader)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_ten_megabytes_are_refused_and_not_kept(gateway: Gateway, is_chunked: bool) -> None:
    part = b"x" * 1_000_000

    async def write_parts() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield part

    response = await gateway.client.post(
        gateway.url + PATH,
        content=write_parts() if is_chunked else part * 10,
        headers={"authorization": f"Bearer {gateway.key}"},
    )
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("path", [PATH, "/api/v1/routes/decide"])
async def test_bodies_that_never_end_take_no_place_of_another_tenant(
    nc: Nats, gateway: Gateway, settings: Settings, path: str
) -> None:
    other = await add_key(settings, "other")
    async with AsyncExitStack() as held, both(nc, answers):
        for _ in range(2):
            _, writer = await held.enter_async_context(a_socket(gateway))
            writer.write(write_head(gateway.key, "content-length: 9", path=path) + b"{")
        await until(lambda: _has_code(gateway, path, "overloaded"))
        await until(lambda: _is_let_in(gateway, other))


async def _has_code(gateway: Gateway, path: str, code: str) -> bool:
    response = await gateway.post(path, b"{}")
    return bool(response.json()["error"]["code"] == code)


async def _is_let_in(gateway: Gateway, key: str) -> bool:
    response = await gateway.post(PATH, CHAT, authorization=f"Bearer {key}")
    return response.status_code == 200


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nhost:"], ids=["silent", "half"])
async def test_a_connection_without_a_request_is_closed(
    gateway: Gateway, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.gateway.server.HEADERS_TIMEOUT_S", 0.2)
    async with a_socket(gateway) as (reader, writer):
        writer.write(sent)
        assert await read_to_end(reader) == b""


async def test_a_body_that_drips_is_too_slow(router: Running, settings: Settings) -> None:
    assert router
    hasty = settings.model_copy(
        update={"gateway": settings.gateway.model_copy(update={"body_timeout_ms": 300})}
    )
    async with a_gateway(hasty) as gateway, a_socket(gateway) as (reader, writer):
        writer.write(write_head(gateway.key, "content-length: 99"))
        answered = asyncio.ensure_future(reader.readline())
        while not answered.done():
            writer.write(b" ")
            await asyncio.wait({answered}, timeout=0.05)
        assert answered.result().split()[1] == b"408"


async def test_wrong_keys_with_a_keys_id_do_not_keep_its_client_out(gateway: Gateway) -> None:
    """They come from its address: of a proxy, or of a house with many clients."""
    wrong = gateway.key[:-64] + "0" * 64
    for _ in range(5):
        await gateway.get("/v1/models", authorization=f"Bearer {wrong}")
    refused = await gateway.get("/v1/models", authorization=f"Bearer {wrong}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_wrong_keys")
    assert (await gateway.get("/v1/models")).status_code == 200


async def test_a_long_id_has_room_for_another_attempt(nc: Nats, gateway: Gateway) -> None:
    tried: list[str] = []

    async def fail_once(message: Msg) -> None:
        tried.append(message.subject)
        await (says_no(503) if len(tried) == 1 else answers)(message)

    async with both(nc, fail_once):
        response = await gateway.post(PATH, CHAT, x_router_request_id="r" * 128)
    assert (response.status_code, response.headers["x-router-attempts"]) == (200, "2")
    assert len(tried) == 2


async def test_another_tenants_id_is_no_way_to_its_answer(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    other = await add_key(settings, "other")
    async with both(nc, answers):
        mine = await gateway.post(PATH, CHAT, x_router_request_id="r-1")
        changed = {**CHAT, "messages": [{"role": "user", "content": "what did they say"}]}
        again = await gateway.post(PATH, changed, x_router_request_id="r-1")
        theirs = await gateway.post(
            PATH, changed, x_router_request_id="r-1", authorization=f"Bearer {other}"
        )
    assert (mine.status_code, again.status_code, theirs.status_code) == (200, 400, 200)
    content = theirs.json()["choices"][0]["message"]["content"]
    assert content == "you said what did they say"


# -- Providers.


def a_piece(data: str = "", **metadata: object) -> bytes:
    return json.dumps({"data": data, "done": not data, "metadata": metadata}).encode()


def say_pieces(*pieces: bytes) -> Answer:
    async def answer(message: Msg) -> None:
        for piece in pieces:
            await message.respond(piece)

    return answer


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens": "9" * 5_000, "completion_tokens": 1},
        {"prompt_tokens": "9" * 20, "completion_tokens": 1},
        {"model": "x\r\n\r\nevent: y", "cost": "1\r\n\r\ndata: z"},
    ],
    ids=["endless number", "large number", "line feeds"],
)
async def test_figures_that_are_none_are_left_out(
    nc: Nats, gateway: Gateway, is_stream: bool, told: Json
) -> None:
    body = {**CHAT, "stream": is_stream, "stream_options": {"include_usage": True}}
    pieces = (a_piece("a\n\ndata: [DONE]\n\n"), a_piece(**told), a_piece("after the end"))
    async with both(nc, say_pieces(*pieces)):
        response = await gateway.post(PATH, body)
    assert response.status_code == 200
    if not is_stream:
        assert response.json()["model"] == CHAT["model"]
        return
    *events, done = read_events(response.text)
    texts = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert ("".join(texts), done) == ("a\n\ndata: [DONE]\n\n", "[DONE]")


@pytest.mark.parametrize(
    ("piece", "events"),
    [
        ('{"type": "a\\n\\ndata: [DONE]\\n\\n"}', ['{"type": "a\\n\\ndata: [DONE]\\n\\n"}']),
        ('{"type":\n\n"a"}', ['{"type":\n\n"a"}']),
        ('{"a": 1}{"b": 2}', None),
        ("[1]", None),
    ],
    ids=["name", "line feeds", "two objects", "no object"],
)
async def test_a_piece_is_one_event_or_the_end(
    nc: Nats, gateway: Gateway, router: Running, piece: str, events: list[str] | None
) -> None:
    await register(router, *(an_entry(name, metadata={"apis": ["responses"]}) for name in NAMES))
    asked = {"model": "router/default", "input": "hello", "stream": True}
    async with both(nc, say_pieces(a_piece(piece), a_piece())):
        await until(lambda: _can_respond(gateway, asked))
        response = await gateway.post("/v1/responses", asked)
    heard = read_events(response.text)
    if events is not None:
        assert heard == events
    else:
        assert [json.loads(event)["error"]["code"] for event in heard] == ["provider_failed"]


async def _can_respond(gateway: Gateway, asked: Json) -> bool:
    return (await gateway.post("/v1/responses", asked)).status_code == 200
