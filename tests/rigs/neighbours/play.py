"""A process of ours from inside: `python -m tests.rigs.neighbours.play NAME '{"url": …}'`.

What it says to its parent are JSON lines on standard output: {"ready": {…}}, records, {"figures":
{…}}. Its parent says `go` and `stop` on standard input; the end of that input is the parent's end,
and ours.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Figures = Mapping[str, object]


class Cue:
    """What the parent says."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._stop = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def wait_for_go(self) -> float:
        """Returns the moment, on the steady clock that all processes share."""
        say({"ready": {"pid": os.getpid()}})
        self._go.wait()
        return time.monotonic()

    def sleep(self, seconds: float) -> bool:
        """Whether it was stopped meanwhile."""
        return self._stop.wait(seconds)

    def _listen(self) -> None:
        said = b""
        while more := os.read(0, 64):
            said += more
            if b"go\n" in said:
                self._go.set()
            if b"stop\n" in said:
                self._stop.set()
        os._exit(1)


def say(what: Mapping[str, object]) -> None:
    """To the parent. What else a part prints goes to standard error."""
    print(json.dumps(what), file=sys.__stdout__, flush=True)


def _lower_priority(nice: int) -> None:
    """Of this process among its session's, and of the session among others: Linux groups processes
    by session (sched(7), autogroup).
    """
    os.nice(nice)
    autogroup = Path("/proc/self/autogroup")
    if nice and autogroup.exists():
        autogroup.write_text(str(nice))


def main(name: str, arguments: str) -> None:
    from tests.rigs.neighbours import neighbour, putter, quiet, services

    plays: dict[str, Callable[..., Figures]] = {
        "quiet": quiet.ask,
        "neighbour": neighbour.act,
        "probe": neighbour.probe,
        "streams": neighbour.open_streams,
        "extension": services.serve_extension,
        "provider": services.serve_provider,
        "putter": putter.put,
    }
    sys.stdout = sys.stderr
    given: dict[str, Any] = json.loads(arguments)
    _lower_priority(given.pop("nice", 0))
    say({"figures": dict(plays[name](Cue(), **given))})


if __name__ == "__main__":
    main(*sys.argv[1:])
