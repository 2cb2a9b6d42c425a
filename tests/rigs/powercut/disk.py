"""A disk whose power can be cut: an ext4 of its own, on a loop device over a file in memory.

The cut is `FS_IOC_SHUTDOWN` without a flush of the journal: the file system forgets at once what it
holds in memory, data and names alike, and the file keeps what was written to it. xfstests cuts power
so. Afterwards the file system is mounted again, and its journal is replayed, as after a real cut.

The mount is in a mount namespace of the process that uses the disk, so nothing is left of it when
that process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN, from the kernel's uapi/linux/fs.h
NO_LOG_FLUSH = 2  # FS_SHUTDOWN_FLAGS_NOLOGFLUSH
# a file in memory takes as much of it as was written
BYTES = 1024 * 1024 * 1024
MEMORY = Path("/dev/shm")  # an fsync there costs nothing but the file system's own work
RELEASE_WITHIN_S = 60.0
TOOLS = ("mkfs.ext4", "mount", "unshare", "losetup")
MOUNT = 'mount -o loop "$0" "$1" && shift && exec "$@"'


class Disk:
    """`at`: the empty directory that it is mounted on, for the processes of `command` alone."""

    def __init__(self, at: Path, size: int = BYTES) -> None:
        self._at = at
        self._at.mkdir(parents=True, exist_ok=True)
        holder = MEMORY if MEMORY.is_dir() else None
        file, name = tempfile.mkstemp(prefix="router-disk-", dir=holder)
        os.truncate(file, size)
        os.close(file)
        self._image = Path(name)
        _run(["mkfs.ext4", "-q", "-F", name])

    def command(self, program: Sequence[str]) -> list[str]:
        """The program, with the disk mounted; its process has the id of the one that is started."""
        inside = ["sh", "-c", MOUNT, str(self._image), str(self._at), *program]
        return ["unshare", "--mount", "--propagation", "private", "--", *inside]

    @contextmanager
    def cut(self, pid: int) -> Iterator[None]:
        """The block kills the process with this id; then everything is lost that is not on the disk.

        In this order no message is acknowledged after the cut. Held open, the file system is not
        unmounted in between, which would write it all.
        """
        root = os.open(f"/proc/{pid}/root{self._at}", os.O_RDONLY)
        try:
            yield
            fcntl.ioctl(root, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(root)

    def wait_until_released(self) -> None:
        """The kernel unmounts it a moment after its last process has ended."""
        deadline = time.monotonic() + RELEASE_WITHIN_S
        while _run(["losetup", "--associated", str(self._image)]):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._image} is still mounted")
            time.sleep(0.01)

    def remove(self) -> None:
        self._image.unlink(missing_ok=True)


def find_obstacle() -> str | None:
    """Why this machine cannot cut a disk's power; None if it can."""
    if sys.platform != "linux":
        return "a power cut needs Linux"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"a power cut needs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "a power cut needs root: it mounts a file system"
    return _try_a_cut()


def _try_a_cut() -> str | None:
    with tempfile.TemporaryDirectory(prefix="router-test-") as home:
        disk = Disk(Path(home) / "disk", size=16 * 1024 * 1024)
        try:
            with _started(disk.command(["cat"])) as process, disk.cut(process.pid):
                process.kill()
                process.wait()
            disk.wait_until_released()
        except (OSError, RuntimeError) as exc:
            return f"a power cut needs ext4 on a loop device: {exc}"
        finally:
            disk.remove()
    return None


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A `cat` that runs, and has answered."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            process.stdin.write(b"?")
            process.stdin.flush()
            if not process.stdout.read(1):
                raise RuntimeError(process.stderr.read().decode(errors="replace").strip())
            yield process
        finally:
            process.kill()


def _run(command: list[str]) -> str:
    """What it said. RuntimeError with its complaint."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{command[0]}: {ended.stderr.strip()}")
    return ended.stdout.strip()
