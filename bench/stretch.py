"""What a process measures of itself over a stretch of messages: wall time, CPU, memory.

The count of finished messages is looked at every 5 ms, so measuring costs the same on every side,
whatever it runs. A stretch begins at the last look before its first message: start-up is outside,
at most 5 ms of waiting are inside.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

LOOK_S = 0.005
PATIENCE_S = 120.0  # without a finished message: then it will not come, a request was declined
MIB = 1024 * 1024
Done = Callable[[], int]  # messages finished so far


class Look(Struct, frozen=True):
    """One moment. Seconds; `cpu` is user and system time of the whole process."""

    done: int
    wall: float
    cpu: float


async def stretch(done: Done, first: int, last: int) -> dict[str, float]:
    """From message `first` to message `last`: rate (1/s), cpu_us (a message), peak_mib (resident,
    of the whole life).
    """
    begin, _ = await reaches(done, first)
    _, end = await reaches(done, last)
    return figures_of(begin, end)


def figures_of(begin: Look, end: Look) -> dict[str, float]:
    """The figures of the messages between two looks."""
    count = end.done - begin.done
    return {
        "rate": count / (end.wall - begin.wall),
        "cpu_us": (end.cpu - begin.cpu) / count * 1e6,
        "peak_mib": peak_bytes() / MIB,
    }


async def reaches(done: Done, target: int) -> tuple[Look, Look]:
    """Wait until `target` messages are finished: the last look before that, and the first after it.
    TimeoutError: none was finished for `PATIENCE_S`.
    """
    before = after = look(done)
    moved_at = after.wall
    while after.done < target:
        if after.wall - moved_at > PATIENCE_S:
            raise TimeoutError(f"{after.done} of {target} finished, none for {PATIENCE_S:.0f} s")
        await asyncio.sleep(LOOK_S)
        before, after = after, look(done)
        if after.done > before.done:
            moved_at = after.wall
    return before, after


def look(done: Done) -> Look:
    return Look(done(), time.perf_counter(), time.process_time())


def resident_bytes() -> int:
    """What this process holds in memory now; its peak where the system does not say."""
    return _of_status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    # Not `ru_maxrss` on Linux: a child inherits there what its parent held when it was started.
    return _of_status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _of_status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None
    )
