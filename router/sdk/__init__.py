"""What other people import: `from router import Client, Worker`. Each is loaded when it is first asked for.

client, answer                asking, from Python; what a decide request is answered with
worker                        working, from Python
    step, attempts            what a handler answers; its attempts at one assignment
    assignments, reports      one assignment in, one outcome out; what is said of it, as bytes
    pulse, noted              heartbeats; what a worker logs
reach                         how both find their broker
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.contracts.exec_assignment import ExecAssignment
    from router.sdk.answer import Answer
    from router.sdk.assignments import Places
    from router.sdk.client import Client
    from router.sdk.step import StepResult
    from router.sdk.worker import Worker

__all__ = ["Answer", "Client", "ExecAssignment", "Places", "StepResult", "Worker"]

_HOMES = {
    "Answer": "router.sdk.answer",
    "Client": "router.sdk.client",
    "ExecAssignment": "router.contracts.exec_assignment",
    "Places": "router.sdk.assignments",
    "StepResult": "router.sdk.step",
    "Worker": "router.sdk.worker",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
