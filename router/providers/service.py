"""One provider service: an extension of the kind `provider` whose answers come from an API.

    asked whole      one object in OpenAI's shape; the text alone where a plain prompt was asked
    asked a stream   each event as its JSON text; the pieces of text for a plain prompt

Its registry entry says which APIs it understands and which models it has. The entry's `timeout_ms`
bounds an answer, and the silence between two pieces.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import orjson
from msgspec.structs import replace

from router.config import Settings
from router.contracts.provider_call import STREAM_HEADER
from router.core.errors import Misconfigured, RouterError
from router.extensions.model.entry import PROVIDER
from router.process.memory import calm_collector
from router.process.observability import events, logs
from router.providers.api_call import ApiCall, read_call
from router.providers.key_file import KeyFile
from router.providers.kinds import ApiEvent, ProviderKind
from router.providers.kinds.anthropic import VERSION, AnthropicKind
from router.providers.kinds.chat import find_text, find_whole_text
from router.providers.kinds.echo import EchoKind
from router.providers.kinds.ollama import OllamaKind
from router.providers.kinds.openai import OpenaiKind
from router.providers.models import ServedModels, load_models
from router.providers.options import ANTHROPIC, ECHO, OLLAMA, OPENAI, ProviderOptions
from router.providers.upstream import Headers, Upstream
from router.sdk.extension import Extension, ExtensionServer, Invocation, Output, Usage

log = logs.logger(__name__)

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
        self._kind = _make_kind(options.kind, self._upstream)
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

    async def answer(self, invocation: Invocation) -> AsyncGenerator[str | Usage | Output, None]:
        """A provider of Router that asks an HTTP API."""
        call = read_call(invocation, self._kind.apis, self._models)
        if not call.is_stream:
            output = await self._kind.complete(call)
            yield _make_plain(output) if call.is_plain else _write_output(invocation, output)
            return
        async for piece in self._kind.stream(call):
            if not isinstance(piece, ApiEvent):
                yield piece
            elif text := _write_event(call, piece):
                yield text

    async def _find_models(self) -> None:
        """A file says all; an API that does not list its models serves on."""
        if self._models.names:
            return
        try:
            self._models = ServedModels(await self._kind.list_models())
        except RouterError as exc:
            log.warning(events.PROVIDER_MODELS_UNKNOWN, provider=self.options.name, why=str(exc))

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


def _write_output(invocation: Invocation, output: Output) -> Output:
    """The piece of a stream is text."""
    if STREAM_HEADER not in invocation.headers:
        return output
    return replace(output, output=orjson.dumps(output.output).decode())


def _make_plain(output: Output) -> Output:
    fields = output.output
    return replace(output, output=find_whole_text(fields) if isinstance(fields, dict) else "")


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
                concurrency=options.concurrency,
                drain_s=options.drain_s,
                reply_prefixes=settings.reply.prefixes,
            )
            facts = {"id": extension.id, "subject": extension.subject, "models": service.models}
            await server.work(lambda nats_url: on_ready(nats_url=nats_url, **facts))


# -- A kind, and what it calls.


def _make_kind(kind: str, upstream: Upstream | None) -> ProviderKind:
    if upstream is None:
        return EchoKind()
    kinds: Mapping[str, Callable[[Upstream], ProviderKind]] = {
        OPENAI: OpenaiKind,
        ANTHROPIC: AnthropicKind,
        OLLAMA: OllamaKind,
    }
    return kinds[kind](upstream)


def _make_upstream(options: ProviderOptions) -> Upstream | None:
    if options.kind == ECHO:
        _require_none(options)
        return None
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


def _make_headers(kind: str, key: str | None) -> Headers:
    version: Mapping[str, str] = {"anthropic-version": VERSION} if kind == ANTHROPIC else {}
    if key is None:
        return version
    name, value = ("x-api-key", key) if kind == ANTHROPIC else ("authorization", f"Bearer {key}")
    return {**version, name: value}
