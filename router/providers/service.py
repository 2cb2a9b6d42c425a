"""One provider service: an extension of the kind `provider` whose answers come from an API.

    asked whole      one object in OpenAI's shape; the text alone where a plain prompt was asked
    whole, in pieces the text of that object, in parts
    asked a stream   each event as its JSON text; the pieces of text for a plain prompt

Its registry entry says which APIs it understands and which models it has. The entry's `timeout_ms`
bounds an answer, and the silence between two pieces.

Tenants share the calls of the API that may be under way: one that floods waits, the others do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from router.config import Settings
from router.core.errors import Misconfigured, RouterError
from router.core.fair_slots import FairTurns
from router.extensions.model.entry import PROVIDER
from router.process.memory import calm_collector
from router.process.observability import events, logs
from router.providers.api_call import ApiCall, read_call
from router.providers.key_file import KeyFile
from router.providers.kinds import ApiEvent, ProviderKind
from router.providers.kinds.chat import find_text, find_whole_text
from router.providers.kinds.echo import EchoKind
from router.providers.models import ServedModels, load_models
from router.providers.options import ANTHROPIC, ECHO, OLLAMA, OPENAI, ProviderOptions
from router.sdk.extension import (
    Extension,
    ExtensionServer,
    Invocation,
    Output,
    ProviderFailed,
    RateLimited,
    Usage,
)
from router.sdk.extension.server import entry_of

if TYPE_CHECKING:
    from router.providers.upstream import Upstream

log = logs.logger(__name__)

# Requests that are at work or wait for their tenant's turn. Those of one tenant that wait.
IN_FLIGHT, MAX_WAITING = 4096, 1024
PART_LETTERS = 64 * 1024  # of a whole answer that travels in pieces
LIST_S = 10.0  # for the list of models, at the start
ANTHROPIC_VERSION = "2023-06-01"
BASE_URLS = {
    OPENAI: "https://api.openai.com/v1",
    ANTHROPIC: "https://api.anthropic.com",
    OLLAMA: "http://127.0.0.1:11434",
}


class ProviderService:
    """Raises Misconfigured. `open` holds its connections, and asks once which models there are."""

    def __init__(self, options: ProviderOptions) -> None:
        self.options = options
        self._upstream = _make_upstream(options)
        self._turns = FairTurns(options.concurrency)
        self._kind = _make_kind(options, self._upstream)
        path = options.models_file
        self._models = load_models(path) if path is not None else ServedModels()

    @property
    def models(self) -> tuple[str, ...]:
        return self._models.names

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Extension]:
        if self._upstream is None:
            await self._find_models()
            yield self._make_extension()
            return
        async with self._upstream.open():
            await self._find_models()
            yield self._make_extension()

    async def make_entry(self) -> Mapping[str, object]:
        """The registry entry that it asks for."""
        async with self.open() as extension:
            return entry_of(extension, {})

    async def answer(self, invocation: Invocation) -> AsyncGenerator[str | Usage | Output, None]:
        """A provider of Router that asks an HTTP API."""
        call = read_call(invocation, self._kind.apis, self._models)
        if self._turns.count_waiting(invocation.tenant_id) >= MAX_WAITING:
            raise RateLimited("too many calls of this tenant wait", retry_after=1)
        async with self._turns.hold(invocation.tenant_id):
            try:
                async with aclosing(self._ask(call)) as pieces:
                    async for piece in pieces:
                        yield piece
            except RouterError as exc:
                raise self._hide_key(exc) from None

    async def _ask(self, call: ApiCall) -> AsyncGenerator[str | Usage | Output, None]:
        if not call.is_stream:
            for part in _split(call, await self._kind.complete(call)):
                yield part
            return
        async with aclosing(self._kind.stream(call)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, ApiEvent):
                    yield piece
                elif text := _write_event(call, piece):
                    yield text

    def _hide_key(self, exc: RouterError) -> RouterError:
        """The error; another one, where the API quotes the key in it."""
        is_quoted = self._upstream is not None and self._upstream.has_key_in(str(exc))
        return ProviderFailed("the API's error quotes this provider's key") if is_quoted else exc

    async def _find_models(self) -> None:
        """A file says all; an API that does not list its models serves on."""
        if self._models.names:
            return
        try:
            async with asyncio.timeout(LIST_S):
                self._models = ServedModels(await self._kind.list_models())
        except (RouterError, TimeoutError) as exc:
            why = str(self._hide_key(exc)) if isinstance(exc, RouterError) else "no answer in time"
            log.warning(events.PROVIDER_MODELS_UNKNOWN, provider=self.options.name, why=why)

    def _make_extension(self) -> Extension:
        metadata: dict[str, object] = {"apis": list(self._kind.apis)}
        if self._models.names:
            metadata["models"] = list(self._models.names)
        return Extension(
            self.answer,
            PROVIDER,
            self.options.name,
            self.options.version,
            blocking=False,
            timeout_ms=self.options.timeout_ms,
            retry=None,
            metadata=metadata,
        )


def _split(call: ApiCall, output: Output) -> list[str | Output]:
    """A whole answer, or its parts: so a large one fits into messages."""
    fields = output.output
    if call.is_plain:
        fields = find_whole_text(fields) if isinstance(fields, dict) else ""
    if not call.has_pieces:
        return [replace(output, output=fields)]
    text = orjson.dumps(fields).decode()
    parts = [text[place : place + PART_LETTERS] for place in range(0, len(text), PART_LETTERS)]
    return [*parts, replace(output, output="")]


def _write_event(call: ApiCall, event: ApiEvent) -> str:
    if call.is_plain:
        return find_text(event.fields)
    return orjson.dumps(event.fields).decode()


async def serve_provider(
    service: ProviderService, settings: Settings, on_ready: Callable[..., None]
) -> None:
    """Serve until cancelled; then what is in flight may finish. `on_ready` gets what it tells."""
    options, key = service.options, settings.admin.api_key
    with calm_collector():
        async with service.open() as extension:
            server = ExtensionServer(
                extension,
                nats=settings.nats,
                register=options.is_registered,
                api_key=key.get_secret_value() if key is not None else None,
                concurrency=IN_FLIGHT,
                drain_s=options.drain_s,
                reply_prefixes=settings.reply.prefixes,
            )
            facts = {"id": extension.id, "subject": extension.subject, "models": service.models}
            await server.work(lambda nats_url: on_ready(nats_url=nats_url, **facts))


# -- A kind, and what it calls. An echo calls nothing, so it needs no extra.


def _make_kind(options: ProviderOptions, upstream: Upstream | None) -> ProviderKind:
    if upstream is None:
        return EchoKind()
    from router.providers.kinds.anthropic import AnthropicKind
    from router.providers.kinds.ollama import OllamaKind
    from router.providers.kinds.openai import OpenaiKind

    if options.kind == OPENAI:
        return OpenaiKind(upstream, asks_usage=options.asks_usage)
    return AnthropicKind(upstream) if options.kind == ANTHROPIC else OllamaKind(upstream)


def _make_upstream(options: ProviderOptions) -> Upstream | None:
    if options.kind == ECHO:
        _require_none(options)
        return None
    from router.providers.upstream import Upstream

    return Upstream(
        options.base_url or BASE_URLS[options.kind],
        KeyFile(options.key_file) if options.key_file is not None else None,
        partial(_make_headers, options.kind),
        options.times,
        concurrency=options.concurrency,
        allows_insecure_http=options.allows_insecure_http,
    )


def _require_none(options: ProviderOptions) -> None:
    """Raises Misconfigured for what echo would not use."""
    for name, value in (("--base-url", options.base_url), ("--key-file", options.key_file)):
        if value is not None:
            raise Misconfigured(name, "echo calls nothing: leave it out")


def _make_headers(kind: str, key: str | None) -> Mapping[str, str]:
    version: Mapping[str, str] = (
        {"anthropic-version": ANTHROPIC_VERSION} if kind == ANTHROPIC else {}
    )
    if key is None:
        return version
    name, value = ("x-api-key", key) if kind == ANTHROPIC else ("authorization", f"Bearer {key}")
    return {**version, name: value}
