"""PostgreSQL and a broker that lose nothing when the power goes: fsync on, `sync_interval: always`.
The tests' own servers.

async with durable() as servers:        servers.url, servers.dsn: the tables are there
    …
    servers.cpu_us(rows)                what each of the two has computed for a row, in all its
                                        processes
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.broker import Broker
from tests.support.postgres import Postgres

TICKS = os.sysconf("SC_CLK_TCK")


class Durable:
    """Both servers, and what they have computed since `begin`."""

    def __init__(self, url: str, dsn: str, broker: int, postgres: int) -> None:
        self.url = url
        self.dsn = dsn
        self._pids = {"broker": broker, "database": postgres}
        self._before: dict[str, float] = {}

    def begin(self) -> None:
        self._before = {name: _cpu_s(pid) for name, pid in self._pids.items()}

    def cpu_us(self, rows: int) -> dict[str, float]:
        """Microseconds a row, by server."""
        return {
            f"{name}_cpu_us": (_cpu_s(pid) - self._before[name]) / rows * 1e6
            for name, pid in self._pids.items()
        }


@asynccontextmanager
async def durable() -> AsyncIterator[Durable]:
    postgres, broker = Postgres(16).start(), Broker(sync_always=True).start()
    try:
        yield Durable(broker.url, await postgres.database(), broker.pid, postgres.pid)
    finally:
        broker.remove()
        postgres.remove()


def _cpu_s(pid: int) -> float:
    """Of a process, its children, and those that it has waited for."""
    try:
        children = [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
        times = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        # it ended since its parent was asked, which has its time now
        return 0.0
    user, system, waited_user, waited_system = map(int, times.rsplit(")", 1)[1].split()[11:15])
    return (user + system + waited_user + waited_system) / TICKS + sum(map(_cpu_s, children))
