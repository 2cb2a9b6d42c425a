"""The stage of `tests.rigs.faults` with a cluster instead of one server, and a way through a proxy
from each process to each server.

client ──────────────────────────┬─ a connection to each server
router-1 (one process) ─ proxies ┤
router-2 (a fleet) ───── proxies ┼── faults-0 ── routes, each through a proxy ── faults-1, faults-2
worker-1, worker-2 ───── proxies ┤
extension ────────────── proxies ┘
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

import nats.errors

from tests.rigs.faults.clients import Clients
from tests.rigs.faults.cluster.elections import Elections
from tests.rigs.faults.cluster.groups import Group, find_leader, list_behind, list_groups
from tests.rigs.faults.cluster.servers import Servers
from tests.rigs.faults.load import Load
from tests.rigs.faults.stage import Stage, connect
from tests.support.proxy import Proxy
from tests.support.waiting import until

LOOK_EVERY_S = 0.25
WELL_WITHIN_S = 1.0  # a request that waits longer says that the last fault is not over
METERED_WITHIN_S = 2.0  # after its answer
FORM_WITHIN_S = 60.0


class ClusterStage(Stage):
    """`load`: set once there is one."""

    servers: Servers
    clients: Clients
    elections: Elections
    load: Load | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """Those whose leaders and copies count."""
        return list_groups()

    @property
    def url(self) -> str:
        return self.servers.url

    async def start_servers(self) -> None:
        """Returns when the cluster has a leader that both others follow."""
        self.servers, self.clients, self.elections = Servers(), Clients([]), Elections(self.groups)
        await self.servers.start()
        self.clients = Clients(
            [await connect(broker.url) for broker in self.servers.brokers], self._is_healthy
        )
        await self.elections.watch(self.servers.system)
        await until(
            self.servers.is_meta_current, within_s=FORM_WITHIN_S, what="a leader of the cluster"
        )

    async def end_servers(self) -> None:
        await self.clients.close()
        await self.servers.remove()

    async def url_of(self, name: str) -> str:
        if not self._cast.is_proxied:
            return self.url
        ways = [await Proxy(broker.port).start() for broker in self.servers.brokers]
        self.proxies |= {f"{name} to {number}": way for number, way in enumerate(ways)}
        return ",".join(way.url for way in ways)

    def ways_to(self, server: int) -> list[Proxy]:
        """Of every process of ours to this server."""
        return [proxy for name, proxy in self.proxies.items() if name.endswith(f" to {server}")]

    async def find_leader(self, group: Group) -> int:
        return await find_leader(lambda: self.clients.current, self.servers, group)

    async def all_ready(self, most_s: float) -> bool:
        """Whether all processes are ready, all copies current, all requests answered and metered,
        within so many seconds.

        Then no server is broken.
        """
        return await self._wait(self._list_unready, most_s)

    async def copies_current(self, most_s: float) -> bool:
        """Whether every copy follows its leader, within so many seconds. Then no server is broken."""
        return await self._wait(self._list_behind, most_s)

    async def _wait(self, list_causes: Callable[[], Awaitable[list[str]]], most_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + most_s
        while causes := await list_causes():
            if asyncio.get_running_loop().time() > deadline:
                print(
                    f"not well {most_s:g} s after a fault: {', '.join(causes)}",
                    file=sys.stderr,
                    flush=True,
                )
                break
            await asyncio.sleep(LOOK_EVERY_S)
        self.servers.broken.clear()
        return not causes

    async def _list_unready(self) -> list[str]:
        starting = [child.name for child in self.children if not child.is_ready]
        return [*await self._list_waiting(), *starting, *await self._list_behind()]

    async def _list_waiting(self) -> list[str]:
        """What of the load is late: the next fault would be blamed for it, or it for the next
        fault.
        """
        if self.load is None:
            return []
        waiting = [] if self.load.is_well(WELL_WITHIN_S) else ["requests wait for an answer"]
        with contextlib.suppress(nats.errors.Error):
            usage = await self.clients.current.jsm().stream_info(self.settings.streams.usage.name)
            decided = self.load.list_decided(METERED_WITHIN_S)
            if usage.state.messages >= len(decided) and self.load.metered.issuperset(decided):
                return waiting
        return [*waiting, "usage events are to come"]

    async def _list_behind(self) -> list[str]:
        return await list_behind(self.clients.current, self.servers, self.groups)

    def _is_healthy(self, server: int) -> bool:
        return server not in self.servers.broken
