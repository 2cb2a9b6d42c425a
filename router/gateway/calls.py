"""One request of a client, from its decision to its answer: who is asked, and who is asked next
when that one fails before its first byte (docs/reference/gateway.md#failover).

    decide ──> a provider ── invoke ──> an answer
      ↑            └── it failed, and another may be asked ──┐
      └── the same request, without those that failed <──────┘   `{id}~2`, `{id}~3`

What failed is remembered in the next request itself: `constraints.excluded_providers` names the
providers, `context.status` says how the last one failed, `context.first_request_id` where it began.
Each attempt that reached a provider is one usage event, which the router stores.

After the first byte of a stream nothing is asked again: the client has a part of an answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec
from msgspec import Struct, field

from router.contracts.decision import (
    DECISION_FAILED,
    INVALID_REQUEST,
    MAX_NAMED_PROVIDERS,
    Decision,
)
from router.contracts.malformed import Malformed
from router.contracts.provider_chunk import StreamChunk
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.errors import BrokerUnavailable, NoRouter, RouterError, StreamOverrun, Unanswered
from router.delivery.wire.calls.request_reply import TooLarge
from router.gateway.meter import GatewayMeter
from router.gateway.model.apis import (
    ApiRequest,
    Fields,
    read_fields,
    write_plain_prompt,
    write_prompt,
)
from router.gateway.model.catalogue import ModelCatalogue
from router.gateway.model.refusal import (
    NO_ROUTER,
    PROVIDER_FAILED,
    STREAM_INTERRUPTED,
    TOO_LARGE,
    FailedAttempt,
    GatewayRefusal,
    RetryBudget,
    judge_failure,
    refuse_decision,
)
from router.gateway.settings import GatewayConfig
from router.sdk.client import Answer, Client
from router.sdk.providers import InvocationFailed

MAX_TENANTS = 10_000  # whose further attempts are counted
COUNTED_S = 600.0  # after the last request of a tenant
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # of a whole answer, its pieces together
LEAST_S = 0.05  # of time that is left: below it no further attempt begins


class AskedRequest(Struct, frozen=True, kw_only=True):
    """What a client asks, and for whom."""

    tenant_id: str
    request_id: str
    trace_id: str
    traceparent: str | None
    policy_id: str
    model: str | None  # of a provider, where the client named one
    api: ApiRequest
    context: Mapping[str, object]
    called: list[str] = field(default_factory=list)  # the providers that were asked so far


class ProviderAttempt(Struct, frozen=True, kw_only=True):
    """One provider that is asked. `number` counts from 1."""

    number: int
    request_id: str
    decision: Decision
    prompt: str
    model: str | None
    is_plain: bool

    @property
    def policy(self) -> str:
        told = self.decision.metadata
        return f"{told.get('policy_id', '')}@{told.get('policy_version', '')}"


class WholeAnswer(Struct, frozen=True):
    """`metadata`: of the last chunk, with what was billed."""

    attempt: ProviderAttempt
    body: bytes
    metadata: Mapping[str, str]


class OpenedStream(Struct, frozen=True):
    """A stream whose first chunk has come. `chunks`: the ones after it; close it."""

    attempt: ProviderAttempt
    first: StreamChunk
    chunks: AsyncGenerator[StreamChunk, None]


class _Progress(Struct):
    """What became of a request so far."""

    until: float
    failed: list[str]  # providers
    last: FailedAttempt | None = None
    number: int = 1  # of the attempt


class GatewayCalls:
    """For all clients of a gateway, over one connection."""

    def __init__(
        self,
        client: Client,
        catalogue: ModelCatalogue,
        config: GatewayConfig,
        meter: GatewayMeter,
        now: Clock = steady,
    ) -> None:
        self._client = client
        self._catalogue = catalogue
        self._config = config
        self._decide_s = config.decide_timeout_ms / 1000
        self._meter = meter
        self._now = now
        self._budgets: BoundedCache[str, RetryBudget] = BoundedCache(MAX_TENANTS)

    async def answer(self, asked: AskedRequest) -> WholeAnswer:
        """The whole answer. Raises GatewayRefusal.

        It is asked for as a stream, of mostly one piece: so a client that leaves ends it at its
        source.
        """
        progress = self._begin(asked, self._config.timeout_ms)
        while True:
            attempt = await self._choose(asked, progress)
            async with aclosing(self._stream(asked, attempt, progress)) as chunks:
                try:
                    return await _collect(attempt, chunks)
                except InvocationFailed as exc:
                    failed = judge_failure(exc.code, str(exc), exc.metadata)
                    self._go_on(asked, attempt, failed, progress)
                except RouterError as exc:
                    raise refuse_call(exc) from exc

    async def open_stream(self, asked: AskedRequest) -> OpenedStream:
        """A stream, once its first chunk is there. Raises GatewayRefusal."""
        progress = self._begin(asked, self._config.stream_timeout_ms)
        while True:
            attempt = await self._choose(asked, progress)
            chunks = self._stream(asked, attempt, progress)
            try:
                return OpenedStream(attempt, await anext(chunks), chunks)
            except InvocationFailed as exc:
                failed = judge_failure(exc.code, str(exc), exc.metadata)
                self._go_on(asked, attempt, failed, progress)
            except StopAsyncIteration:
                raise GatewayRefusal(PROVIDER_FAILED, "The stream ended without a word") from None
            except RouterError as exc:
                raise refuse_call(exc) from exc
            except BaseException:  # a client that left, too: the provider's call ends with it
                await chunks.aclose()
                raise

    async def decide_raw(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The router's answer to these bytes. Raises GatewayRefusal."""
        try:
            return await self._client.decide_raw(body, headers, timeout=self._decide_s)
        except RouterError as exc:
            raise refuse_call(exc) from exc

    def _begin(self, asked: AskedRequest, timeout_ms: int) -> _Progress:
        self._find_budget(asked.tenant_id).on_request()
        return _Progress(self._now() + timeout_ms / 1000, [])

    def _find_budget(self, tenant_id: str) -> RetryBudget:
        now = self._now()
        budget = self._budgets.get(tenant_id, now) or RetryBudget(self._config.retry_percent)
        self._budgets.put(tenant_id, budget, now + COUNTED_S, now, owner=tenant_id)
        return budget

    def _go_on(
        self,
        asked: AskedRequest,
        attempt: ProviderAttempt,
        failed: FailedAttempt,
        progress: _Progress,
    ) -> None:
        """Note a failure, so that the next candidate is asked. Raises its refusal where none may
        be.
        """
        progress.failed.append(attempt.decision.provider_id)
        progress.number += 1
        if (
            failed.status is None
            or progress.number > self._config.attempts
            or progress.until - self._now() < LEAST_S
            or not (failed.is_free or self._find_budget(asked.tenant_id).take())
        ):
            raise failed.refusal
        progress.last = failed

    # -- The decision ---------------------------------------------------------------------------

    async def _choose(self, asked: AskedRequest, progress: _Progress) -> ProviderAttempt:
        """The provider of this attempt, and what it is asked. Raises GatewayRefusal."""
        request_id = (
            asked.request_id if progress.number == 1 else f"{asked.request_id}~{progress.number}"
        )
        answer = await self._decide(asked, request_id, progress)
        if answer.decision is None:
            raise _refuse_answer(answer, progress.last)
        if progress.last is not None:
            self._meter.on_failover(progress.failed[-1], progress.last.refusal.code)
        return self._make_attempt(asked, request_id, answer, answer.decision, progress.number)

    async def _decide(self, asked: AskedRequest, request_id: str, progress: _Progress) -> Answer:
        narrowing = self._catalogue.narrow(
            asked.tenant_id, asked.policy_id, asked.api.api, asked.model
        )
        constraints: dict[str, object] = {}
        if narrowing.providers is not None:
            constraints["providers"] = list(narrowing.providers)
        context = {**asked.context, "api": asked.api.api, "model": asked.api.model}
        if progress.last is not None:
            constraints["excluded_providers"] = progress.failed[:MAX_NAMED_PROVIDERS]
            context |= {"status": progress.last.status, "first_request_id": asked.request_id}
        try:
            return await self._client.decide(
                tenant_id=asked.tenant_id,
                message_type=asked.api.api,
                payload=msgspec.Raw(msgspec.json.encode(asked.api.fields)),
                policy_id=asked.policy_id,
                context=context,
                constraints=constraints or None,
                request_id=request_id,
                trace_id=asked.trace_id,
                traceparent=asked.traceparent,
                return_message=True,
                timeout=min(self._decide_s, max(LEAST_S, progress.until - self._now())),
            )
        except (RouterError, Malformed) as exc:
            raise refuse_call(exc) from exc

    def _make_attempt(
        self,
        asked: AskedRequest,
        request_id: str,
        answer: Answer,
        decision: Decision,
        number: int,
    ) -> ProviderAttempt:
        """What the provider is asked: what the pre-processors left of the request."""
        fields = _read_message(answer, asked.api.fields)
        served = self._catalogue.find_served(decision.provider_id)
        is_plain = served is None or served.is_plain
        told = decision.metadata
        model = self._catalogue.choose_model(decision.provider_id, told.get("model"), asked.model)
        prompt = (
            write_plain_prompt(asked.api.api, fields)
            if is_plain
            else write_prompt(fields, model, _read_parameters(told))
        )
        return ProviderAttempt(
            number=number,
            request_id=request_id,
            decision=decision,
            prompt=prompt,
            model=model,
            is_plain=is_plain,
        )

    # -- The invocation -------------------------------------------------------------------------

    def _stream(
        self, asked: AskedRequest, attempt: ProviderAttempt, progress: _Progress
    ) -> AsyncGenerator[StreamChunk, None]:
        asked.called.append(attempt.decision.provider_id)
        return self._client.invoke_stream(
            tenant_id=asked.tenant_id,
            provider_id=attempt.decision.provider_id,
            prompt=attempt.prompt,
            parameters=_list_parameters(asked, attempt),
            context={"policy_id": asked.policy_id},
            request_id=attempt.request_id,
            trace_id=asked.trace_id,
            timeout=max(LEAST_S, progress.until - self._now()),
        )


def _refuse_answer(answer: Answer, last: FailedAttempt | None) -> GatewayRefusal:
    """Where no other candidate is left, the client hears how the last one failed."""
    if answer.error is None:
        return GatewayRefusal(NO_ROUTER, "The router's answer holds no decision")
    if last is not None and answer.error.code == DECISION_FAILED:
        return last.refusal
    return refuse_decision(answer.error)


def _read_message(answer: Answer, original: Fields) -> Fields:
    """The original, unless pre-processors ran: then what they left is all that may be sent on."""
    if answer.message is None:
        return original
    if answer.message.payload_encoding is not None:
        raise GatewayRefusal("pre_processor_failed", "A pre-processor left bytes that are no text")
    try:
        return read_fields(bytes(answer.message.payload))
    except GatewayRefusal as exc:
        text = f"A pre-processor left no JSON object of the request: {exc.message}"
        raise GatewayRefusal("pre_processor_failed", text) from exc


def _read_parameters(told: Mapping[str, str]) -> Mapping[str, object]:
    """Of the policy's candidate, as the decision has them."""
    written = told.get("parameters")
    parameters = msgspec.json.decode(written) if written is not None else {}
    return parameters if isinstance(parameters, dict) else {}


async def _collect(
    attempt: ProviderAttempt, chunks: AsyncGenerator[StreamChunk, None]
) -> WholeAnswer:
    parts, size = [], 0
    async for chunk in chunks:
        data = chunk.data if isinstance(chunk.data, bytes) else chunk.data.encode()
        size += len(data)
        if size > MAX_ANSWER_BYTES:
            break
        parts.append(data)
        if chunk.done:
            return WholeAnswer(attempt, b"".join(parts), chunk.metadata)
    text = "The provider's answer has no end, or is too large"
    raise GatewayRefusal(PROVIDER_FAILED, text)


def _list_parameters(asked: AskedRequest, attempt: ProviderAttempt) -> Mapping[str, object]:
    """The API, and how long an answer may be: budgets reserve by it."""
    most = asked.api.most_tokens
    told: dict[str, object] = {} if most is None else {"max_tokens": most}
    if not attempt.is_plain:
        told |= {"api": asked.api.api, "stream": asked.api.is_stream}
    return told


def refuse_call(exc: Exception) -> GatewayRefusal:
    """What trouble on the way to the router is to a client. Ids and addresses stay here."""
    match exc:
        case Malformed():
            return GatewayRefusal(INVALID_REQUEST, str(exc), param=exc.field)
        case TooLarge():
            return GatewayRefusal(TOO_LARGE, "The request is larger than the broker takes")
        case NoRouter() | Unanswered():
            return GatewayRefusal(NO_ROUTER, "No router answers", retry_after_ms=1_000)
        case StreamOverrun():
            return GatewayRefusal(STREAM_INTERRUPTED, "The stream was read too slowly")
        case BrokerUnavailable():
            return GatewayRefusal(NO_ROUTER, "The broker is unavailable", retry_after_ms=1_000)
        case InvocationFailed():
            return judge_failure(exc.code, str(exc), exc.metadata).refusal
        case _:
            return GatewayRefusal("internal", "The gateway could not ask the router")
