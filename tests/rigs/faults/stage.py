"""Everything that plays: a nats-server, routers, workers, an extension; each of our processes
behind a proxy of its own.

client ──────────────────────────┐
router-1, router-2 ─── proxies ──┤
worker-1, worker-2 ─── proxies ──┼── nats-server, whose store has a limit
extension ──────────── proxy ────┘
"""

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import nats
from msgspec import Struct
from nats.aio.client import Client

from router.config import Settings, load
from tests.rigs.faults.child import Child
from tests.support.broker import Broker
from tests.support.proxy import Proxy

HERE = Path(__file__).parent
WRITE_DEADLINE_S = 2  # after this the server drops who does not read
REVIVE_S = 0.2
REAL = "tests.support.clocked"
AnyStage = TypeVar("AnyStage", bound="Stage")


class Cast(Struct, frozen=True):
    """Who plays. `router`: the module that is run as one; `store_limit`: bytes on disk of all
    streams together.

    `ack_wait_s` is shorter than the longest pause: what a paused process holds is given to others,
    and then it wakes up.
    """

    routers: int = 2
    workers: int = 2
    extensions: int = 1
    router: str = REAL
    is_proxied: bool = True
    ack_wait_s: float = 3.0
    processes: int = 1  # of the last router: more than one makes it a fleet
    replicas: int = 1  # copies of every stream and bucket
    store_limit: int | None = None
    connect_timeout_ms: int = 2_000  # the router's default


class Stage:
    """The processes by what they are, and the settings that all of them share."""

    def __init__(self, cast: Cast, home: Path) -> None:
        self._cast = cast
        self.home = home
        self.routers: list[Child] = []
        self.workers: list[Child] = []
        self.extensions: list[Child] = []
        self.proxies: dict[str, Proxy] = {}
        self.broker: Broker  # `start_servers` makes it

    @property
    def url(self) -> str:
        """The server, past the proxies."""
        return self.broker.url

    @property
    def children(self) -> list[Child]:
        return [*self.routers, *self.workers, *self.extensions]

    @property
    def settings(self) -> Settings:
        return load(None, _given(self.url, self._cast), {}).settings

    async def client(self) -> Client:
        """The clients' own way to the server: no proxy, back at once when it comes back, and no
        word of every failed try.
        """
        return await connect(self.broker.url)

    def proxies_of(self, children: Iterable[Child]) -> list[Proxy]:
        return [self.proxies[child.name] for child in children]

    async def start(self) -> None:
        """Returns when all of them are ready."""
        await self.start_servers()
        cast = self._cast
        self.routers = [
            await self._child(f"router-{n}", _serving(n, cast), "router.ready")
            for n in range(1, cast.routers + 1)
        ]
        self.extensions = [
            await self._child(
                f"extension-{n}",
                (REAL, "extension", "serve", "tests.rigs.faults.job"),
                "extensions.ready",
            )
            for n in range(1, cast.extensions + 1)
        ]
        self.workers = [
            await self._child(f"worker-{n}", _working(n, cast), "worker.ready")
            for n in range(1, cast.workers + 1)
        ]
        for child in self.children:
            child.spawn()  # who needs what another one makes waits for it
        for child in self.children:
            await child.ready()

    async def start_servers(self) -> None:
        self.broker = Broker(
            f'write_deadline: "{WRITE_DEADLINE_S}s"', store_limit=self._cast.store_limit
        )
        await asyncio.to_thread(self.broker.start)

    async def end_servers(self) -> None:
        self.broker.remove()

    async def url_of(self, name: str) -> str:
        """How the process of this name reaches the server: by a proxy of its own."""
        if not self._cast.is_proxied:
            return self.url
        self.proxies[name] = await Proxy(self.broker.port).start()
        return self.proxies[name].url

    async def all_ready(self, most_s: float) -> bool:
        """Whether every process is ready, within so many seconds."""
        deadline = asyncio.get_running_loop().time() + most_s
        while not all(child.is_ready for child in self.children):
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(REVIVE_S)
        return True

    async def keep_alive(self) -> None:
        """What ends by itself is started again, and said: a supervisor's part, until cancelled."""
        while True:
            await asyncio.sleep(REVIVE_S)
            for child in self.children:
                child.look()
                if (words := child.revive()) is not None:
                    print(f"{child.name} ended by itself: {words}", file=sys.stderr, flush=True)

    async def end(self) -> None:
        for child in self.children:
            child.kill()
        for proxy in self.proxies.values():
            await proxy.close()
        await self.end_servers()

    async def _child(
        self, name: str, command: tuple[str, ...], announces: str, **more: object
    ) -> Child:
        """`more`: settings of its own, by dotted name."""
        settings = {**_given(await self.url_of(name), self._cast), **more}
        environ = {
            f"ROUTER_{key.upper().replace('.', '__')}": str(value)
            for key, value in settings.items()
        }
        return Child(name, command, announces, environ, self.home)


async def connect(url: str, **options: str) -> Client:
    """A connection of the suite itself: back at once when its server is, and no word of every
    failed try.
    """

    async def unheard(_: Exception) -> None: ...

    return await nats.connect(
        url, reconnect_time_wait=0.05, max_reconnect_attempts=-1, error_cb=unheard, **options
    )


@contextlib.asynccontextmanager
async def on_stage(cast: Cast, kind: Callable[[Cast, Path], AnyStage]) -> AsyncIterator[AnyStage]:
    """All of it, gone in the end, whatever happens meanwhile."""
    home = Path(tempfile.mkdtemp(prefix="router-faults-"))
    stage = kind(cast, home)
    try:
        await stage.start()
        keeping = asyncio.create_task(stage.keep_alive())
        try:
            yield stage
        finally:
            keeping.cancel()
    finally:
        await stage.end()
        shutil.rmtree(home, ignore_errors=True)


def _given(url: str, cast: Cast) -> dict[str, object]:
    """The settings: the defaults, but for what makes faults bite sooner. Streams reserve nothing of
    the store, and the ledger reads every assignment and letter, so none leaves its stream, and the
    few tenants of the load have no shares.
    """
    streams = (
        "decide",
        "results",
        "acks",
        "assignments",
        "usage",
        "held",
        "dlq",
        "audit",
        "advisories",
    )
    return {
        "nats.url": url,
        "nats.connect_timeout_ms": cast.connect_timeout_ms,
        "replicas": cast.replicas,
        "http.port": 0,
        "policies.dir": HERE / "policies",
        "extensions.dir": HERE / "extensions",
        "decide.ack_wait_ms": int(cast.ack_wait_s * 1000),
        "results.ack_wait_ms": int(cast.ack_wait_s * 1000),
        "extension_breaker.timeout_ms": 2000,
        "assignment.removal_every_ms": 0,
        "assignment.tenant_share": 1.0,
        "dlq.tenant_share": 1.0,
        "log.level": "warning",
        "buckets.rate_limits.max_bytes": -1,
        "buckets.gateway_answers.max_bytes": -1,
        **{f"streams.{name}.max_bytes": -1 for name in streams},
    }


def _serving(number: int, cast: Cast) -> tuple[str, ...]:
    is_fleet = cast.processes > 1 and number == cast.routers
    return (cast.router, "serve", *(("--processes", str(cast.processes)) if is_fleet else ()))


def _working(number: int, cast: Cast) -> tuple[str, ...]:
    options = ("--worker-id", f"w-{number}", "--ack-wait", str(cast.ack_wait_s), "--heartbeat", "1")
    return (REAL, "worker", "tests.rigs.faults.job:work", *options)
