"""Faults of the network around one server: between it and its peers, between it and our processes."""

import asyncio
from collections.abc import Callable, Iterable

from tests.rigs.faults.cluster.leaders import Choose, stage_of
from tests.rigs.faults.cluster.routes import Routes
from tests.rigs.faults.kinds import Act, FaultScope
from tests.support.proxy import BOTH, Proxy


def partitioned(choose: Choose, cut: Callable[[Routes, int], None]) -> Act:
    """Its clients still reach it; its peers do not, or it does not hear them."""

    async def act(scope: FaultScope) -> None:
        servers, number = stage_of(scope).servers, await choose(scope)
        servers.broken.add(number)
        cut(servers.routes, number)
        try:
            await asyncio.sleep(scope.hold_s)
        finally:
            servers.routes.mend()

    return act


def split_off(choose: Choose) -> Act:
    """Neither its peers nor our processes reach it: a rack without a network."""

    async def act(scope: FaultScope) -> None:
        stage, number = stage_of(scope), await choose(scope)
        stage.servers.broken.add(number)
        stage.servers.routes.isolate(number)
        silence(stage.ways_to(number))
        try:
            await asyncio.sleep(scope.hold_s)
        finally:
            stage.servers.routes.mend()
            mend(stage.ways_to(number))

    return act


def cut_off_from(choose: Choose) -> Act:
    """Our processes do not reach it, its peers do. Packets vanish: no connection ends."""

    async def act(scope: FaultScope) -> None:
        ways = stage_of(scope).ways_to(await choose(scope))
        silence(ways)
        try:
            await asyncio.sleep(scope.hold_s)
        finally:
            mend(ways)

    return act


def silence(proxies: Iterable[Proxy]) -> None:
    for proxy in proxies:
        proxy.silence(*BOTH)


def mend(proxies: Iterable[Proxy]) -> None:
    for proxy in proxies:
        proxy.mend()
