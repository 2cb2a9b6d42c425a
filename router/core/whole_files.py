"""Files that a command writes: each appears when it is whole, and what raises before leaves an
earlier one as it was.

A private one holds payloads of messages: its owner alone reads it, whatever the umask says.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OWNERS, _EVERYBODYS = 0o600, 0o666  # before the umask


class FileNotWritten(OSError):
    """The file, `filename`, cannot be made, or has no room. What else raises while it is written is
    not this.
    """


def create_private(path: Path) -> BinaryIO:
    """Open a new file for writing. Raises FileExistsError."""
    return _create(path, _OWNERS)


@contextmanager
def replace_file(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Write beside the file, and put what is whole and on the disk in its place. Raises
    FileNotWritten, at once if it cannot be made.

    A link stays a link; a pipe or a device is written to as it is.
    """
    target = path.resolve()
    # of its own: another command may write the same file
    partial = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    with _name_errors(path, target, partial):
        # asked of `path`: what /dev/stdout leads to may have no name
        if path.exists() and not path.is_file():
            with path.open("wb") as opened:
                yield opened
            return
        with _create(partial, _OWNERS if is_private else _EVERYBODYS) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)


def _create(path: Path, mode: int) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


@contextmanager
def _name_errors(path: Path, *others: Path) -> Iterator[None]:
    """Give an error of the file the name that the user gave. For want of room only a write fails,
    and Python names no file then.
    """
    try:
        yield
    except OSError as exc:
        if exc.errno in NO_ROOM or exc.filename in {str(file) for file in (path, *others)}:
            raise FileNotWritten(exc.errno, exc.strerror, str(path)) from exc
        raise
