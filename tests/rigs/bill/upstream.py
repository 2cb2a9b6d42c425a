"""The HTTP API that all providers of the rig ask, and its ledger: which call it heard, what it
answered, and the tokens that it told.

A request is `bill N`; `plan_faults` says for which N the first call goes wrong, and how. A further
attempt, by another provider, is answered well.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.inbox import a_service

FAULTS = ("500", "429", "cut", "hang", "garbage", "slow")
WORDS = 12  # of an answer
PAUSE_S = 0.02  # between two of a stream
HANG_S = 8.0  # longer than a provider waits


class UpstreamCall(Struct):
    """One call that was heard. `tokens`: as they were told, of an answer that was sent whole."""

    number: int
    provider: str
    is_stream: bool
    fault: str | None
    tokens: tuple[int, int] | None = None


def plan_faults(requests: int, share: float, seed: int) -> Mapping[int, str]:
    dice = Random(seed)
    return {n: dice.choice(FAULTS) for n in range(requests) if dice.random() < share}


class Upstream:
    """`calls`: its ledger."""

    def __init__(self, faults: Mapping[int, str]) -> None:
        self.calls: list[UpstreamCall] = []
        self.url = ""
        self._faults = faults
        self._heard: set[int] = set()
        self.app = Starlette(
            routes=[
                Route("/{provider}/chat/completions", self._answer, methods=["POST"]),
                Route("/{provider}/models", self._list_models),
            ]
        )

    async def _list_models(self, _: Request) -> Response:
        model = {"id": "small", "object": "model", "created": 0, "owned_by": "rig"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        number = int(body["messages"][-1]["content"].split()[1])
        fault = None if number in self._heard else self._faults.get(number)
        self._heard.add(number)
        call = UpstreamCall(
            number, request.path_params["provider"], bool(body.get("stream")), fault
        )
        self.calls.append(call)
        if (failed := await _fail(fault)) is not None:
            return failed
        if not call.is_stream:
            call.tokens = (2, WORDS)
            return JSONResponse({**_head(), "choices": [_choice()], "usage": _usage()})
        return StreamingResponse(_stream(call, fault), media_type="text/event-stream")


async def _fail(fault: str | None) -> Response | None:
    match fault:
        case "500":
            return JSONResponse({"error": {"message": "broken"}}, 500)
        case "429":
            return JSONResponse({"error": {"message": "slow"}}, 429, {"retry-after": "1"})
        case "garbage":
            return Response(b"<html>no JSON</html>", media_type="application/json")
        case "hang":
            await asyncio.sleep(HANG_S)
            return JSONResponse({"error": {"message": "late"}}, 500)
        case "slow":
            await asyncio.sleep(0.5)
    return None


async def _stream(call: UpstreamCall, fault: str | None) -> AsyncIterator[bytes]:
    for word in range(WORDS):
        choice = {"index": 0, "delta": {"content": f"w{word} "}, "finish_reason": None}
        yield _event({**_head(), "object": "chat.completion.chunk", "choices": [choice]})
        await asyncio.sleep(PAUSE_S)
        if fault == "cut" and word == WORDS // 2:
            return
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield _event({**_head(), "object": "chat.completion.chunk", "choices": [end]})
    call.tokens = (2, WORDS)
    yield _event({**_head(), "choices": [], "usage": _usage()})
    yield b"data: [DONE]\n\n"


def _head() -> dict[str, object]:
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "small"}


def _choice() -> dict[str, object]:
    text = "".join(f"w{word} " for word in range(WORDS))
    message = {"role": "assistant", "content": text}
    return {"index": 0, "message": message, "finish_reason": "stop"}


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 2, "completion_tokens": WORDS, "total_tokens": 2 + WORDS}


def _event(fields: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


@asynccontextmanager
async def serve_upstream(faults: Mapping[int, str]) -> AsyncIterator[Upstream]:
    upstream = Upstream(faults)
    async with a_service(upstream.app) as url:
        upstream.url = url.removesuffix("/handle")
        yield upstream
