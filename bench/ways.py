"""The ways in which a run asks each question: what a publish ack of the server promises, and how
many servers hold a copy.

    default       the server syncs to its disk every two minutes: a publish ack may be ahead of it
    always        `sync_interval: always`: what has a publish ack is on the disk
    3 servers     three on this machine, a copy of each stream on each; they share one disk

The way is told to the sides' processes by the environment, for all of them make streams.
"""

from __future__ import annotations

import os
from itertools import product

from msgspec import Struct

DEFAULT, ALWAYS, BOTH = "default", "always", "both"
SERVERS = 3
_SYNC, _COPIES = "BENCH_SYNC", "BENCH_REPLICAS"


class Way(Struct, frozen=True):
    """How the servers keep what they are given."""

    sync: str = DEFAULT
    replicas: int = 1

    @property
    def name(self) -> str:
        """Its heading on the page."""
        if self.replicas == 1:
            return self.sync
        return f"{self.replicas} servers{f', {ALWAYS}' * (self.sync == ALWAYS)}"

    @property
    def has_rates(self) -> bool:
        """Whether a rate says something: several servers share this machine's cores and disk."""
        return self.replicas == 1


def list_ways(sync: str, replicas: str) -> tuple[Way, ...]:
    """What `--sync` and `--replicas` ask for; the first is what the others are compared with."""
    syncs = (DEFAULT, ALWAYS) if sync == BOTH else (sync,)
    copies = (1, SERVERS) if replicas == BOTH else (int(replicas),)
    return tuple(Way(one, number) for number, one in product(copies, syncs))


def use(way: Way) -> None:
    """Every server from here on is started so, and every stream made so."""
    os.environ[_SYNC], os.environ[_COPIES] = way.sync, str(way.replicas)


def current() -> Way:
    """As the run's process has told it."""
    return Way(os.environ.get(_SYNC, DEFAULT), int(os.environ.get(_COPIES, "1")))
