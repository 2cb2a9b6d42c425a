"""How this process invokes providers: with its registry, breakers, health and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from router.app.app_context import AppContext
from router.delivery.calls.stream import Stream
from router.delivery.connection import Connection, head_of
from router.routing.extensions.providers import ProviderInvoker
from router.services.extension_invoker import ExtensionMetrics, build_extension_invoker


def build_provider_invoker(context: AppContext) -> ProviderInvoker:
    connection = context.connections.providers  # traffic of providers does not slow the consumers down
    streams = partial(_stream, connection)
    return ProviderInvoker(
        context.registry,
        build_extension_invoker(connection, context.breakers, context.health, context.metrics),
        streams,
        breakers=context.breakers.extensions,
        health=context.health,
        meter=ExtensionMetrics(context.metrics),
        environment=context.settings.extensions.environment,
        longest_s=context.settings.providers.longest_ms / 1000,
    )


def _stream(connection: Connection, subject: str, data: bytes, headers: Mapping[str, str], silence_s: float) -> Stream:
    return Stream(connection, subject, data, head_of(headers), silence_s=silence_s)
