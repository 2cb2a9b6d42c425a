"""Files with the payloads of messages: only the owner of such a file reads it, whatever the umask says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def create_private(path: Path) -> BinaryIO:
    """Open a new file for writing. Raises FileExistsError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


@contextmanager
def replace_private(path: Path) -> Iterator[BinaryIO]:
    """Write beside the file, and put what is whole and on the disk in its place. What raises within leaves the file as it was.

    A link stays a link; a pipe or a device is written to as it is.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as opened:
            yield opened
        return
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with create_private(partial) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
