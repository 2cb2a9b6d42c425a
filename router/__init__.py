"""Router: a durable message router on NATS JetStream.

    from router import Client, Worker
    from router import agent, extension, outbox     # what authors of agents, extensions and
                                                    services import

Importing this package alone imports nothing else: what it offers is loaded when it is first asked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.sdk import (
        Agent,
        Answer,
        Bus,
        Client,
        ExecAssignment,
        InvocationFailed,
        ProviderFailed,
        ProviderHandler,
        RateLimited,
        RequestRefused,
        StepResult,
        Worker,
        agent,
        extension,
        make_failure,
        outbox,
        run,
    )

__version__ = "0.1.0"
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
    "__version__",
    "agent",
    "extension",
    "make_failure",
    "outbox",
    "run",
]

_MODULES = frozenset({"agent", "extension", "outbox"})


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"router.sdk.{name}")
    if name in __all__:
        return getattr(import_module("router.sdk"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
