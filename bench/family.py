"""What a process and everything that it started have used: processor time, and memory at its
highest. Linux; elsewhere nothing.

Processes that have ended count as long as their parents are there.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from msgspec import Struct

from bench.stretch import MIB

_TICKS = os.sysconf("SC_CLK_TCK")


class Used(Struct, frozen=True):
    cpu_s: float = 0.0
    peak_mib: float = 0.0  # each at its own highest, added up


def used(root: int) -> Used:
    members = _family(root)
    return Used(sum(map(_cpu_s, members)), sum(map(_peak_mib, members)))


def used_alone(pid: int) -> Used:
    """The same of one process, without what it started."""
    return Used(_cpu_s(pid), _peak_mib(pid))


def servers_cpu_s() -> float:
    """Of all NATS servers that this process has started, so far."""
    return sum(
        _cpu_s(pid) for pid in _family(os.getpid()) if "nats-server" in _read(pid, "cmdline")
    )


def member(root: int, command: str) -> int:
    """The one whose command line has that text in it; 0 if there is none."""
    return next((pid for pid in _family(root) if command in _read(pid, "cmdline")), 0)


def _family(root: int) -> list[int]:
    children = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _fields(int(entry.name)):
            children[int(fields[1])].append(int(entry.name))
    pids = [root]
    for pid in pids:
        pids += children[pid]
    return pids


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _cpu_s(pid: int) -> float:
    # of its own, and of children that it has buried
    return sum(map(int, _fields(pid)[11:15])) / _TICKS


def _peak_mib(pid: int) -> float:
    lines = (line for line in _read(pid, "status").splitlines() if line.startswith("VmHWM"))
    return sum(int(line.split()[1]) for line in lines) * 1024 / MIB


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
