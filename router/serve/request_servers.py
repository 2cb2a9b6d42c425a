"""The servers of requests that are neither decide requests nor the operators': providers to invoke,
and messages of the ingress.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from router.budgets.invocation_budgets import InvocationBudgets
from router.decide.ingress_server import IngressServer
from router.delivery.wire.api import JetStream
from router.delivery.wire.calls.stream import Stream, StreamPiece
from router.delivery.wire.connection import Connection, head_of
from router.extensions.invoker import ExtensionMetrics, build_extension_invoker
from router.extensions.model.providers import ProviderInvoker, ServiceRecords
from router.operate.admin.request_guard import build_reply_addresses
from router.serve.app_context import AppContext
from router.serve.decide_subscription import build_decide_rules
from router.serve.handler_metrics import HeldCosts
from router.work.assignment_claims import AssignmentClaims
from router.work.invocations.attempt_store import AttemptStore, Patience
from router.work.invocations.invocation_bill import BillingParts, InvocationMetering
from router.work.invocations.provider_server import ProviderServer
from router.work.invocations.unfinished_invocations import UnfinishedInvocations


def build_ingress_server(context: AppContext) -> IngressServer:
    addresses = build_reply_addresses(
        context.settings, context.connection, context.metrics, "ingress"
    )
    server = IngressServer(
        context.jetstream, addresses, context.settings, build_decide_rules(context.settings)
    )
    context.checks["ingress"] = lambda: server.check
    return server


def build_provider_server(context: AppContext) -> ProviderServer:
    addresses = build_reply_addresses(
        context.settings, context.connection, context.metrics, "providers"
    )
    connection, settings = context.connections.providers, context.settings
    metering = _build_invocation_meter(context, JetStream(connection, settings.nats.js_domain))
    return ProviderServer(
        connection, _build_provider_invoker(context), metering, addresses, settings
    )


def _build_invocation_meter(context: AppContext, jetstream: JetStream) -> InvocationMetering:
    buckets, patience_s = context.settings.buckets, context.settings.effects.patience_ms / 1000
    on_held = HeldCosts(context.metrics, context.alerts)
    parts = BillingParts(
        store=AttemptStore(jetstream, buckets.invocations.name, on_held, patience_s=patience_s),
        patience=Patience(patience_s),
        claims=_build_claims(context, jetstream),
        assignments=context.assignments,
        budgets=InvocationBudgets(context.budgets.table),
        pricing=context.pricing,
        clock=context.budgets.clock,
        is_on=context.settings.usage.enabled,
    )
    return InvocationMetering(parts, context.shared_ratios)


def _build_claims(context: AppContext, jetstream: JetStream) -> AssignmentClaims:
    buckets, window_s = (
        context.settings.buckets,
        context.settings.streams.usage.duplicate_window_ms / 1000,
    )
    return AssignmentClaims(
        jetstream, buckets.assignments_known.name, buckets.invocations.name, window_s=window_s
    )


def build_unfinished_invocations(context: AppContext) -> UnfinishedInvocations:
    """What meters the attempts of routers that died, over the consumers' connection."""
    settings, jetstream, bucket = (
        context.settings,
        context.jetstream,
        context.settings.buckets.invocations.name,
    )
    return UnfinishedInvocations(
        jetstream,
        bucket,
        settings.streams.usage.name,
        AttemptStore(
            jetstream,
            bucket,
            HeldCosts(context.metrics, context.alerts),
            patience_s=settings.effects.patience_ms / 1000,
        ),
        _build_claims(context, jetstream),
        context.budgets.clock,
        after_s=settings.providers.unfinished_after_ms / 1000,
        window_s=settings.streams.usage.duplicate_window_ms / 1000,
    )


def _build_provider_invoker(context: AppContext) -> ProviderInvoker:
    """The invoker of this process: with its registry, breakers, health and metrics."""
    # traffic of providers does not slow the consumers down
    connection = context.connections.providers
    streams = partial(_stream, connection)
    return ProviderInvoker(
        context.registry,
        build_extension_invoker(connection, context.breakers, context.health, context.metrics),
        streams,
        records=ServiceRecords(
            breakers=context.breakers.extensions,
            health=context.health,
            meter=ExtensionMetrics(context.metrics),
        ),
        limits=context.breakers.limits,
        environment=context.settings.extensions.environment,
        longest_s=context.settings.providers.longest_ms / 1000,
    )


@asynccontextmanager
async def _stream(  # noqa: PLR0917 - the port is `extensions.model.providers.StreamOpener`
    connection: Connection,
    subject: str,
    data: bytes,
    headers: Mapping[str, str],
    silence_s: float,
    on_unread: Callable[[StreamPiece], None],
) -> AsyncIterator[Stream]:
    stream = Stream(connection, subject, data, head_of(headers), silence_s=silence_s)
    try:
        async with stream:
            yield stream
    finally:
        for piece in stream.take_unread():
            on_unread(piece)
