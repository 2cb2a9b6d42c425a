"""The console beside `router serve --embedded`: a process of its own, started once the router
answers, ended with it.

It is a child and no part of the router's loop, because a page may compute for a second: grouping
100 000 dead letters would stop every decision for as long. If the console ends, the router goes on
and says so.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from router.core.errors import Misconfigured
from router.process.child_process import die_with, stop_process
from router.shell.exit_codes import complain

PACKAGES = ("jinja2", "sse_starlette", "argon2", "itsdangerous")  # of the extra `console`
STOP_S = 5.0


def require_console() -> None:
    """Raises Misconfigured if the extra is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise Misconfigured(
            "console", f"{missing[0]} is not installed: pip install 'beamline-router[console]'"
        )


class ConsoleProcess:
    """`run` waits until `start` has named the addresses, then keeps the console until it is
    cancelled. `is_opened`: in a browser.
    """

    def __init__(self, config: Path | None, *, is_opened: bool) -> None:
        self._config = config
        self._is_opened = is_opened
        self._addresses: asyncio.Future[tuple[str, str]] = (
            asyncio.get_running_loop().create_future()
        )

    def start(self, nats_url: str, http: str) -> None:
        """The router answers: it has been announced."""
        if not self._addresses.done():
            self._addresses.set_result((nats_url, http))

    async def run(self) -> None:
        command = self._build_command(*await self._addresses)
        process = await asyncio.create_subprocess_exec(
            *command, start_new_session=True, preexec_fn=die_with(os.getpid())
        )
        try:
            status = await process.wait()
            complain(
                f"the console ended with status {status}; the router goes on without it, "
                "and `router console` starts another"
            )
        finally:
            await stop_process(process, STOP_S)

    def _build_command(self, nats_url: str, http: str) -> Sequence[str]:
        """Its standard output is ours: the line console.ready comes after router.ready."""
        config = ("--config", str(self._config)) if self._config is not None else ()
        opened = ("--open",) if self._is_opened else ()
        return (
            sys.executable,
            "-m",
            "router.cli",
            "console",
            "--nats-url",
            nats_url,
            "--metrics",
            http,
            *config,
            *opened,
        )
