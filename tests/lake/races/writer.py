"""A writer of a warehouse, as a process: it prepares a batch, waits for the start, and commits; or
it compacts, or seals.

    Writer.batch(…)   in the process: stage, derive, write files ── "ready" ──> Writer.go() ──> commit ──> Writer.wait() tells how it ended

It is forked from a process that has imported everything (delta-rs does not survive a fork once it
was used), so one more costs little. It dies by SIGKILL at a crash point if it is told so, stands
still by SIGSTOP, and goes on.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from multiprocessing.connection import Connection
from typing import Any, cast

from deltalake import DeltaTable, Transaction
from pyspark.sql import SparkSession

from router.core.errors import Conflict, Misconfigured
from router.lake.jobs import commits
from router.lake.jobs import ingest as ingest_module
from router.lake.jobs.commits import Overtaken, find_end
from router.lake.jobs.ingest import _complete_last_batch
from router.lake.jobs.maintenance import compact
from router.lake.jobs.seal import seal
from router.lake.warehouse import Progress
from router.lake.warehouse.commit import name_application
from tests.lake.without_jvm import WithoutJvm
from tests.support.lake_jobs import FACTS, Lake, a_body, messages

APPLICATION = name_application(FACTS.stream, FACTS.created)
TODAY = datetime.combine(datetime.now(UTC).date(), time(0), UTC)
NEVER = "never"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.lake.races.writer"])


def find_day(race: int) -> date:
    """The day of a race's events: long over, and of no other race of its warehouse."""
    return (TODAY - timedelta(days=5 + race % 25)).date()


def make_body(seq: int, race: int) -> bytes:
    at = datetime.combine(find_day(race), time(12), UTC) + timedelta(seconds=seq)
    return a_body(f"r-{seq}", cost=f"{seq}.5", at=at, tenant_id=f"race-{race}")


class Writer:
    """The process, seen from outside. A context."""

    def __init__(
        self, home: str, environment: Mapping[str, str] | None = None, *, is_control: bool = False
    ) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_serve, args=(theirs, home, dict(environment or {}), is_control), daemon=True
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def batch(self, race: int, first: int, last: int, *, die_at: str = NEVER) -> "Writer":
        """Prepare these sequences as one batch."""
        return self._ask("batch", race, first, last, die_at)

    def ingest(self, race: int, last: int, step: int, *, die_at: str = NEVER) -> "Writer":
        """Batches of at most so many messages, up to a sequence, as `router usage ingest` goes on
        after another one.
        """
        return self._ask("ingest", race, last, step, die_at)

    def compact(self) -> "Writer":
        return self._ask("compact")

    def seal(self, race: int) -> "Writer":
        return self._ask("seal", race)

    def _ask(self, *command: object) -> "Writer":
        self._pipe.send(command)
        assert (answer := self._pipe.recv()) == "ready", answer
        return self

    def go(self) -> None:
        self._pipe.send("go")

    def wait(self) -> str:
        """How it ended; "killed" if it is dead."""
        try:
            return str(self._pipe.recv())
        except (EOFError, ConnectionResetError):
            self._process.join()
            return "killed"

    def ends_within(self, seconds: float) -> bool:
        return self._pipe.poll(seconds)

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.join()
        self._pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(cast(int, self._process.pid), number)


# -- in the process --------------------------------------------------------------------------------


def _serve(pipe: Connection, home: str, environment: Mapping[str, str], is_control: bool) -> None:
    os.environ.update(environment)
    if is_control:
        _take_the_look_away()
    worker = _Worker(pipe, Lake(cast(SparkSession, WithoutJvm()), home))
    while True:
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(worker, name)(*arguments))
        except (Overtaken, Conflict) as exc:
            pipe.send(exc.code)
        except Misconfigured as exc:
            pipe.send(f"{exc.code}: {exc}")
        except Exception as exc:  # the pipe's other end tells the test
            pipe.send(f"{type(exc).__name__}: {exc}")


class _Worker:
    def __init__(self, pipe: Connection, lake: Lake) -> None:
        self._pipe = pipe
        self._lake = lake
        self._waits = True
        self._die_at = NEVER
        for module in (ingest_module, commits):
            cast(Any, module).crashpoint = self._on_point

    def _on_point(self, name: str) -> None:
        if name == "lake_after_write" and self._waits:
            self._wait_for_start()
        if name == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _wait_for_start(self) -> None:
        self._waits = False
        self._pipe.send("ready")
        assert self._pipe.recv() == "go"

    def batch(self, race: int, first: int, last: int, die_at: str) -> str:
        self._waits, self._die_at = True, die_at
        return self._take(race, first, last)

    def ingest(self, race: int, last: int, step: int, die_at: str) -> str:
        """It starts again where an ingest ends as overtaken."""
        self._waits, self._die_at = True, die_at
        ends = set()
        _complete_last_batch(self._lake.warehouse, FACTS)
        while (done := self._lake.warehouse.last_sequence(FACTS.stream, FACTS.created)) < last:
            end = find_end(self._lake.warehouse, APPLICATION) or min(done + step, last)
            try:
                ends.add(self._take(race, done + 1, end))
            except Overtaken as exc:
                ends.add(exc.code)
                _complete_last_batch(self._lake.warehouse, FACTS)
        if self._waits:  # all was in
            self._wait_for_start()
        return "+".join(sorted(ends)) or "nothing to do"

    def _take(self, race: int, first: int, last: int) -> str:
        cuts = len(self._lake.told)
        bodies = [make_body(seq, race) for seq in range(first, last + 1)]
        self._lake.batch(messages(bodies, first=first, came=TODAY))
        return "committed" if len(self._lake.told) > cuts else "dropped"

    def compact(self) -> str:
        self._waits = True
        self._wait_for_start()
        compact(self._lake.warehouse)
        return "compacted"

    def seal(self, race: int) -> str:
        self._waits = True
        self._wait_for_start()
        seal(self._lake.warehouse, find_day(race), find_day(race))
        return "sealed"


def _take_the_look_away() -> None:
    """The control: a batch is committed whatever the table's last sequence is. All else is as it
    should be.
    """

    def follow_blindly(progress: Progress) -> Callable[[DeltaTable], Sequence[Transaction]]:
        return lambda _: [Transaction(progress.application, progress.last)]

    cast(Any, commits)._follow = follow_blindly
