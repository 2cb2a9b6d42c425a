"""A nats-server whose store is on a disk that can be cut, and whose fsyncs take as long as they are
told.

The server brings message blocks to the disk by `fsync`, and the small files of its state by files
that are opened with `O_SYNC`. strace holds each fsync up before it begins, so what is written waits
longer in memory: a publish ack that does not wait for the fsync shows.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.rigs.powercut.disk import Disk
from tests.support.broker import Broker

SYNCS = "fsync,fdatasync"


class DiskBroker(Broker):
    """`fsync_us`: what each fsync takes longer, microseconds."""

    def __init__(self, *extra: str, fsync_us: int = 0, **options: Any) -> None:
        super().__init__(*extra, **options)
        self._fsync_us = fsync_us
        self._disk = Disk(self._home / "js")

    def _command(self, config: Path) -> list[str]:
        self._disk.wait_until_released()  # by its last life
        server = super()._command(config)
        return self._disk.command([*slow_fsync(self._fsync_us), *server])

    def cut(self) -> None:
        """The power of its machine fails."""
        with self._disk.cut(self.pid):
            self.kill()

    def remove(self) -> None:
        super().remove()
        self._disk.remove()


def slow_fsync(microseconds: int) -> list[str]:
    """What goes before a program, whose process keeps its id: `-D` makes strace the grandchild."""
    if not microseconds:
        return []
    inject = f"inject={SYNCS}:delay_enter={microseconds}"
    trace = ["-o", "/dev/null", "-e", f"trace={SYNCS}", "-e", inject]
    return ["strace", "-D", "-f", "--seccomp-bpf", *trace]


def find_strace_obstacle() -> str | None:
    """Why fsyncs cannot be made longer here; None if they can."""
    if shutil.which("strace") is None:
        return "longer fsyncs need strace"
    tried = subprocess.run(
        [*slow_fsync(1), "true"], capture_output=True, text=True, check=False, timeout=60
    )
    return f"longer fsyncs need strace: {tried.stderr.strip()}" if tried.returncode else None
