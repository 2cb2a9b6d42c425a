"""A tree brought to life: started in order, restarted by its rules, stopped in reverse.

    a child ends   ->  its rule says restart?  ->  budget left?  ->  wait a little, start it (and the rest)
                                                   no            ->  stop the others, SupervisionFailed climbs
    cancelled      ->  stop all, the last started first, each within its own deadline

Being cancelled and having a child that was cancelled are told apart by where they are seen: the first is raised
where this file waits, the second is only ever read from a finished task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from router.clock import Clock, steady
from router.errors import Misconfigured
from router.observability import events, logs
from router.supervision.budget import Budget, SupervisionFailed
from router.supervision.tree import Child, Restart, Strategy, Supervisor

log = logs.logger(__name__)

Node = Child | Supervisor
Pause = Callable[[float], Awaitable[None]]
Failure = BaseException | None  # None: the child returned
_LAST_CHANCE_S = 0.1  # after the deadline, for a child that hears only the second cancellation


async def supervise(tree: Supervisor, *, clock: Clock = steady, pause: Pause = asyncio.sleep) -> None:
    """Run the tree until cancelled; when it ends, so have its children.

    SupervisionFailed: a failure climbed above the root. Misconfigured: a child said so; it was not started again.
    """
    await _Life(tree, tree.name, clock, pause).run()


class _Life:
    """One supervisor that is running. `path` is its place in the tree, as logs and task names show it."""

    def __init__(self, tree: Supervisor, path: str, clock: Clock, pause: Pause) -> None:
        self._tree = tree
        self._path = path
        self._clock = clock
        self._pause = pause
        self._budget = Budget(tree.intensity, clock)
        self._tasks: dict[Node, asyncio.Task[None]] = {}  # in the order of the start

    async def run(self) -> None:
        try:
            await self._start(self._tree.children)
            while True:
                await self._tend(await self._next_ended())
        finally:
            await self._leave()

    async def _next_ended(self) -> Node:
        if not self._tasks:
            await asyncio.Event().wait()  # every child is done for good; a supervisor stays until it is told to go
        await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        return next(node for node, task in self._tasks.items() if task.done())

    async def _tend(self, node: Node) -> None:
        """One child has ended: let it rest, start it again, or give up."""
        failure = self._bury(node)
        if isinstance(failure, Misconfigured):
            raise failure  # no restart mends a setting: it climbs to the root as it is
        if not _comes_back(node.restart, failure):
            return
        delay = self._budget.spend()
        if delay is None:
            log.error(events.SUPERVISOR_GAVE_UP, supervisor=self._path, child=node.name)
            raise SupervisionFailed(self._path, node.name) from failure
        again = await self._cleared(node)
        log.info(events.CHILD_RESTARTING, child=f"{self._path}/{node.name}", delay_s=delay, together_with=[n.name for n in again[1:]])
        await self._pause(delay)
        await self._start(again)

    async def _cleared(self, node: Node) -> Sequence[Node]:
        """Stop whoever leans on the child that ended; the answer is who is to be started, in order."""
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
            await asyncio.sleep(0)  # it runs until it first waits, before the next one is there

    async def _run_child(self, node: Node, path: str) -> None:
        if isinstance(node, Child):
            await node.run()
        else:
            await _Life(node, path, self._clock, self._pause).run()

    async def _leave(self) -> None:
        try:
            await self._stop(list(self._tasks))
        except asyncio.CancelledError:
            for task in self._tasks.values():  # told twice: no more order, no more waiting
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
                self._bury(node, was_told=True)
                return
        log.error(events.CHILD_STUCK, child=task.get_name(), shutdown_s=deadlines[0])
        del self._tasks[node]

    def _bury(self, node: Node, *, was_told: bool = False) -> Failure:
        """Forget a task that is done, log once how it ended, and say what it failed of."""
        task = self._tasks.pop(node)
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if was_told and (failure is None or task.cancelled()):
            return None
        if failure is None:
            log.info(events.CHILD_ENDED, child=task.get_name())
        elif isinstance(failure, SupervisionFailed | Misconfigured):
            log.error(events.CHILD_CRASHED, child=task.get_name(), error=str(failure))  # the text says all; causes are logged below
        else:
            log.error(events.CHILD_CRASHED, child=task.get_name(), error=repr(failure), exc_info=failure)
        return failure


def _comes_back(rule: Restart, failure: Failure) -> bool:
    match rule:
        case Restart.PERMANENT:
            return True
        case Restart.TRANSIENT:
            return failure is not None
        case Restart.TEMPORARY:
            return False
