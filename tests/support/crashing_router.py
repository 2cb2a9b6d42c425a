"""A router that a marked request kills, and its supervisor.

`python -m tests.support.crashing_router --policies DIR`; its settings come from the environment.

The whole router, but for its decide handler: that ends the process, as the kernel would, on a
request whose type is FATAL. `CrashingRouter` starts it, and starts it again whenever it dies of
that.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

from router.config import load
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.serve import decide_subscription
from router.serve.app_context import AppContext
from router.serve.service import RouterService
from tests.support.service import RouterProcess

FATAL = "fatal"
KILLED = 137


class CrashingRouter(RouterProcess):
    """The process' supervisor. No caller waits until it is ready, since it may die before. `deaths`
    counts the kills by requests.
    """

    command = ("tests.support.crashing_router",)
    deaths = 0

    def revive(self) -> None:
        """Start it again if a request killed it; any other end is an error."""
        process = self._process
        assert process is not None
        if process.poll() is not None:
            assert process.returncode == KILLED
            self.deaths += 1
            self.spawn()


def deadly(context: AppContext) -> Handler:
    handle = real_handler(context)

    def handle_or_die(message: Message) -> Outcome | Awaitable[Outcome]:
        if b'"%b"' % FATAL.encode() in message.data:
            os._exit(KILLED)
        return handle(message)

    return handle_or_die


if __name__ == "__main__":
    real_handler = decide_subscription.build_decide_handler
    decide_subscription.build_decide_handler = deadly  # type: ignore[assignment]
    asyncio.run(RouterService(load().settings, policies_dir=Path(sys.argv[2])).run())
