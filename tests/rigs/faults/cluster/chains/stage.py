"""A cluster with the processes of some chains, each with a proxy to each server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.chains.chain import Chain, ChainLoad
from tests.rigs.faults.cluster.groups import Group
from tests.rigs.faults.cluster.stage import ClusterStage
from tests.rigs.faults.stage import Cast

# a message without its last effect after this says that the last fault is not over
DONE_WITHIN_S = 2.0


class ChainStage(ClusterStage):
    """`loads`: one of each chain, once they have begun."""

    def __init__(self, cast: Cast, home: Path, chains: Sequence[Chain]) -> None:
        super().__init__(cast, home)
        self._chains = chains
        self._chain_children: list[Child] = []
        self.loads: list[ChainLoad] = []

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group for chain in self._chains for group in chain.groups)

    @property
    def children(self) -> list[Child]:
        return self._chain_children

    async def start(self) -> None:
        """One process after the other: a later one needs the streams of an earlier one."""
        await self.start_servers()
        for chain in self._chains:
            for child in await chain.start(self):
                self._chain_children.append(child)
                child.spawn()
                await child.ready()
            await chain.open()

    async def add_child(
        self, name: str, command: tuple[str, ...], announces: str, **settings: object
    ) -> Child:
        return await self._child(name, command, announces, **settings)

    async def _list_unready(self) -> list[str]:
        """As for the circle; a chain is well when its messages get their last effects in time."""
        waiting = [
            f"messages of {load.chain.name}"
            for load in self.loads
            if await load.is_behind(DONE_WITHIN_S)
        ]
        return [*waiting, *await super()._list_unready()]
