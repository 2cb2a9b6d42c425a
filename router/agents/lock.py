"""One process for one store: a lock on a file beside it, `{store}.lock`, which also holds the owner's process id."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from router.core.errors import Misconfigured


class StoreLock:
    """Held as long as its file is open: the end of the process, of any kind, releases it."""

    def __init__(self, path: Path) -> None:
        """Raises Misconfigured, with the id of the process that holds it."""
        place = Path(f"{path.resolve()}.lock")
        try:
            self._file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise Misconfigured("store", f"{place} cannot be opened: {exc.strerror}") from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip()
            os.close(self._file)
            raise Misconfigured("store", f"{path} is in use by process {holder or '?'}: one process per store") from exc
        os.ftruncate(self._file, 0)
        os.write(self._file, b"%d" % os.getpid())

    def release(self) -> None:
        os.close(self._file)
