"""Runs a supervision tree: starts children in order, restarts them by their rules, stops them in
reverse order.

    a child ends   ->  does its rule restart it?  ->  budget left?  ->  pause, start it (and those
                                                      after it)
                                                      no            ->  stop the others, raise SupervisionFailed
    cancelled      ->  stop all, the last started first, each within its own deadline

A cancellation of the supervisor and one of a child are distinguished by where they appear: the
first is raised where this file waits, the second is only read from a finished task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from router.core.clock import Clock, steady
from router.core.errors import Misconfigured
from router.process.observability import events, logs
from router.process.supervision.budget import RestartBudget, SupervisionFailed
from router.process.supervision.tree import Child, Restart, Strategy, Supervisor

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
