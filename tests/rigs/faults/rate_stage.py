"""Routers of one policy with a rate limit, whose clocks can be wrong."""

import json
from pathlib import Path

from tests.rigs.faults.child import Child
from tests.rigs.faults.stage import Cast, Stage
from tests.support.policy import a_document, a_provider

AHEAD_S = 300.0


class RateStage(Stage):
    """`rate`: requests a second of tenant acme's policy `default`; `burst`: how many at once."""

    def __init__(self, cast: Cast, home: Path, rate: int, burst: int) -> None:
        super().__init__(cast, home)
        self._policies = home / "policies"
        (self._policies / "acme").mkdir(parents=True)
        limit = {"requests_per_second": rate, "burst": burst}
        (self._policies / "acme" / "default.json").write_text(
            json.dumps(a_document(a_provider("a"), rate_limit=limit))
        )

    async def _child(
        self, name: str, command: tuple[str, ...], announces: str, **more: object
    ) -> Child:
        return await super()._child(
            name, command, announces, **{"policies.dir": self._policies}, **more
        )


def wrong_clock(stage: RateStage) -> int:
    """The last router's clock is five minutes ahead from now on. 1, if it is there to be told."""
    router = stage.routers[-1]
    if not router.is_running:
        return 0
    router.step_clock(AHEAD_S)
    return 1
