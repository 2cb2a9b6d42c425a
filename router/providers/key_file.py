"""The key of an API: read from its file alone, and again when the file changes.

It stands in no log line, listing, error or argument of a process. A file that is replaced with
something illegal changes nothing: the key that was read last is used, and the log says so.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from router.core.errors import Misconfigured
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

SETTING = "--key-file"
MAX_KEY_BYTES = 4096
TELL_EVERY_S = 60.0
_KEY = re.compile(r"[!-~]+")

_Seen = tuple[int, int, int]  # what tells one state of the file from the next


class KeyFile:
    """Raises Misconfigured where it holds no key, or where every user of the host may open it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: _Seen | None = None
        self._lines = LogRateLimit(every_s=TELL_EVERY_S)
        self._key = self._load()

    def get(self) -> str:
        """The key as the file has it now."""
        try:
            if _name_state(self._path.stat()) != self._seen:
                self._key = self._load()
        except (Misconfigured, OSError) as exc:
            self._tell(exc)
        return self._key

    def _load(self) -> str:
        try:
            with self._path.open("rb") as file:
                status, data = os.fstat(file.fileno()), file.read(MAX_KEY_BYTES + 1)
        except OSError as exc:
            raise Misconfigured(SETTING, f"the file cannot be read: {exc.strerror}") from exc
        if status.st_mode & stat.S_IRWXO:
            raise Misconfigured(SETTING, "every user of the host may open the file: chmod o-rwx")
        key = _read_key(data)
        self._seen = _name_state(status)
        return key

    def _tell(self, exc: Exception) -> None:
        if self._lines.allow("key"):
            log.warning(events.PROVIDER_KEY_UNREAD, error=type(exc).__name__)


def _name_state(status: os.stat_result) -> _Seen:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_key(data: bytes) -> str:
    """One word of printable ASCII: no other text can stand in a header."""
    key = data.strip().decode("ascii", "replace")
    if len(data) > MAX_KEY_BYTES or _KEY.fullmatch(key) is None:
        raise Misconfigured(SETTING, "the file should hold one key, and nothing else")
    return key
