"""The usage stream of a run, taken into a lake on this disk, and `router usage reconcile` over
both: settled = silver.
"""

import asyncio
from pathlib import Path

from msgspec import Struct

from router.lake.reconcile.budgets import BUDGETS_CHECK
from tests.rigs.faults.stage import Stage
from tests.support.cli import router

WITHIN_S = 900.0  # two JVMs on a machine that is busy
MASTER = "local[1]"


class SilverReport(Struct, frozen=True):
    """What `reconcile` says. `checks`: the verdict of each by name; `says`: of the settled sums."""

    checks: dict[str, str]
    budgets: int
    left_out: int
    says: str

    def is_right(self, budgets: int) -> bool:
        """Every budget was compared, and neither these nor the rest differ."""
        is_compared = (self.checks.get(BUDGETS_CHECK), self.budgets, self.left_out) == (
            "ok",
            budgets,
            0,
        )
        return is_compared and "differs" not in self.checks.values()


async def compare_with_silver(stage: Stage) -> SilverReport:
    """Spark runs as it does for a user: `router usage ingest`, then `router usage reconcile`."""
    options = (
        "--warehouse",
        str(stage.home / "warehouse"),
        "--nats-url",
        stage.url,
        "--master",
        MASTER,
    )
    return await asyncio.to_thread(_compare, stage.home, options)


def _compare(home: Path, options: tuple[str, ...]) -> SilverReport:
    ingested = router(
        "usage", "ingest", *options, "--checkpoint", str(home / "checkpoint"), within_s=WITHIN_S
    )
    assert ingested.status == 0, ingested.err
    found = router("usage", "reconcile", *options, "--json", within_s=WITHIN_S)
    checks = {one["name"]: one for one in found.json["checks"]}
    settled = checks[BUDGETS_CHECK]
    verdicts = {name: one["verdict"] for name, one in checks.items()}
    return SilverReport(
        verdicts, settled.get("budgets", 0), settled.get("left_out", 0), settled["says"]
    )
