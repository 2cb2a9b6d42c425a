"""What is asked of an API, read and bounded before anything is sent.

    parameters.api    the prompt is the JSON text of that API's request body, in OpenAI's shape
    none              a plain prompt: a chat with one message of the user, answered as text

    parameters.stream: false    the whole answer, also where it is asked for as a stream, whose
                                asker is heard to leave: then the pieces are parts of one text

The body's content is not understood here. Its model is, since the service may serve some alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import orjson
from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, is_deeper
from router.contracts.provider_call import STREAM_HEADER
from router.core.ids import is_opaque
from router.extensions.model.failure import REQUESTS
from router.providers.models import ServedModels
from router.sdk.extension import Invocation
from router.sdk.extension.request import RequestFailed

CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES = (
    "chat.completions",
    "completions",
    "embeddings",
    "responses",
)
# the service says itself whether it streams, and what a plain prompt's messages are
_OWN = frozenset({"api", "messages", "n", "stream", "stream_options"})


class ApiCall(Struct, frozen=True, kw_only=True):
    """`body` has its model, and neither `stream` nor `stream_options`.

    `is_stream`: the API is asked for a stream. `has_pieces`: the asker listens to pieces, also
    where they are parts of a whole answer.
    """

    api: str
    body: dict[str, Any]
    is_stream: bool = False
    has_pieces: bool = False
    is_plain: bool = False

    @property
    def model(self) -> str:
        return str(self.body["model"])


def read_call(invocation: Invocation, apis: tuple[str, ...], models: ServedModels) -> ApiCall:
    """Read it. Raises RequestFailed: it is the request's fault."""
    if not isinstance(invocation.prompt, str):
        refuse_call("prompt", "should be text")
    api = invocation.parameters.get("api")
    if api is not None and api not in apis:
        refuse_call("parameters.api", f"this provider answers {', '.join(apis)} alone")
    body = _read_body(invocation.prompt) if api is not None else _make_chat(invocation)
    model = _choose_model(body, invocation.config, models)
    has_pieces = invocation.headers.get(STREAM_HEADER) == "true"
    is_whole = api is not None and invocation.parameters.get("stream") is False
    kept = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    return ApiCall(
        api=CHAT if api is None else str(api),
        body={**models.get_defaults(model), **kept, "model": model},
        is_stream=has_pieces and not is_whole and api != EMBEDDINGS,
        has_pieces=has_pieces,
        is_plain=api is None,
    )


def _make_chat(invocation: Invocation) -> dict[str, Any]:
    given = {name: value for name, value in invocation.parameters.items() if name not in _OWN}
    return {**given, "messages": [{"role": "user", "content": invocation.prompt}]}


def _read_body(prompt: str) -> dict[str, Any]:
    data = prompt.encode("utf-8", "replace")
    if is_deeper(data, MAX_DEPTH):
        refuse_call("prompt", f"nests deeper than {MAX_DEPTH}")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        refuse_call("prompt", "should be the JSON of the API's request")
    if not isinstance(body, dict):
        refuse_call("prompt", "should be a JSON object")
    return body


def _choose_model(body: Mapping[str, Any], config: Mapping[str, Any], models: ServedModels) -> str:
    """As it is asked for; else as the registry's entry says, else the first that is served."""
    model = body.get("model") or config.get("model") or models.first
    if not isinstance(model, str) or not is_opaque(model):
        refuse_call("model", "should be 1..128 printable characters of ASCII without a space")
    if not models.may_serve(model):
        refuse_call("model", "is none that this provider serves", 404, "model_not_found")
    return model


def refuse_call(
    field: str, legal: str, status: int = 400, code: str = "invalid_request"
) -> NoReturn:
    """Raises RequestFailed, which names the field and never its value."""
    raise RequestFailed(status, code, f"Invalid field: {field}: {legal}", field, fault=REQUESTS)
