"""A real child process of a fleet, whose service routes nothing and blocks the event loop once.

`python hanging_child.py FLAG FD`: the first child that finds the file FLAG removes it and hangs for
good.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from router.serve.fleet import child

FLAG = Path(sys.argv[1])


class HangingService:
    def __init__(self, settings: object, *, http: bool) -> None:
        self.metrics = SimpleNamespace(registry=SimpleNamespace(snapshot=tuple))

    def readiness(self) -> dict[str, object]:
        return {}

    async def run(self, on_ready: Callable[[SimpleNamespace], None]) -> None:
        on_ready(SimpleNamespace(nats_url="nats://there"))
        while True:
            await asyncio.sleep(0.01)
            _hang_once()


def _hang_once() -> None:
    if FLAG.exists():
        FLAG.unlink()
        time.sleep(3600)


if __name__ == "__main__":
    child.RouterService = HangingService  # type: ignore[assignment,misc]
    sys.exit(child.main(int(sys.argv[2])))
