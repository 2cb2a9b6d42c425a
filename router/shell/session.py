"""What the frame hands to a command: its settings, its connection, and one way to print for people
and for programs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.core.errors import NoJetStream, RouterError
from router.shell import output
from router.shell.exit_codes import complain
from router.shell.options import ConfigFile, NatsUrl

if TYPE_CHECKING:
    from router.config import Loaded, Settings
    from router.delivery.wire.api import JetStream
    from router.operate.audit import OperatorWrite
    from router.shell.view import View


class CommandSession:
    """One call of a command. The settings are read when they are first used; the frame closes what
    was opened.
    """

    def __init__(self, load: Callable[[], Settings], *, as_json: bool) -> None:
        self._load = load
        self._opened = AsyncExitStack()
        self._jetstream: JetStream | None = None
        self.as_json = as_json
        self.has_unstored_audit = False  # a write is done, and its event could not be stored

    @cached_property
    def settings(self) -> Settings:
        """Raises Misconfigured."""
        return self._load()

    async def open_jetstream(self) -> JetStream:
        """Return JetStream over the command's connection, which the first call opens. Raises
        BrokerUnavailable.
        """
        if self._jetstream is None:
            self._jetstream = await self._opened.enter_async_context(open_jetstream(self.settings))
        return self._jetstream

    async def find_missing_jetstream(self) -> NoJetStream | None:
        """Return the error that says so if the server has no JetStream; None also if this user may
        not ask.
        """
        try:
            await (await self.open_jetstream()).account()
        except NoJetStream as exc:
            return exc
        except RouterError:
            return None
        return None

    async def record(self, write: OperatorWrite) -> None:
        """Store the audit event of a write that is done. One that cannot be stored is told, and
        changes the exit status.
        """
        from router.core.crashpoints import crashpoint
        from router.operate.audit.audit_event import CLI
        from router.operate.audit.audit_log import open_audit_log
        from router.shell.exit_codes import complain

        crashpoint("audit_recording")
        try:
            await open_audit_log(
                self.settings, await self.open_jetstream(), describe_operator(), CLI
            ).store(write)
        except RouterError as exc:
            self.has_unstored_audit = True
            stream = self.settings.streams.audit.name
            complain(
                f"{write.command} {write.target}: {write.outcome}, but its audit event "
                f"could not be stored in {stream}: {exc}"
            )

    async def serve(self, work: Coroutine[Any, Any, None]) -> int:
        """Log as the settings say, run `work` until a signal ends it, and return the exit status."""
        from router.process.observability import configure
        from router.shell.signals import run_until_signal

        configure(self.settings.log.level, self.settings.log.format)
        return await run_until_signal(work)

    async def close(self) -> None:
        await self._opened.aclose()

    def emit(self, records: Iterable[object], view: View, *, empty: str) -> None:
        """Print records as their view shows them: for programs a line of JSON each, for people a
        table, or `empty`.
        """
        if self.as_json:
            output.print_json_lines(map(view.fields, records))
        elif shown := list(records):
            output.print_view(shown, view)
        else:
            print(empty)

    def emit_one(self, fields: Any, text: str | Callable[[], object] | None = None) -> None:
        """Print one JSON object for programs; for people a text, or what `text` prints, or else a
        line for each field.
        """
        if self.as_json:
            output.print_json(fields)
        elif text is None:
            output.print_fields(fields)
        elif callable(text):
            text()
        else:
            print(text)


def describe_operator() -> str:
    """`user@host`, as the operating system knows both."""
    from router.shell.options import choose_author

    return f"{choose_author(None)}@{socket.gethostname()}"


def load_settings(nats_url: NatsUrl = None, config: ConfigFile = None) -> Settings:
    """Load the settings of a command. Raises Misconfigured."""

    return load_settings_of_command(config, {"nats.url": nats_url}).settings


def skip_settings() -> Settings:
    """The loader of a command without settings."""
    raise AssertionError("this command has no settings")


@asynccontextmanager
async def open_jetstream(settings: Settings) -> AsyncIterator[JetStream]:
    """Open JetStream over a connection of its own. Raises BrokerUnavailable."""
    from router.config.connect import connect_by
    from router.delivery.wire.api import JetStream

    connection = await connect_by(settings.nats)
    try:
        yield JetStream(connection, settings.nats.js_domain)
    finally:
        await connection.close()


# -- The settings of a command: loaded, and variables that were probably meant for the router told
# on standard error.


_TOLD: set[str] = set()  # variables: a service reads its settings again when it is told to


def load_settings_of_command(config: Path | None, given: Mapping[str, object]) -> Loaded:
    """Load every source. Raises Misconfigured."""
    from router.config import load
    from router.config.names import find_misspelled

    for name, near in find_misspelled(os.environ):
        if name not in _TOLD:
            _TOLD.add(name)
            with suppress(OSError):  # a service serves on where standard error is full
                complain(f"the variable {name} is not read; did you mean {near}?")
    return load(config, given)
