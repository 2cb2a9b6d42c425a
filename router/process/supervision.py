"""Supervision as in Erlang: a tree of children, each with a rule for its restart. Every task of a
process has a parent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from router.core.clock import Clock, delay_after, steady
from router.core.errors import Misconfigured, RouterError
from router.process.observability import LogRateLimit, events, logs

__all__ = [
    "Child",
    "Helper",
    "Intensity",
    "Restart",
    "Strategy",
    "SupervisionFailed",
    "Supervisor",
    "draw",
    "helper_states",
    "supervise",
]


# -- The supervision tree as data. Building one starts nothing; `supervise` runs it, `draw` prints
# it.
#
# Children start in the order of the list, each one running until it first waits, and stop in the
# reverse order. A child does not signal that it is ready: the broker can become unavailable at any
# moment, so every child must cope with another one that is not ready anyway, also at the start.


class Restart(StrEnum):
    """When a child that ended is restarted. A child that cancels itself counts as crashed."""

    PERMANENT = "permanent"  # always
    TRANSIENT = "transient"  # after a crash
    TEMPORARY = "temporary"  # never


class Strategy(StrEnum):
    """Which children are restarted with a child that ended."""

    ONE_FOR_ONE = "one_for_one"  # no other
    REST_FOR_ONE = "rest_for_one"  # those started after it, because they depend on it


class Intensity(Struct, frozen=True):
    """With more than `restarts` within `seconds` the failure is escalated."""

    restarts: int = 3
    seconds: float = 10.0


class Child(Struct, frozen=True, eq=False):
    """One coroutine. `run` is called at each start; `shutdown_s`: seconds that it has to end after
    its cancellation.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    restart: Restart = Restart.PERMANENT
    shutdown_s: float = 5.0


class Supervisor(Struct, frozen=True, eq=False):
    """Children under one strategy. As a child of another supervisor it has no deadline, because its
    own children have theirs.
    """

    name: str
    children: tuple[Child | Supervisor, ...]
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Intensity = Intensity()
    restart: Restart = Restart.PERMANENT

    def __post_init__(self) -> None:
        names = [child.name for child in self.children]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: two children have the same name: {names}")


def draw(tree: Supervisor) -> str:
    """The tree as text, one node a line: names, strategies and intensities, restart rules and
    deadlines.
    """
    return "\n".join([_label(tree), *_branches(tree)])


def _branches(tree: Supervisor) -> Iterator[str]:
    for node in tree.children:
        is_last = node is tree.children[-1]
        yield ("└── " if is_last else "├── ") + _label(node)
        if isinstance(node, Supervisor):
            yield from (("    " if is_last else "│   ") + line for line in _branches(node))


def _label(node: Child | Supervisor) -> str:
    if isinstance(node, Child):
        return f"{node.name}  {node.restart}, {node.shutdown_s:g} s to stop"
    return (
        f"{node.name}  {node.strategy}, {node.intensity.restarts} restarts in "
        f"{node.intensity.seconds:g} s"
    )


# -- Limits restarts: a sliding window counts them, and the pauses grow with their number in it.


DELAYS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # by the number of restarts inside the window


class SupervisionFailed(RouterError):
    """A child ended more often than its supervisor allows; `__cause__` is its last failure."""

    code = "supervision_failed"

    def __init__(self, supervisor: str, child: str) -> None:
        super().__init__(f"{supervisor} gave up: {child} ended too often")
        self.supervisor = supervisor
        self.child = child


class RestartBudget:
    """The restarts that a supervisor may still make: each uses one up, time gives them back."""

    def __init__(self, intensity: Intensity, clock: Clock) -> None:
        self._intensity = intensity
        self._clock = clock
        self._restarts: deque[float] = deque()

    def spend(self) -> float | None:
        """Seconds to wait before this restart; None if it exceeds the limit."""
        now = self._clock()
        while self._restarts and self._restarts[0] <= now - self._intensity.seconds:
            self._restarts.popleft()
        if len(self._restarts) >= self._intensity.restarts:
            return None
        self._restarts.append(now)
        return delay_after(len(self._restarts), DELAYS_S)


# -- Runs a supervision tree: starts children in order, restarts them by their rules, stops them
# in reverse order.
#
# a child ends  ->  does its rule restart it?  ->  budget left?  ->  pause, start it (and those
#                                                  after it)
#                                                  no            ->  stop the others, raise SupervisionFailed
# cancelled     ->  stop all, the last started first, each within its own deadline
#
# A cancellation of the supervisor and one of a child are distinguished by where they appear: the
# first is raised where this file waits, the second is only read from a finished task.


log = logs.logger(__name__)

Node = Child | Supervisor
Pause = Callable[[float], Awaitable[None]]
Failure = BaseException | None  # None: the child returned
_LAST_CHANCE_S = 0.1  # after the deadline, for a child that only reacts to the second cancellation


async def supervise(
    tree: Supervisor, *, clock: Clock = steady, pause: Pause = asyncio.sleep
) -> None:
    """Run the tree until cancelled; when this returns, all children have ended.

    Raises SupervisionFailed if a failure is escalated above the root, and Misconfigured if a child
    raises it: it is not restarted.
    """
    await _RunningSupervisor(tree, tree.name, clock, pause).run()


class _RunningSupervisor:
    """`path`: its place in the tree, as logs and task names show it."""

    def __init__(self, tree: Supervisor, path: str, clock: Clock, pause: Pause) -> None:
        self._tree = tree
        self._path = path
        self._clock = clock
        self._pause = pause
        self._budget = RestartBudget(tree.intensity, clock)
        self._tasks: dict[Node, asyncio.Task[None]] = {}  # in the order of the start

    async def run(self) -> None:
        try:
            await self._start(self._tree.children)
            while True:
                await self._on_ended(await self._wait_for_end())
        finally:
            await self._stop_all()

    async def _wait_for_end(self) -> Node:
        if not self._tasks:
            # no child is left to restart; a supervisor runs until it is cancelled
            await asyncio.Event().wait()
        await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        return next(node for node, task in self._tasks.items() if task.done())

    async def _on_ended(self, node: Node) -> None:
        """A child has ended: leave it, restart it, or give up."""
        failure = self._remove(node)
        if isinstance(failure, Misconfigured):
            raise failure  # a restart does not correct a setting: it is raised up to the root
        if not _is_restarted(node.restart, failure):
            return
        delay = self._budget.spend()
        if delay is None:
            log.error(events.SUPERVISOR_GAVE_UP, supervisor=self._path, child=node.name)
            raise SupervisionFailed(self._path, node.name) from failure
        restarted = await self._stop_dependents(node)
        log.info(
            events.CHILD_RESTARTING,
            child=f"{self._path}/{node.name}",
            delay_s=delay,
            together_with=[n.name for n in restarted[1:]],
        )
        await self._pause(delay)
        await self._start(restarted)

    async def _stop_dependents(self, node: Node) -> Sequence[Node]:
        """Stop the children that depend on the one that ended. Returns those to start, in order."""
        if self._tree.strategy is Strategy.ONE_FOR_ONE:
            return (node,)
        rest = self._tree.children[self._tree.children.index(node) + 1 :]
        await self._stop([other for other in rest if other in self._tasks])
        return (node, *(other for other in rest if other.restart is not Restart.TEMPORARY))

    async def _start(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            path = f"{self._path}/{node.name}"
            log.debug(events.CHILD_STARTED, child=path)
            self._tasks[node] = asyncio.create_task(self._run_child(node, path), name=path)
            await asyncio.sleep(0)  # it runs until it first waits, before the next one is started

    async def _run_child(self, node: Node, path: str) -> None:
        if isinstance(node, Child):
            await node.run()
        else:
            await _RunningSupervisor(node, path, self._clock, self._pause).run()

    async def _stop_all(self) -> None:
        try:
            await self._stop(list(self._tasks))
        except asyncio.CancelledError:
            for task in self._tasks.values():  # cancelled twice: no order and no waiting any more
                task.cancel()
            raise

    async def _stop(self, nodes: Sequence[Node]) -> None:
        for node in reversed(nodes):
            await self._stop_one(node)

    async def _stop_one(self, node: Node) -> None:
        task = self._tasks[node]
        deadlines = (node.shutdown_s, _LAST_CHANCE_S) if isinstance(node, Child) else (None,)
        for deadline in deadlines:
            task.cancel()
            await asyncio.wait({task}, timeout=deadline)
            if task.done():
                self._remove(node, was_cancelled=True)
                return
        log.error(events.CHILD_STUCK, child=task.get_name(), shutdown_s=deadlines[0])
        del self._tasks[node]

    def _remove(self, node: Node, *, was_cancelled: bool = False) -> Failure:
        """Remove a task that is done, and log how it ended. Returns its failure."""
        task = self._tasks.pop(node)
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if was_cancelled and (failure is None or task.cancelled()):
            return None
        if failure is None:
            log.info(events.CHILD_ENDED, child=task.get_name())
        elif isinstance(failure, SupervisionFailed | Misconfigured):
            # its causes were logged where they happened
            log.error(events.CHILD_CRASHED, child=task.get_name(), error=str(failure))
        else:
            log.error(
                events.CHILD_CRASHED, child=task.get_name(), error=repr(failure), exc_info=failure
            )
        return failure


def _is_restarted(rule: Restart, failure: Failure) -> bool:
    match rule:
        case Restart.PERMANENT:
            return True
        case Restart.TRANSIENT:
            return failure is not None
        case Restart.TEMPORARY:
            return False


# -- A background task that its process can do without for a while: gauges, retention, a scan. Its
# failure never ends the process.
#
# it fails ──> one log line a minute for each kind of failure, `is_failing` for a gauge ──> a pause ──> it is restarted
#
# An ordinary child that fails uses up its supervisor's restarts, and then the process ends. A
# helper restarts itself and uses up none. Only Misconfigured is escalated, as from any child,
# because a restart does not correct a setting.


PAUSES_S = (1.0, 5.0, 15.0, 30.0, 60.0)  # by the number of failures in a row
STABLE_AFTER_S = 60.0  # a run that lasts longer resets the count of failures, and `is_failing`


class Helper:
    """Runs one background task until it is cancelled, restarting it after failures."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        *,
        clock: Clock = steady,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.name = name
        self._run = run
        self._clock = clock
        self._pause = pause
        self._failures = 0  # in a row
        self._failing_until = 0.0
        self._lines = LogRateLimit(every_s=60.0, clock=clock)

    @property
    def child(self) -> Child:
        return Child(self.name, self.run)

    @property
    def is_failing(self) -> bool:
        """Whether it failed, and has not run for CALM_S since."""
        return self._clock() < self._failing_until

    async def run(self) -> None:
        """Raises Misconfigured."""
        while True:
            try:
                await self._run()
                await self._pause(PAUSES_S[0])
            except Misconfigured:
                raise
            except Exception as exc:  # no failure of a helper is escalated
                await self._pause(self._record(exc))

    def _record(self, exc: Exception) -> float:
        """Count and log the failure; returns the seconds to pause."""
        self._failures = self._failures + 1 if self.is_failing else 1
        pause_s = delay_after(self._failures, PAUSES_S)
        self._failing_until = self._clock() + pause_s + STABLE_AFTER_S
        if self._lines.allow(type(exc).__name__):
            cause = str(exc) if isinstance(exc, RouterError) else type(exc).__name__
            log.error(
                events.HELPER_FAILED,
                helper=self.name,
                cause=cause,
                restart_in_s=pause_s,
                exc_info=exc,
            )
        return pause_s


def helper_states(helpers: Iterable[Helper]) -> Mapping[tuple[str, ...], int]:
    """The series of `router_helper_failing`: by name, 1 for a helper that fails."""
    return {(helper.name,): int(helper.is_failing) for helper in helpers}
