"""A side from inside its process: `python -m bench.child bench.sides.bare backlog '{"url": …}'`.

The function is called with `ready` and the arguments, and returns its figures. What it says to its
parent are JSON lines on standard output, {"ready": {…}} and {"figures": {…}}; everything else that
is printed goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, TextIO

from bench.profiling import written
from bench.question import Measured
from bench.stalls import traced


class Ready(Protocol):
    """Tells the parent that requests may come, and where."""

    def __call__(self, **facts: str) -> None: ...


Task = Callable[..., Awaitable[Measured]]  # (ready, **arguments)


def main(module: str, function: str, arguments: str) -> None:
    voice, sys.stdout = sys.stdout, sys.stderr
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task: Task = getattr(importlib.import_module(module), function)

    def ready(**facts: str) -> None:
        _say(voice, {"ready": facts})

    async def measured() -> Measured:
        return await task(ready, **json.loads(arguments))

    process = f"{module.rpartition('.')[2]}.{function}"
    with written(process), traced(process):
        figures = asyncio.run(measured())
    _say(voice, {"figures": figures})


def _say(voice: TextIO, what: dict[str, object]) -> None:
    print(json.dumps(what), file=voice, flush=True)


def _end_with_parent() -> None:
    """Our standard input is held open by the parent alone, so its end is the parent's, however that
    came.
    """
    os.read(0, 1)  # not through `sys.stdin`: its lock, held here, would end a good end badly
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
