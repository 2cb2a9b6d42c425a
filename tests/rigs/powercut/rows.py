"""What is tried, each with what must come of it."""

from __future__ import annotations

from msgspec import Struct

MATTERS = ("answered", "assigned", "executed", "results", "metered")


class Row(Struct, frozen=True):
    """`fsync_us`: what each fsync takes longer; `felt_by`: servers that lose power at once.

    `is_cut`: false is the control, a server that is killed and whose disk keeps its power.
    `must_lose`: None where it is only told.
    """

    name: str
    is_synced: bool
    must_lose: bool | None
    fsync_us: int = 0
    servers: int = 1
    felt_by: int = 1
    is_cut: bool = True
    cuts: int = 3
    load_s: float = 10.0  # before each cut

    @property
    def sync_interval(self) -> str:
        return "always" if self.is_synced else "default"


# longer than the kernel leaves written data in memory, which is 30 s
LONG_S = 45.0

ROWS = (
    Row("always-0.2", is_synced=True, must_lose=False, fsync_us=200),
    Row("always-1", is_synced=True, must_lose=False, fsync_us=1_000),
    Row("always-5", is_synced=True, must_lose=False, fsync_us=5_000),
    Row("default", is_synced=False, must_lose=True, cuts=2, load_s=LONG_S),
    Row("default-killed", is_synced=False, must_lose=False, is_cut=False),
    Row("three-one-cut", is_synced=False, must_lose=False, servers=3),
    Row("three-all-always", is_synced=True, must_lose=False, servers=3, felt_by=3),
    Row("three-all-cut", is_synced=False, must_lose=None, servers=3, felt_by=3, cuts=2),
)
BY_NAME = {row.name: row for row in ROWS}
