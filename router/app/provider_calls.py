"""Providers joined with this process: its registry, its way of calling, its breakers, health and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from router.app.extension_calls import ExtensionMetrics, invoker_of
from router.app.ground import Ground
from router.calls.stream import Stream
from router.delivery.connection import Connection, head_of
from router.extensions.providers import ProviderInvoker


def providers_of(ground: Ground) -> ProviderInvoker:
    connection = ground.connections.providers  # what a provider pours into it is not in the lanes' way
    streams = partial(_stream, connection)
    return ProviderInvoker(
        ground.registry,
        invoker_of(connection, ground.breakers, ground.health, ground.metrics),
        streams,
        breakers=ground.breakers.extensions,
        health=ground.health,
        meter=ExtensionMetrics(ground.metrics),
        environment=ground.settings.extensions.environment,
        longest_s=ground.settings.providers.longest_ms / 1000,
    )


def _stream(connection: Connection, subject: str, data: bytes, headers: Mapping[str, str], silence_s: float) -> Stream:
    return Stream(connection, subject, data, head_of(headers), silence_s=silence_s)
