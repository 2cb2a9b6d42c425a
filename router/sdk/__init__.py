"""What other people import: `from router import Client, Worker`. Each is loaded when it is first asked for.

client, answer                asking, from Python; what a decide request is answered with
providers                     invoking a provider through the router: at once, or as a stream
worker                        working, from Python
    step, attempts            what a handler answers; its attempts at one assignment
    assignments, reports      one assignment in, one outcome out; what is said of it, as bytes
    echo, invoking            handlers that come with the package: what was given, and what a provider says to it
    pulse, noted              heartbeats; what a worker logs
ending                        how a program of a user's own ends by a signal: `router.run(worker)`
bus                           publishing and consuming envelopes; what a handler may say: `from router.bus import Nak, Term`
agent                         running an agent with exactly-once effects: `from router.agent import Agent, Outgoing`
extension/                    writing extensions: `from router.extension import pre, serve`
reach                         how all of them find their broker
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.contracts.exec_assignment import ExecAssignment
    from router.sdk.agent import Agent
    from router.sdk.answer import Answer
    from router.sdk.assignments import WorkerTopology
    from router.sdk.bus import Bus
    from router.sdk.client import Client
    from router.sdk.provider_handler import ProviderHandler
    from router.sdk.providers import InvocationFailed
    from router.sdk.signals import run
    from router.sdk.step import StepResult
    from router.sdk.worker import Worker

__all__ = [
    "Agent",
    "Answer",
    "Bus",
    "Client",
    "ExecAssignment",
    "InvocationFailed",
    "ProviderHandler",
    "StepResult",
    "Worker",
    "WorkerTopology",
    "run",
]

_HOMES = {
    "Agent": "router.sdk.agent",
    "Answer": "router.sdk.answer",
    "Bus": "router.sdk.bus",
    "Client": "router.sdk.client",
    "ExecAssignment": "router.contracts.exec_assignment",
    "InvocationFailed": "router.sdk.providers",
    "ProviderHandler": "router.sdk.provider_handler",
    "WorkerTopology": "router.sdk.assignments",
    "StepResult": "router.sdk.step",
    "Worker": "router.sdk.worker",
    "run": "router.sdk.signals",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
