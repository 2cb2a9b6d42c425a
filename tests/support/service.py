"""A whole router: in this process (`a_router`), or as a process of its own that can be killed
(`RouterProcess`).
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from router.config import Settings, load
from router.serve.consumer_child import JoinedSubscription
from router.serve.service import Ready, RouterService
from router.serve.subscriptions import JOINED
from tests.support.beside import beside
from tests.support.forking import ForkedProgram, fork_server
from tests.support.startable import Startable
from tests.support.waiting import slack

STREAMS = ("decide", "results", "acks", "assignments", "usage", "dlq", "violations", "held")
POLICIES = Path(__file__).parent / "policies"


def settings_for(url: str, prefix: str = "t", **overrides: object) -> Settings:
    """Settings for one test: streams, subjects and durables of its own, any free port.

    Overrides by dotted name with `__` for the dot: `decide__ack_wait_ms=300`.
    """
    return load(
        None,
        {
            **names_for(url, prefix),
            **{name.replace("__", "."): value for name, value in overrides.items()},
        },
        {},
    ).settings


def names_for(url: str, prefix: str) -> dict[str, object]:
    """What keeps one test's streams from another's on the same server; and no request expires, for
    a busy machine takes its time.
    """
    upper = prefix.upper()
    return {
        "nats.url": url,
        "http.port": 0,
        "admission.patience_ms": 600_000,
        "decide.subject": f"{prefix}.beamline.router.v1.decide",
        "results.subject": f"{prefix}.caf.exec.result.v1",
        "acks.subject": f"{prefix}.caf.exec.assign.v1.ack",
        "assignment.subjects": f"{prefix}.caf.exec.assign.v1",
        **{f"streams.{name}.name": f"{upper}_{name.upper()}" for name in STREAMS},
        "buckets.attempts.name": f"{upper}_ATTEMPTS",
        "buckets.assignments_known.name": f"{upper}_KNOWN",
        "buckets.breakers.name": f"{upper}_BREAKERS",
        "buckets.canaries.name": f"{upper}_CANARIES",
        "buckets.figures.name": f"{upper}_FIGURES",
        "buckets.budgets.name": f"{upper}_BUDGETS",
        "buckets.prices.name": f"{upper}_PRICES",
        "buckets.keys.name": f"{upper}_KEYS",
        "buckets.gateway_answers.name": f"{upper}_GATEWAY_ANSWERS",
        "buckets.ratios.name": f"{upper}_RATIOS",
        "buckets.budgets_spent.name": f"{upper}_BUDGETS_SPENT",
        "buckets.rate_limits.name": f"{upper}_RATE_LIMITS",
        "buckets.invocations.name": f"{upper}_INVOCATIONS",
        "buckets.policies.name": f"{upper}_POLICIES",
        "buckets.extensions.name": f"{upper}_EXTENSIONS",
    }


class Running:
    """A router in this process."""

    def __init__(self, service: RouterService, ready: Ready, task: "asyncio.Task[None]") -> None:
        self.service = service
        self.ready = ready
        self._task = task

    @property
    def settings(self) -> Settings:
        return self.service.settings

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@contextlib.asynccontextmanager
async def a_router(
    settings: Settings,
    policies: Path = POLICIES,
    subscriptions: Sequence[JoinedSubscription] = JOINED,
) -> AsyncIterator[Running]:
    service = RouterService(settings, policies_dir=policies, subscriptions=subscriptions)
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    async with beside(
        service.run(lambda value: None if ready.done() else ready.set_result(value))
    ) as task:
        await asyncio.wait({ready, task}, timeout=60 * slack(), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        assert ready.done(), f"not ready: {service.readiness()}"
        running = Running(service, ready.result(), task)
        yield running


class RouterProcess(Startable):
    """`router serve` as a child process. Settings are given as environment variables:
    `ROUTER_DECIDE__ACK_WAIT_MS`.
    """

    command: tuple[str, ...] = ("router", "serve")
    announces = "router.ready"

    def __init__(self, settings: Mapping[str, object], policies: Path | None = POLICIES) -> None:
        self._environ = {
            f"ROUTER_{name.upper().replace('.', '__')}": str(value)
            for name, value in settings.items()
        }
        self._policies = policies
        self._process: ForkedProgram | None = None
        self.ready: dict[str, str] = {}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Returns when it is ready."""
        self.spawn()
        assert self._process is not None
        line = self._process.stdout.readline()
        self.ready = json.loads(line) if line else {}
        assert self.ready.get("event") == self.announces, f"the router did not start: {line!r}"
        return self

    def spawn(self) -> None:
        """Returns at once."""
        self._process = fork_server().start(self._arguments(), {**os.environ, **self._environ})

    def _arguments(self) -> Sequence[str]:
        """What follows `python -m`."""
        return (
            *self.command,
            *(("--policies", str(self._policies)) if self._policies is not None else ()),
        )

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: it stands still, and nothing that it is sent is read."""
        self._signal(signal.SIGSTOP)

    def unpause(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self, timeout_s: float = 60.0) -> int:
        """SIGTERM, and the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def wait(self, timeout_s: float = 60.0) -> int:
        """The exit status of a process that was told to go."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def _signal(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)

    def _send(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()

    def remove(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._send(signal.SIGKILL)
