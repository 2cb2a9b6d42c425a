"""A supervision tree beside a test, whose children write down what happens to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from router.process.supervision import Child, Restart, Supervisor, supervise


@asynccontextmanager
async def run_children(*runs: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run them, as a tree would, until the block ends; then cancel the last one first."""
    tasks = [asyncio.ensure_future(run()) for run in runs]
    try:
        yield
    finally:
        for task in reversed(tasks):
            task.cancel()
            await asyncio.wait({task})


class EventLog:
    """What the children of one test did, in order: "a starts", "a stops"."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._written = asyncio.Event()

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._written.set()

    async def until(self, line: str, times: int = 1) -> None:
        """Wait, without sleeping, until the line was written so often."""
        async with asyncio.timeout(30):
            while self.lines.count(line) < times:
                self._written.clear()
                await self._written.wait()


class FakeChild:
    """A child that lives until the test ends it: `crash` or `finish`; each start is a new life."""

    def __init__(self, name: str, diary: EventLog) -> None:
        self.name = name
        self._diary = diary
        self._end: asyncio.Future[None] | None = None

    async def run(self) -> None:
        self._end = asyncio.get_running_loop().create_future()
        self._diary.write(f"{self.name} starts")
        try:
            await self._end
        except asyncio.CancelledError:
            self._diary.write(f"{self.name} stops")
            raise

    def crash(self, error: Exception | None = None) -> None:
        assert self._end is not None
        self._end.set_exception(error or ValueError(f"{self.name} is broken"))

    def finish(self) -> None:
        assert self._end is not None
        self._end.set_result(None)

    def lose_a_task(self) -> None:
        """Other code cancels what the child awaits: a CancelledError that is no shutdown."""
        assert self._end is not None
        self._end.cancel()

    def child(self, restart: Restart = Restart.PERMANENT, shutdown_s: float = 1.0) -> Child:
        return Child(self.name, self.run, restart, shutdown_s)


async def no_pause(_: float) -> None:
    """A pause that does not wait."""


@asynccontextmanager
async def run_tree(
    tree: Supervisor,
    clock: Callable[[], float] = lambda: 0.0,
    pause: Callable[[float], Awaitable[None]] = no_pause,
) -> AsyncIterator[asyncio.Task[None]]:
    """The tree beside the test, cancelled at its end."""
    task = asyncio.create_task(supervise(tree, clock=clock, pause=pause))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
