"""The gateway as a process: one connection to the broker, what it follows, and two ports.

    broker      decide requests, invocations; policies, registry and keys, kept equal to buckets
    gateway     the port for clients
    http        /metrics, /healthz and /readyz, for operators

It may read what it follows, ask the router and keep answers, and nothing else (deploy/nats). Any
number of gateways serve the same keys: they share no state but the buckets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from router.config import Settings
from router.config.connect import connect_by
from router.core.fair_slots import FairSlots
from router.delivery.consume.shares import TenantShares
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.calls.stream import StreamRoom
from router.delivery.wire.connection import Connection
from router.extensions.model.registry import ExtensionRegistry
from router.extensions.store import FollowedExtensions
from router.gateway.application import GatewayPages, build_application
from router.gateway.asked_once import AskedOnce
from router.gateway.calls import GatewayCalls
from router.gateway.doorkeeper import Doorkeeper
from router.gateway.kept_answers import KeptAnswers
from router.gateway.keys.model.api_key import ApiKey, KeyTable
from router.gateway.keys.store import FollowedKeys
from router.gateway.meter import GatewayMeter
from router.gateway.model.catalogue import ModelCatalogue
from router.gateway.open_requests import OpenRequests
from router.gateway.services import RouterServices, ServicePages
from router.policies.followed import FollowedPolicies
from router.policies.model.policy import PolicyTable
from router.process.memory import calm_collector
from router.process.observability import Metrics, ReadinessCheck, readiness_series
from router.process.observability.http import (
    REQUEST_TIMEOUT_S,
    RESPONSE_TIMEOUT_S,
    GuardedProtocol,
    ServerLimits,
    TlsFiles,
    limit_clients,
    serve_application,
)
from router.process.supervision import Child, Intensity, Supervisor
from router.sdk.client import Client
from router.shell.host import HeldConnection, ProcessHost

HEADERS_TIMEOUT_S = 20.0  # for a request's headers, and between two requests of a connection
MAX_HELD_BYTES = 64 * 1024  # by one connection, within a turn of the loop
LAST_WORD_S = 1.0  # at the end, for the error of what was not answered in time
STALL_S = 30.0  # in which a reader must take something of what waits for it


# -- What a response writes in one turn of the loop leaves together.
#
# uvicorn writes a response's head, each part of its body and its end by themselves, and each is a
# call of the system. Several events of a stream often come in one turn, too.
#
# write, write, write ──> the turn's end ──> one write of the transport
#                    └──> MAX_HELD_BYTES ──> at once, so that the transport can say that it is full


class TurnTransport(asyncio.Transport):
    """A transport before another one."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data:
            return
        if not self._held:
            self._loop.call_soon(self._write_held)
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= MAX_HELD_BYTES:
            self._write_held()

    def close(self) -> None:
        self._write_held()
        self._transport.close()

    def abort(self) -> None:
        self._held, self._size = [], 0
        self._transport.abort()

    def _write_held(self) -> None:
        if not self._held:
            return
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held, self._size = [], 0
        self._transport.write(data)

    # -- The other one's.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


# -- The server.


class ClientProtocol(GuardedProtocol):
    """HTTP with limits for clients: an answer may take as long as its provider does, and a reader
    that takes nothing for STALL_S is dropped. The application limits the time of a body.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(TurnTransport(transport, self.loop))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_S, self.abort)

    def resume_writing(self) -> None:
        self._clear_stall()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_stall()
        super().connection_lost(exc)

    def _clear_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _set_deadline(self, seconds: float) -> None:
        if seconds == RESPONSE_TIMEOUT_S and self.is_answering:
            self._clear_deadline()
        else:
            super()._set_deadline(HEADERS_TIMEOUT_S if seconds == REQUEST_TIMEOUT_S else seconds)


# -- Memory for what providers sent and clients have not read yet, shared by all streams.
#
# a stream    64 KiB of its own, and of the memory that is shared as much as its tenant may have
# a tenant    at most as much as is free (`core.fair_slots`)
# above it    the stream breaks off: its reader is too slow
#
# Over NATS no reader holds a sender back. So what a slow one leaves unread waits here, and without
# a bound for all a tenant with many slow readers would fill the gateway.


READ_AHEAD_BYTES = 64 * 1024 * 1024


class TenantRoom:
    """One tenant's part."""

    def __init__(self, shared: FairSlots, tenant_id: str) -> None:
        self._shared = shared
        self._tenant_id = tenant_id

    def take(self, size: int) -> bool:
        return self._shared.acquire(self._tenant_id, size)

    def give_back(self, size: int) -> None:
        self._shared.release(self._tenant_id, size)


class GatewayClient(Client):
    """A client whose streams have readers that the gateway does not trust."""

    def __init__(
        self, connection: Connection, *, subject: str, read_ahead_bytes: int = READ_AHEAD_BYTES
    ) -> None:
        super().__init__(connection, subject=subject)
        self._read_ahead = FairSlots(read_ahead_bytes)

    def _find_room(self, tenant_id: str) -> StreamRoom:
        return TenantRoom(self._read_ahead, tenant_id)


class OwnKeyTable(KeyTable):
    """The keys of the bucket, and one that is in no bucket: it lives as long as this process."""

    def __init__(self, own: ApiKey | None) -> None:
        super().__init__()
        self._own = () if own is None else (own,)
        self.replace(())

    def replace(self, keys: Iterable[ApiKey]) -> None:
        super().replace((*keys, *self._own))


class GatewayBuckets:
    """What a gateway knows of its tenants: their policies, the registry, the keys; and the answers
    that all gateways keep.
    """

    def __init__(self, jetstream: JetStream, settings: Settings, own_key: ApiKey | None) -> None:
        buckets = settings.buckets
        self.policies, self.registry = PolicyTable(), ExtensionRegistry()
        self.keys = OwnKeyTable(own_key)
        answers = buckets.gateway_answers.name
        self._shares = TenantShares(jetstream, f"KV_{answers}", settings.gateway.tenant_share)
        self.answers = KeptAnswers(jetstream, answers, self._shares)
        self._followed: Mapping[str, FollowedBucket[Any]] = {
            "policies": FollowedPolicies(jetstream, buckets.policies.name, self.policies),
            "extensions": FollowedExtensions(
                jetstream, buckets.extensions.name, self.registry, lambda _: None
            ),
            "keys": FollowedKeys(jetstream, buckets.keys.name, self.keys),
        }

    async def load(self) -> None:
        """Read every entry. Raises BrokerUnavailable, for the policies."""
        for followed in self._followed.values():
            await followed.load()

    @property
    def children(self) -> tuple[Child, ...]:
        followed = (Child(name, followed.run) for name, followed in self._followed.items())
        kept = (Child("shares", self._shares.run), Child("answers", self.answers.run))
        return (*followed, *kept)

    @property
    def checks(self) -> Mapping[str, ReadinessCheck]:
        return {name: followed.check for name, followed in self._followed.items()}


class GatewayService:
    """`run` serves until it is cancelled. `own_key`: of this process alone."""

    def __init__(self, settings: Settings, own_key: ApiKey | None = None) -> None:
        self._settings = settings
        self._own_key = own_key
        self.metrics = Metrics(
            settings.metrics.tenant_label_allowlist, settings.metrics.label_limit
        )
        self.metrics.ready.set_function(lambda: readiness_series(self.readiness()))
        self._host = ProcessHost()
        self._buckets: GatewayBuckets | None = None
        self._is_connected: Callable[[], bool] = lambda: False
        self.url = ""  # of the port for clients

    async def run(self, on_ready: Callable[[str, str], None] = lambda *_: None) -> None:
        """Serve. `on_ready` gets the address for clients and that of the operators' pages.

        Raises Misconfigured, BrokerUnavailable at the start, ConnectionStuck later.
        """
        held = HeldConnection(partial(connect_by, self._settings.nats), "gateway")
        with calm_collector():
            async with self._host.hold(held) as (connection,):
                self._is_connected = lambda: connection.is_connected
                jetstream = JetStream(connection, self._settings.nats.js_domain)
                self._buckets = GatewayBuckets(jetstream, self._settings, self._own_key)
                await self._buckets.load()
                subject = self._settings.decide.subject
                async with GatewayClient(connection, subject=subject) as client:
                    tree = self._build_tree(connection, client, self._buckets)
                    await self._host.run(
                        tree, lambda: on_ready(self.url, self._host.url), lambda: bool(self.url)
                    )

    def _build_tree(
        self, connection: Connection, client: Client, buckets: GatewayBuckets
    ) -> Supervisor:
        settings = self._settings
        config, http = settings.gateway, settings.http
        children = (
            self._host.pages(http.host, config.pages_port, self.metrics.registry, self.readiness),
            *buckets.children,
            self._build_gateway(connection, client, buckets),
        )
        return Supervisor("gateway", children, intensity=Intensity(30, 60))

    def _build_gateway(
        self, connection: Connection, client: Client, buckets: GatewayBuckets
    ) -> Child:
        config, meter = self._settings.gateway, GatewayMeter(self.metrics)
        catalogue = ModelCatalogue(buckets.policies, buckets.registry)
        doorkeeper = Doorkeeper(buckets.keys, meter)
        calls = GatewayCalls(client, catalogue, config, meter)
        pages = GatewayPages(
            calls, catalogue, doorkeeper, config, meter, once=AskedOnce(buckets.answers)
        )
        services = ServicePages(RouterServices(connection, self._settings), pages)
        application = build_application(pages, meter, services.list_routes())
        serve = partial(self._serve, application, pages.open_requests)
        return Child("gateway", serve, shutdown_s=config.drain_ms / 1000 + 2 * LAST_WORD_S)

    async def _serve(self, application: ASGIApp, open_requests: OpenRequests) -> None:
        config = self._settings.gateway
        drain_s, tls = config.drain_ms / 1000, None
        if config.tls_cert is not None and config.tls_key is not None:
            tls = TlsFiles(config.tls_cert, config.tls_key)

        def on_started(port: int) -> None:
            self.url = f"{'http' if tls is None else 'https'}://{config.host}:{port}"

        def on_stopping() -> None:
            asyncio.get_running_loop().call_later(drain_s, open_requests.end_all)

        limits = ServerLimits(
            limit_clients(config.connections), spares_answers=True, drain_s=drain_s + LAST_WORD_S
        )
        await serve_application(
            application,
            config.host,
            config.port,
            on_started,
            protocol=ClientProtocol,
            limits=limits,
            tls=tls,
            on_stopping=on_stopping,
        )

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        is_connected = self._is_connected()
        broker = ReadinessCheck(is_connected, "connected" if is_connected else "not connected")
        return {"broker": broker, **(self._buckets.checks if self._buckets is not None else {})}
