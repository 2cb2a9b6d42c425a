"""The disk's own trial: `python -m tests.rigs.powercut.writer FILE [--sync]` appends lines to a file,
and says each one's number once it is written, or synced.

`count_lost` cuts the power while it writes: with `--sync` no line that was said may be gone, and
without it some must be, or the disk cuts nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from tests.rigs.powercut.disk import Disk

LINE = "line %09d of a file that grows\n"


class Written(Struct, frozen=True):
    said: int
    kept: int

    @property
    def lost(self) -> int:
        return max(0, self.said - self.kept)


def count_lost(home: Path, lines: int, *, is_synced: bool) -> Written:
    """Its power is cut after so many lines."""
    disk = Disk(home / "disk")
    file = home / "disk" / "lines"
    try:
        said = _write_until_cut(disk, file, lines, is_synced)
        disk.wait_until_released()
        reading = subprocess.run(disk.command(["cat", str(file)]), capture_output=True, check=False)
        disk.wait_until_released()
    finally:
        disk.remove()
    return Written(said, _count_whole(reading.stdout))


def _write_until_cut(disk: Disk, file: Path, lines: int, is_synced: bool) -> int:
    program = [sys.executable, "-m", __name__, str(file), *(["--sync"] if is_synced else [])]
    said = 0
    with subprocess.Popen(disk.command(program), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while said < lines and (line := process.stdout.readline()):
            said = int(line)
        with disk.cut(process.pid):
            process.kill()
            # what it said before it died counts as well
            said = max([said, *map(int, process.stdout.read().splitlines()[:-1])])
            process.wait()
    return said


def _count_whole(content: bytes) -> int:
    """Lines from the first one on, each with its own number."""
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        if line != (LINE % number).encode():
            return number - 1
    return len(content.splitlines())


def main() -> None:
    is_synced = "--sync" in sys.argv
    file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    number = 0
    while True:
        number += 1
        os.write(file, (LINE % number).encode())
        if is_synced:
            os.fsync(file)
        print(number, flush=True)


if __name__ == "__main__":
    main()
