"""What users' programs import: `from router import Client, Worker`. Each is loaded at its first
use.

client, answer                ask for decisions; the answer to a decide request
providers                     invoke a provider through the router: at once, or as a stream
worker                        handle assignments: its durable, which another may have made, and its
                              heartbeats
    step, attempts            what a handler returns; its attempts at one assignment
    failures                  what it may raise: whose fault it was
    assignments, reports      one assignment in, one outcome out; its acks and results as bytes
    echo, provider_handler    handlers that come with the package: return the payload, or invoke the
                              provider
    consumer_logger           what a worker logs
threads                       daemon threads for plain functions of workers and extensions
signals                       how a user's program ends by a signal: `router.run(worker)`
bus                           publish and consume envelopes; what a handler may return: `from
                              router.bus import Nak, Term`
agent                         run an agent with exactly-once effects: `from router.sdk.agent import
                              Agent, Outgoing`
extension/                    write extensions: `from router.sdk.extension import pre, serve`
connect                       opens the connection for all of them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.contracts.exec_assignment import ExecAssignment
    from router.sdk.agent import Agent
    from router.sdk.assignments import WorkerTopology
    from router.sdk.bus import Bus
    from router.sdk.client import Answer, Client
    from router.sdk.failures import ProviderFailed, RateLimited, RequestRefused, make_failure
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
    "ProviderFailed",
    "ProviderHandler",
    "RateLimited",
    "RequestRefused",
    "StepResult",
    "Worker",
    "WorkerTopology",
    "make_failure",
    "run",
]

_HOMES = {
    "Agent": "router.sdk.agent",
    "Answer": "router.sdk.client",
    "Bus": "router.sdk.bus",
    "Client": "router.sdk.client",
    "ExecAssignment": "router.contracts.exec_assignment",
    "InvocationFailed": "router.sdk.providers",
    "ProviderFailed": "router.sdk.failures",
    "ProviderHandler": "router.sdk.provider_handler",
    "RateLimited": "router.sdk.failures",
    "RequestRefused": "router.sdk.failures",
    "make_failure": "router.sdk.failures",
    "WorkerTopology": "router.sdk.assignments",
    "StepResult": "router.sdk.step",
    "Worker": "router.sdk.worker",
    "run": "router.sdk.signals",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
