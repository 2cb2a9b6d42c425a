"""OpenAI's API, of whichever server speaks it: what is asked and what is answered passes through.

    chat.completions    /chat/completions       completions    /completions
    embeddings          /embeddings             responses      /responses

A stream of the first two is asked for with its usage. The event that the server adds for it is told
as `Usage` and not passed on: the asker did not ask for it, and the gateway makes its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from router.core.errors import RouterError
from router.providers.api_call import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, ApiCall, refuse_call
from router.providers.event_lines import ServerEvent, ServerEventReader
from router.providers.kinds import ApiEvent, Json, Piece, describe_answer
from router.providers.kinds.chat import find_finish_reason, read_usage
from router.providers.models import list_legal
from router.providers.upstream import OpenAnswer, Upstream, make_api_failure, read_object
from router.sdk.extension import Output, ProviderFailed, Usage

PATHS = {
    CHAT: "/chat/completions",
    COMPLETIONS: "/completions",
    EMBEDDINGS: "/embeddings",
    RESPONSES: "/responses",
}
DONE = "[DONE]"
ENDS = ("response.completed", "response.incomplete")  # of a stream of `responses`
FAILED = ("error", "response.failed")


class OpenaiKind:
    apis: tuple[str, ...] = tuple(PATHS)

    def __init__(self, upstream: Upstream, *, asks_usage: bool = True) -> None:
        self._upstream = upstream
        self._asks_usage = asks_usage

    async def list_models(self) -> tuple[str, ...]:
        listed = (await self._upstream.ask("/models")).fields.get("data")
        models = listed if isinstance(listed, list) else []
        return list_legal(model.get("id") for model in models if isinstance(model, dict))

    async def complete(self, call: ApiCall) -> Output:
        _require_own(call)
        answer = await self._upstream.ask(PATHS[call.api], call.body)
        fields = answer.fields
        if fields.get("error"):
            raise make_api_failure(502, fields)
        usage = _complete_usage(call.api, read_usage(fields.get("model"), fields.get("usage")))
        facts = describe_answer(
            upstream_request_id=answer.request_id, finish_reason=find_finish_reason(fields)
        )
        return Output(output=fields, metadata=facts, **_figures(usage))

    async def stream(self, call: ApiCall) -> AsyncGenerator[Piece, None]:
        _require_own(call)
        body: Json = {**call.body, "stream": True}
        if call.api != RESPONSES and self._asks_usage:
            body["stream_options"] = {"include_usage": True}
        state = _StreamState(call.api)
        async with self._upstream.stream(PATHS[call.api], body) as answer:
            async for event in read_events(answer):
                for piece in state.take(event):
                    yield piece
                if state.has_ended:
                    break
        yield state.finish(answer.request_id)


class _StreamState:
    """What has come of one stream."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._usage = Usage()
        self._finish_reason: str | None = None
        self.has_ended = False

    def take(self, event: ServerEvent) -> list[Piece]:
        """Raises what the event says, where it is an error."""
        if event.data == DONE:
            self.has_ended = True
            return []
        fields = read_object(event.data)
        if self._api == RESPONSES:
            return self._take_typed(fields)
        if fields.get("error"):
            raise make_stream_failure(fields["error"])
        self._finish_reason = find_finish_reason(fields) or self._finish_reason
        told = fields.pop("usage", None)
        pieces: list[Piece] = self._tell(fields.get("model"), told)
        return [*pieces, ApiEvent(fields)] if fields.get("choices") else pieces

    def _take_typed(self, fields: Json) -> list[Piece]:
        kind, response = fields.get("type"), fields.get("response")
        parts: Json = response if isinstance(response, dict) else {}
        if kind in FAILED:
            raise make_stream_failure(parts.get("error") or fields.get("error") or fields)
        self.has_ended = kind in ENDS
        pieces = self._tell(parts.get("model"), parts.get("usage"))
        return [*pieces, ApiEvent(fields)]

    def _tell(self, model: object, told: object) -> list[Piece]:
        """`Usage` where it is news: the model with the first event, the tokens when they come."""
        if self._usage.model is not None and not isinstance(told, dict):
            return []
        usage = read_usage(model, told)
        if usage in (Usage(), self._usage):
            return []
        self._usage = usage
        return [usage]

    def finish(self, request_id: str | None) -> Output:
        """Raises ProviderFailed for a stream that was cut."""
        if not self.has_ended and self._finish_reason is None:
            raise ProviderFailed("the API's stream ended before its end")
        facts = describe_answer(upstream_request_id=request_id, finish_reason=self._finish_reason)
        return Output(metadata=facts, **_figures(self._usage))


async def read_events(answer: OpenAnswer) -> AsyncIterator[ServerEvent]:
    """Raises ValueError, which `Upstream` translates."""
    reader = ServerEventReader()
    async for chunk in answer.chunks:
        for event in reader.feed(chunk):
            yield event


def make_stream_failure(error: object) -> RouterError:
    """The failure that an error inside a stream means: by its own number, else by its word."""
    number = error.get("code") if isinstance(error, dict) else None
    status = number if isinstance(number, int) and 400 <= number <= 599 else 502
    word = error.get("type") if isinstance(error, dict) else None
    return make_api_failure(STATUSES.get(str(word), status), {"error": error})


# the words that OpenAI and Anthropic have for errors inside a stream
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}


def _require_own(call: ApiCall) -> None:
    """All tenants share one key, so what the API keeps under it is not for a tenant to name. And
    what runs in the background tells no usage.
    """
    if call.api != RESPONSES:
        return
    for name in ("previous_response_id", "conversation", "background"):
        if call.body.get(name):
            refuse_call(name, "is not possible through a provider that tenants share")


def _complete_usage(api: str, usage: Usage) -> Usage:
    """Embeddings have no output that is counted."""
    if api != EMBEDDINGS:
        return usage
    return Usage(model=usage.model, prompt_tokens=usage.prompt_tokens, completion_tokens=0)


def _figures(usage: Usage) -> dict[str, Any]:
    return {name: value for name, value in usage.told.items() if value is not None}
