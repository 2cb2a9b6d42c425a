"""One stage of a pipeline: extensions of one kind, one after the other, or side by side when the policy says `parallel`.

    condition does not hold -> skipped
    called -> what it answered changes the matter; a failure or a no is for its mode to judge (`modes`)
    the deadline is over -> deadline_exceeded, whatever the mode

Side by side, all see the request as the stage found it; what they changed is put together in the document's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from router.clock import Clock
from router.contracts.decision import Refusal
from router.contracts.extension import Changed, Judged, NotAllowed, read_changed, read_judged
from router.contracts.request import RouteRequest
from router.extensions.entry import PRE, VALIDATOR
from router.extensions.executed import ERROR, SKIPPED, WARN, Executed
from router.extensions.failure import BROKEN, NOT_FOUND, Failure
from router.extensions.invoke import Call, Invoker
from router.extensions.matter import Matter
from router.extensions.modes import LATE, REJECTED, Came, refusal_of, status_of
from router.extensions.ports import Meter
from router.extensions.registry import Registry, Route
from router.policy.conditions import MISSING, Scene, always
from router.policy.model import ExtensionUse
from router.policy.policy import Policy


class Means(Struct, frozen=True):
    """What every stage of every pipeline is run with."""

    registry: Registry
    invoker: Invoker
    meter: Meter
    environment: str | None
    now: Clock


class Run(Struct, frozen=True, gc=False):
    """One pipeline under way. `deadline`: on the clock of the means; `executed` grows with each extension."""

    policy: Policy
    matter: Matter
    deadline: float
    executed: list[Executed]


class Stage(Struct, frozen=True, gc=False):
    """`kind`: pre | validator | post."""

    means: Means
    run: Run
    kind: str

    async def walk(self, uses: Sequence[ExtensionUse]) -> Refusal | None:
        """None: go on. Raises BrokerUnavailable."""
        if self.run.policy.pipeline.parallel and len(uses) > 1:
            return await self._side_by_side(uses)
        for use in uses:
            asked = self.run.matter.request
            if (refusal := self._take(use, await self._came(use), asked)) is not None:
                return refusal
        return None

    async def _side_by_side(self, uses: Sequence[ExtensionUse]) -> Refusal | None:
        """All of them end, also when one has failed: what was executed is told whole."""
        asked = self.run.matter.request
        try:
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(self._came(use)) for use in uses]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        refusals = [self._take(use, call.result(), asked) for use, call in zip(uses, calls, strict=True)]
        return next((refusal for refusal in refusals if refusal is not None), None)

    async def _came(self, use: ExtensionUse) -> Came | None:
        """None: skipped."""
        request, executed, now = self.run.matter.request, self.run.executed, self.means.now
        if use.applies is not always and not use.applies(Scene(request, request.context.get("status", MISSING))):
            executed.append(Executed(self.kind, use.id, SKIPPED, 0.0))
            return None
        began = now()
        try:
            came: Came = await self.means.invoker.invoke(self._call(use), self._reader())
        except Failure as failure:
            came = failure
        except NotAllowed as exc:
            came = Failure(BROKEN, f"it cannot be asked: {exc}", "refused")
        executed.append(Executed(self.kind, use.id, status_of(use, came), (now() - began) * 1000))
        return came

    def _call(self, use: ExtensionUse) -> Call:
        means, run = self.means, self.run
        request, policy_id = run.matter.request, run.policy.policy_id
        route = means.registry.find(
            use.id, kind=self.kind, tenant_id=request.tenant_id, policy_id=policy_id, environment=means.environment, key=request.request_key
        )
        if route is None:
            raise Failure(NOT_FOUND, "it is not registered, or not for a request like this", "not_found")
        timeout_ms = route.timeout_ms if use.timeout_ms is None else use.timeout_ms
        retry = route.retry if use.retry is None else use.retry
        return Call(route, run.matter.asked(_config(route, use)), run.matter.headers, timeout_ms / 1000, retry, run.deadline)

    def _reader(self) -> Callable[[bytes], Changed | dict[str, str] | Judged]:
        if self.kind == PRE:
            return read_changed
        return read_judged if self.kind == VALIDATOR else self.run.matter.read_additions

    def _take(self, use: ExtensionUse, came: Came | None, asked: RouteRequest) -> Refusal | None:
        match came:
            case Changed():
                self.run.matter.change(asked, came)
            case dict():
                self.run.matter.additions.update(came)
            case Failure() if self.means.now() >= self.run.deadline:
                return LATE
            case Failure() | Judged(is_ok=False):
                return self._by_mode(use, came)
        return None

    def _by_mode(self, use: ExtensionUse, came: Failure | Judged) -> Refusal | None:
        status = status_of(use, came)
        if status == ERROR:
            return refusal_of(self.kind, use, came)
        if status == WARN:
            code = came.code if isinstance(came, Failure) else REJECTED
            self.means.meter.tolerated(use.id, self.kind, self.run.policy.policy_id, code)
        return None


def _config(route: Route, use: ExtensionUse) -> Mapping[str, object]:
    """The registry's, and over it the policy's."""
    return {**route.config, **use.config} if route.config else use.config
