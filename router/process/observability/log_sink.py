"""Where the lines of a log go, and how many: a stream that may be full, or that no program reads.
Writing never raises and never waits.

    write ── the stream takes it ──────────────> written at once, in order
       ├─── its reader stands still (a full pipe) ──> kept, up to 1 MiB; a thread writes it when the reader goes on
       └─── no room, no reader, or nothing more can be kept ──> counted, and told in a line of its own once a line can be written

A service must outlive its log: any client can cause lines, and a disk of logs is often another one
than that of the data.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import TextIO

from router.core.clock import Clock, steady

MAX_KEPT = 1 << 20  # bytes that wait for a reader
# a pipe that is writable takes so much without waiting (PIPE_BUF,
# https://man7.org/linux/man-pages/man7/pipe.7.html)
PIECE = 4096
LOOK_S = 0.5
CLOSE_S = 1.0  # for what waits when the process ends


class LogSink:
    """A file for writing lines. `describe_lost` makes the line that tells how many were lost.

    Any thread may write. `lost_total` counts since the process began; what `write` returns says
    nothing of it.
    """

    def __init__(self, out: TextIO, describe_lost: Callable[[int], str]) -> None:
        self._out = out
        self._describe_lost = describe_lost
        self._descriptor = _find_descriptor(out)
        self._is_file = self._descriptor is not None and stat.S_ISREG(
            os.fstat(self._descriptor).st_mode
        )
        self._lock = threading.Lock()
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._drainer: threading.Thread | None = None
        self._is_torn = False  # the last line was written in part
        self._lost = 0  # since it was told
        self.lost_total = 0

    @property
    def is_behind(self) -> bool:
        """Whether lines wait for the reader."""
        return self._drainer is not None

    def write(self, text: str) -> int:
        with self._lock:
            if self._kept:
                self._keep(text.encode("utf-8", "backslashreplace"))
            else:
                self._write_now(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def isatty(self) -> bool:
        return self._out.isatty()

    def close(self) -> None:
        """Give what waits a moment more: the process ends."""
        drainer = self._drainer
        if drainer is not None:
            drainer.join(CLOSE_S)

    def _write_now(self, text: str) -> None:
        """The line, after the one that tells what was lost. A line is lost whole: what is torn is
        ended first.
        """
        if self._lost and self._put(self._build_note()):
            self._lost = 0
        if self._lost or not self._put(text.encode("utf-8", "backslashreplace")):
            self._count_lost()

    def _build_note(self) -> bytes:
        return (("\n" if self._is_torn else "") + self._describe_lost(self._lost)).encode(
            "utf-8", "backslashreplace"
        )

    def _put(self, data: bytes) -> bool:
        """Whether the bytes are written, or kept for the thread."""
        try:
            rest = self._write_bytes(data, 0.0)
        except (OSError, ValueError):  # ValueError: the stream is closed
            return False
        if rest:
            self._keep(rest)
        return True

    def _write_bytes(self, data: bytes, wait_s: float) -> bytes:
        """Write as much as is taken without waiting longer; the rest. Raises OSError, ValueError."""
        if self._descriptor is None:
            self._out.write(data.decode())
            self._out.flush()
            return b""
        while data and (self._is_file or _is_writable(self._descriptor, wait_s)):
            written = os.write(self._descriptor, data if self._is_file else data[:PIECE])
            data, self._is_torn = data[written:], not data[:written].endswith(b"\n")
        return data

    def _keep(self, data: bytes) -> None:
        if self._kept_bytes + len(data) > MAX_KEPT:
            self._count_lost()
            return
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._drainer is None:
            self._drainer = threading.Thread(target=self._drain, name="log", daemon=True)
            self._drainer.start()

    def _drain(self) -> None:
        """Write what is kept as its reader takes it, then end."""
        while True:
            with self._lock:
                if not self._kept:
                    self._drainer = None
                    return
                data = self._kept[0]
            rest = self._try_piece(data)
            with self._lock:
                self._kept_bytes -= len(data) - len(rest)
                if rest:
                    self._kept[0] = rest
                else:
                    self._kept.popleft()

    def _try_piece(self, data: bytes) -> bytes:
        """The rest; nothing where the stream is gone, which is counted. Only this thread writes
        while something is kept.
        """
        try:
            return self._write_bytes(data, LOOK_S)
        except (OSError, ValueError):
            with self._lock:
                self._count_lost()
            return b""

    def _count_lost(self) -> None:
        self._lost += 1
        self.lost_total += 1


def _find_descriptor(out: TextIO) -> int | None:
    """None: a stream in memory."""
    try:
        out.flush()
        return out.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _is_writable(descriptor: int, wait_s: float) -> bool:
    """Whether a piece is taken without waiting. A reader that is gone counts as well: writing
    tells.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(wait_s * 1000))


# -- At most one log line per interval for each key, in bounded memory: clients cannot flood the
# log.


_OVERFLOW = object()


class LogRateLimit:
    """`if rate_limit.allow((subject, header, rule)): log.warning(…)`.

    `every_s`: seconds between two lines of one key. While there are `limit` keys, all new ones
    together get one line.
    """

    def __init__(self, every_s: float = 1.0, limit: int = 1000, clock: Clock = steady) -> None:
        self._every_s = every_s
        self._limit = limit
        self._clock = clock
        # oldest first: a key moves to the end whenever it is allowed
        self._until: dict[Hashable, float] = {}

    def allow(self, key: Hashable) -> bool:
        """Whether a line of this key may be logged now; if so, the next one must wait."""
        now = self._clock()
        if key not in self._until:
            self._forget(now)
            if len(self._until) >= self._limit:
                key = _OVERFLOW
        if now < self._until.get(key, now):
            return False
        self._until.pop(key, None)
        self._until[key] = now + self._every_s
        return True

    def _forget(self, now: float) -> None:
        while self._until and self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]
