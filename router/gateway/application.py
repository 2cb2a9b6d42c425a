"""The gateway's addresses: OpenAI's API, and the router's own.

    POST /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses
    GET  /v1/models, /v1/models/{model}
    POST /api/v1/routes/decide

A body is read only once the key of its request was found. Every error has OpenAI's shape, also that
of an address that is not there. Nothing of a body, a key or an answer is logged.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from router.contracts.decision import INTERNAL, INVALID_REQUEST, OVERLOADED
from router.contracts.headers import TRACEPARENT, is_traceparent
from router.core.fair_slots import FairSlots
from router.gateway import asked_once
from router.gateway.answers import (
    EventStream,
    HeldStream,
    find_cost,
    list_headers,
    write_whole,
)
from router.gateway.asked_once import EVENT_STREAM, AskedOnce
from router.gateway.calls import AskedRequest, GatewayCalls
from router.gateway.doorkeeper import Doorkeeper, choose_usual_policy, require_policy
from router.gateway.kept_answers import RunningRequest
from router.gateway.keys.model.api_key import ApiKey
from router.gateway.meter import GatewayMeter
from router.gateway.model import apis, refusal
from router.gateway.model.apis import Fields, read_fields
from router.gateway.model.catalogue import ModelCatalogue
from router.gateway.model.kept_answer import JSON, KeptAnswer, find_identity, find_request_id
from router.gateway.model.refusal import GatewayRefusal
from router.gateway.open_requests import OpenRequests
from router.gateway.settings import GatewayConfig
from router.process.observability import events, logs

log = logs.logger(__name__)

# a proxy between would hold events back
STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
CLIENT_LEFT = 499  # no client hears it; the metric has it
OVERLOADED_MS = 1_000
Endpoint = Callable[[Request], Awaitable[Response]]


class GatewayPages:
    """The endpoints. `calls` and `catalogue` may serve any number of requests at once."""

    def __init__(
        self,
        calls: GatewayCalls,
        catalogue: ModelCatalogue,
        doorkeeper: Doorkeeper,
        config: GatewayConfig,
        meter: GatewayMeter,
        *,
        once: AskedOnce,
    ) -> None:
        self.open_requests = OpenRequests()
        self._calls = calls
        self._once = once
        self._catalogue = catalogue
        self._doorkeeper = doorkeeper
        self._config = config
        self._meter = meter
        self._slots = FairSlots(config.at_once)

    # -- OpenAI's API ---------------------------------------------------------------------------

    async def ask(self, api: str, request: Request) -> Response:
        """One request of an API: whole, or as a stream."""
        begun, key = monotonic(), self.admit(request)
        self._take_slot(key.tenant_id)
        is_handed_on = False
        try:
            body = await self.read_body(request)
            asked = self._read_asked(api, key, request, body)
            identity, once = find_identity(request.headers), None
            if identity is not None:
                once = await self._begin_once(identity, asked, request, body)
            if isinstance(once, KeptAnswer):
                return asked_once.repeat(once)
            if asked.api.is_stream:
                response: Response = await self._stream(asked, request, begun, once)
                is_handed_on = True
            elif once is None:
                response = await self.open_requests.run_for_client(request, self._answer(asked))
            else:
                is_handed_on = True
                on_end = partial(self._slots.release, key.tenant_id)
                answering = self._once.answer(asked, once, self._answer(asked), on_end)
                response = await self.open_requests.run_for_client(request, answering)
            return response
        finally:
            if not is_handed_on:
                self._slots.release(key.tenant_id)

    def admit(self, request: Request) -> ApiKey:
        key = self._doorkeeper.admit(
            request.headers, request.client.host if request.client is not None else ""
        )
        request.state.tenant_id = key.tenant_id
        return key

    def _take_slot(self, tenant_id: str) -> None:
        """Before a body is read: what waits in memory is bounded by it."""
        if not self._slots.acquire(tenant_id):
            text = "This tenant has too many requests in flight"
            raise GatewayRefusal(OVERLOADED, text, retry_after_ms=OVERLOADED_MS)

    @contextmanager
    def hold_slot(self, key: ApiKey) -> Iterator[None]:
        """A place of the key's tenant for the block. Raises GatewayRefusal where it has none."""
        self._take_slot(key.tenant_id)
        try:
            yield
        finally:
            self._slots.release(key.tenant_id)

    async def read_body(self, request: Request) -> bytes:
        """Raises GatewayRefusal for a body that is too large or too slow."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._config.body_timeout_ms / 1000):
                async for part in request.stream():
                    size += len(part)
                    if size > apis.MAX_BODY_BYTES:
                        text = f"A request has at most {apis.MAX_BODY_BYTES} bytes"
                        raise GatewayRefusal(refusal.TOO_LARGE, text)
                    parts.append(part)
        except TimeoutError:
            raise GatewayRefusal(refusal.REQUEST_TIMEOUT, "The body did not come in time") from None
        return b"".join(parts)

    def _read_asked(self, api: str, key: ApiKey, request: Request, body: bytes) -> AskedRequest:
        asked = apis.read_api_request(api, body)
        named = apis.find_policy(asked.model, choose_usual_policy(key, apis.DEFAULT_POLICY))
        require_policy(key, named.policy_id)
        traceparent = request.headers.get(TRACEPARENT, "")
        is_traced = bool(is_traceparent(traceparent))
        return AskedRequest(
            tenant_id=key.tenant_id,
            request_id=find_request_id(request.headers) or uuid.uuid4().hex,
            trace_id=traceparent.split("-")[1] if is_traced else uuid.uuid4().hex,
            traceparent=traceparent if is_traced else None,
            policy_id=named.policy_id,
            model=named.model,
            api=asked,
            context={"key_id": key.key_id},
        )

    async def _begin_once(
        self, identity: str, asked: AskedRequest, request: Request, body: bytes
    ) -> RunningRequest | KeptAnswer:
        config = self._config
        within_ms = config.stream_timeout_ms if asked.api.is_stream else config.timeout_ms
        beginning = self._once.begin(identity, asked, body, within_ms / 1000)
        return await self.open_requests.run_for_client(request, beginning)

    async def _answer(self, asked: AskedRequest) -> Response:
        answer = await self._calls.answer(asked)
        body = write_whole(asked, answer)
        cost = find_cost(answer.metadata)
        return Response(body, headers=list_headers(asked, answer.attempt, cost), media_type=JSON)

    async def _stream(
        self, asked: AskedRequest, request: Request, begun: float, once: RunningRequest | None
    ) -> Response:
        with asked_once.ending_failures(asked, once):
            opened = await self.open_requests.run_for_client(
                request, self._calls.open_stream(asked)
            )
        self._meter.on_first_byte(asked.api.api, monotonic() - begun)
        self._meter.on_stream(1)
        stream = EventStream(asked, opened)
        headers = {**STREAM_HEADERS, **list_headers(asked, opened.attempt)}
        return HeldStream(
            stream.write()
            if once is None
            else asked_once.keep_events(stream, asked, once, headers),
            self.open_requests.hold(stream.interrupt),
            on_end=partial(self._on_stream_end, asked, once),
            keep_alive_s=self._config.keep_alive_ms / 1000,
            headers=headers,
            media_type=EVENT_STREAM,
        )

    def _on_stream_end(self, asked: AskedRequest, once: RunningRequest | None) -> None:
        asked_once.interrupt(asked, once)
        self._meter.on_stream(-1)
        self._slots.release(asked.tenant_id)

    async def list_models(self, request: Request) -> Response:
        key = self.admit(request)
        models = [_describe_model(name) for name in self._list_names(key)]
        return Response(orjson.dumps({"object": "list", "data": models}), media_type=JSON)

    async def show_model(self, request: Request) -> Response:
        key, name = self.admit(request), request.path_params["model"]
        if name not in self._list_names(key):
            raise GatewayRefusal(refusal.MODEL_NOT_FOUND, "There is no such model", param="model")
        return Response(orjson.dumps(_describe_model(name)), media_type=JSON)

    def _list_names(self, key: ApiKey) -> list[str]:
        usual = choose_usual_policy(key, apis.DEFAULT_POLICY)
        return list(self._catalogue.list_models(key.tenant_id, usual, key.policies))

    # -- The router's own -----------------------------------------------------------------------

    async def decide(self, request: Request) -> Response:
        """A decide request in any JSON form that the stream takes; its tenant is the key's."""
        key = self.admit(request)
        with self.hold_slot(key):
            return await self._decide(key, request)

    async def _decide(self, key: ApiKey, request: Request) -> Response:
        fields = read_fields(await self.read_body(request))
        policy_id = read_text(fields, "policy_id") or choose_usual_policy(key, apis.DEFAULT_POLICY)
        require_policy(key, policy_id)
        require_tenant(fields, key.tenant_id)
        body = msgspec.json.encode({**fields, "policy_id": policy_id})
        headers = {"tenant_id": key.tenant_id, "version": "1", "trace_id": uuid.uuid4().hex}
        answer = await self.open_requests.run_for_client(
            request, self._calls.decide_raw(body, headers)
        )
        status = 200 if answer.error is None else refusal.refuse_decision(answer.error).status
        return Response(answer.raw, status_code=status, media_type=JSON)


def require_tenant(fields: Fields, tenant_id: str) -> None:
    """Raises GatewayRefusal for a body that names another tenant than its key's."""
    message = fields.get("message")
    inner = read_fields(bytes(message)) if message is not None else {}
    for name, place in ((fields, "tenant_id"), (inner, "message.tenant_id")):
        if read_text(name, "tenant_id") not in (None, tenant_id):
            raise GatewayRefusal(refusal.FORBIDDEN, "This key is another tenant's", param=place)


def read_text(fields: Fields, name: str) -> str | None:
    """Raises GatewayRefusal for what is no text."""
    written = fields.get(name)
    value = msgspec.json.decode(written) if written is not None else None
    if value is None or isinstance(value, str):
        return value
    raise GatewayRefusal(INVALID_REQUEST, f"{name} should be text", param=name)


def _describe_model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "router"}


# -- Responses.


def make_error(refused: GatewayRefusal) -> Response:
    after_s = refused.retry_after_s
    headers = {} if after_s is None else {"retry-after": str(after_s)}
    return Response(refused.body, refused.status, headers, JSON)


# -- The application.


def build_application(
    pages: GatewayPages, meter: GatewayMeter, services: Iterable[tuple[str, str, Endpoint]] = ()
) -> Starlette:
    """Every address, with errors in OpenAI's shape.

    `services`: method, path and endpoint of more.
    """

    def serve(api: str, endpoint: Endpoint) -> Endpoint:
        return partial(_respond, api, endpoint, meter)

    asked = {
        "/v1/chat/completions": apis.CHAT,
        "/v1/completions": apis.COMPLETIONS,
        "/v1/embeddings": apis.EMBEDDINGS,
        "/v1/responses": apis.RESPONSES,
    }
    routes = [
        Route(path, serve(api, partial(pages.ask, api)), methods=["POST"])
        for path, api in asked.items()
    ]
    routes += [
        Route("/v1/models", serve("models", pages.list_models), methods=["GET"]),
        # a policy's name has a slash in it
        Route("/v1/models/{model:path}", serve("models", pages.show_model), methods=["GET"]),
        Route("/api/v1/routes/decide", serve("decide", pages.decide), methods=["POST"]),
    ]
    routes += [
        Route(path, serve("services", endpoint), methods=[method])
        for method, path, endpoint in services
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _on_http_exception})


async def _respond(api: str, endpoint: Endpoint, meter: GatewayMeter, request: Request) -> Response:
    begun = monotonic()
    try:
        response = await endpoint(request)
    except GatewayRefusal as exc:
        response = make_error(exc)
    except ClientDisconnect:
        response = Response(status_code=CLIENT_LEFT)
    except Exception as exc:  # every request gets a response
        log.exception(events.GATEWAY_FAILED, api=api, error=type(exc).__name__)
        response = make_error(GatewayRefusal(INTERNAL, "The gateway failed"))
    tenant_id = getattr(request.state, "tenant_id", "")
    meter.on_request(api, response.status_code, tenant_id, monotonic() - begun)
    return response


async def _on_http_exception(_: Request, exc: Exception) -> Response:
    is_method = isinstance(exc, HTTPException) and exc.status_code == 405
    code = refusal.METHOD_NOT_ALLOWED if is_method else refusal.NOT_FOUND
    text = "This address takes another method" if is_method else "There is no such address"
    return make_error(GatewayRefusal(code, text))
