"""Router: a durable message router on NATS JetStream.

    from router import Client, Worker

Importing this package alone imports nothing else: what it offers is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.sdk import Agent, Answer, Bus, Client, ExecAssignment, InvocationFailed, ProviderHandler, StepResult, Worker, run

__version__ = "0.1.0"
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
    "__version__",
    "run",
]

_OFFERED = frozenset(
    {"Agent", "Answer", "Bus", "Client", "ExecAssignment", "InvocationFailed", "ProviderHandler", "StepResult", "Worker", "run"}
)


def __getattr__(name: str) -> object:
    if name in _OFFERED:
        from router import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
