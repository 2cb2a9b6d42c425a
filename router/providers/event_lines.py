"""Lines and server-sent events out of the bytes that come, each within a bound.

The format is https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
with lines that end in LF or CRLF. Comments, ids and retry times are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

MAX_BYTES = 1024 * 1024  # of one line, and of one event


class TooLong(ValueError):
    """A line or an event above the bound."""


class ServerEvent(Struct, frozen=True):
    name: str
    data: str


class LineReader:
    """`feed` returns the lines that a chunk completes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raises TooLong."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        *lines, rest = b"".join((*self._parts, chunk)).split(b"\n")
        if any(len(line) > self._max_bytes for line in lines):
            raise TooLong
        self._parts, self._size = [], 0
        self._keep(rest)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """The line that no line end follows, if there is one."""
        return [rest] if (rest := b"".join(self._parts)) else []

    def _keep(self, chunk: bytes) -> None:
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise TooLong


class ServerEventReader:
    """`feed` returns the events that a chunk completes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines = LineReader(max_bytes)
        self._name, self._size = "", 0
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Raises TooLong; UnicodeDecodeError, which is a ValueError as well."""
        for line in self._lines.feed(chunk):
            if (event := self._take(line)) is not None:
                yield event

    def _take(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._size += len(line)
            if self._size > self._max_bytes:
                raise TooLong
            self._data.append(value)
        return None

    def _dispatch(self) -> ServerEvent | None:
        """An event without data is none."""
        event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event
