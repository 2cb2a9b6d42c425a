"""An HTTP provider that answers at once, and a program that passes its answers through.

`serve` is the provider, the same for all sides: a protocol of its own on asyncio, so that it costs
little beside what is measured. It reads whether a stream is asked for, and nothing else.

`pass_through` is the floor of what a gateway in Python costs: Starlette and httpx2's client, which
read no key, choose no provider and count nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx2
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bench.child import Ready
from bench.question import Measured
from bench.sides.http_asker import HEAD_END, read_length

MODEL = "small"
WORDS = [
    "It",
    "rains",
    "in",
    "Lisbon",
    "this",
    "afternoon",
    ",",
    "so",
    "take",
    "a",
    "coat",
    "with",
    "you",
    ".",
]
HEAD = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": MODEL}
USAGE = {"prompt_tokens": 20, "completion_tokens": len(WORDS), "total_tokens": 20 + len(WORDS)}
BACKLOG = 1024


def _make_response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + HEAD_END + body


def _make_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _list_events() -> Iterator[bytes]:
    """What a stream sends, each with a write of its own."""
    for place, word in enumerate(WORDS):
        delta = {"content": f"{word} ", **({"role": "assistant"} if place == 0 else {})}
        yield _write_event([{"index": 0, "delta": delta, "finish_reason": None}])
    yield _write_event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    yield _write_event([], USAGE)
    yield b"data: [DONE]\n\n"


def _write_event(choices: list[dict[str, object]], usage: object = None) -> bytes:
    event = {**HEAD, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
    return b"data: " + orjson.dumps(event) + b"\n\n"


_MESSAGE = {"role": "assistant", "content": " ".join(WORDS)}
_CHOICE = {"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}
WHOLE = _make_response(
    orjson.dumps({**HEAD, "object": "chat.completion", "choices": [_CHOICE], "usage": USAGE})
)
MODELS = _make_response(
    orjson.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0}]})
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked" + HEAD_END
)
PIECES = (STREAM_HEAD, *(map(_make_chunk, _list_events())), b"0\r\n\r\n")


class StandIn(asyncio.Protocol):
    """One connection. A stream's events leave one a turn of the loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(HEAD_END)
        if not end or len(body) < read_length(head):
            return
        self._buffer = b""
        if head.startswith(b"GET"):
            self._transport.write(MODELS)
        elif b'"stream":true' in body or b'"stream": true' in body:
            self._send(iter(PIECES))
        else:
            self._transport.write(WHOLE)

    def _send(self, pieces: Iterator[bytes]) -> None:
        if not self._transport.is_closing() and (piece := next(pieces, None)) is not None:
            self._transport.write(piece)
            asyncio.get_running_loop().call_soon(self._send, pieces)


async def serve(ready: Ready) -> Measured:
    """The provider, until it is killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(StandIn, "127.0.0.1", 0, backlog=BACKLOG)
    ready(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    await server.serve_forever()
    return {}


# -- The floor.


async def pass_through(ready: Ready, *, upstream: str) -> Measured:
    """A proxy of the address, until it is killed."""
    limits = httpx2.Limits(max_connections=BACKLOG, max_keepalive_connections=BACKLOG)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def answer(request: Request) -> Response:
            sent = client.build_request(
                "POST",
                f"{upstream}/chat/completions",
                content=await request.body(),
                headers={"content-type": "application/json"},
            )
            response = await client.send(sent, stream=True)
            media_type = response.headers["content-type"]
            if media_type == "text/event-stream":
                return StreamingResponse(_read(response), media_type=media_type)
            body = await response.aread()
            return Response(body, response.status_code, media_type=media_type)

        app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
        config = uvicorn.Config(
            app, lifespan="off", ws="none", log_config=None, access_log=False, backlog=BACKLOG
        )
        with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
            # taken over by its connections: asyncio does so only for sockets that name TCP
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready(url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            await uvicorn.Server(config).serve([listener])
    return {}


async def _read(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    finally:
        await response.aclose()
