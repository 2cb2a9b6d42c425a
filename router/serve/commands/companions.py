"""What stands beside `router serve --embedded`: the console, a gateway, a provider that echoes.

Each is a process of its own and no part of the router's loop: a page may compute for a second, and
grouping 100 000 dead letters would stop every decision for as long. They start once the router
answers, and end with it. If one ends before, the router goes on and says so.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from router.core.errors import Misconfigured
from router.process.child_process import die_with, stop_process
from router.process.supervision import Child, Restart
from router.shell.exit_codes import complain

CONSOLE_PACKAGES = ("jinja2", "sse_starlette", "argon2", "itsdangerous")
# a gateway lets its clients finish
STOP_S, SHUTDOWN_S = 8.0, 10.0
TENANT = "acme"  # of the key that a gateway beside an embedded server makes

# Gets the server's URL and the router's HTTP address.
MakeCommand = Callable[[str, str], Sequence[str]]


def require_console() -> None:
    """Raises Misconfigured if the extra is not installed."""
    missing = [name for name in CONSOLE_PACKAGES if find_spec(name) is None]
    if missing:
        raise Misconfigured(
            "console", f"{missing[0]} is not installed: pip install 'beamline-router[console]'"
        )


class Companion:
    """`run` waits until `start` has named the addresses, then keeps the process until it is
    cancelled. Its standard output is ours: its ready line comes after router.ready.
    """

    def __init__(self, name: str, make_command: MakeCommand) -> None:
        self._name = name
        self._make_command = make_command
        self._addresses: asyncio.Future[tuple[str, str]] = (
            asyncio.get_running_loop().create_future()
        )

    def start(self, nats_url: str, http: str) -> None:
        """The router answers: it has been announced."""
        if not self._addresses.done():
            self._addresses.set_result((nats_url, http))

    @property
    def child(self) -> Child:
        return Child(self._name, self.run, Restart.TEMPORARY, shutdown_s=SHUTDOWN_S)

    async def run(self) -> None:
        command = self._make_command(*await self._addresses)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "router.cli",
            *command,
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),
        )
        try:
            status = await process.wait()
            complain(
                f"the {self._name} ended with status {status}; the router goes on without it, "
                f"and `router {command[0]}` starts another"
            )
        finally:
            await stop_process(process, STOP_S)


class CompanionChoice:
    """Which of them a user wants; `make` them on the loop."""

    def __init__(self, config: Path | None) -> None:
        self._config = ("--config", str(config)) if config is not None else ()
        self._chosen: dict[str, MakeCommand] = {}

    def add_console(self, *, is_opened: bool) -> None:
        """Raises Misconfigured without the extra `console`."""
        require_console()
        opened = ("--open",) if is_opened else ()
        self._chosen["console"] = lambda nats_url, http: (
            "console",
            *("--nats-url", nats_url, "--metrics", http, *self._config, *opened),
        )

    def add_gateway(self) -> None:
        """A gateway with a key of its own, and a provider for it to ask."""
        self._chosen["gateway"] = lambda nats_url, _: (
            "gateway",
            *("--nats-url", nats_url, "--own-key", TENANT, *self._config),
        )
        self._chosen["provider"] = lambda nats_url, _: (
            "provider",
            *("run", "echo", "--kind", "echo", "--nats-url", nats_url, *self._config),
        )

    def make(self) -> Sequence[Companion]:
        return [Companion(name, command) for name, command in self._chosen.items()]
