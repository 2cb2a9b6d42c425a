"""Split a chunk from the socket into message frames of the NATS protocol, in one pass, without
regular expressions.

A chunk holds dozens of frames. nats-py's parser matches each control line with two regular
expressions and moves the rest of the buffer after each frame, which costs more. A message of a
direct subscription goes straight to its callback; nats-py's own parser gets everything that is not
a message (PING, INFO, -ERR), line by line.

    MSG  <subject> <sid> [reply] <size>\\r\\n<payload>\\r\\n
    HMSG <subject> <sid> [reply] <header size> <total size>\\r\\n<headers><payload>\\r\\n
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from router.core.header_names import READ_HEADERS, restore_case
from router.core.repeated_headers import collect_headers

Headers = dict[str, str]

MESSAGES = b"HM"  # how the lines of messages begin


class FrameParser(Parser):
    """nats-py's parser with a faster way for message frames; `nc` is a `Connection`."""

    def __init__(self, nc: Any) -> None:
        super().__init__(nc)
        self._needed = 0  # bytes of the incomplete frame at the front of the buffer
        self._stray: _Stray | None = None  # the message at which `dispatch` stopped

    def reset(self) -> None:
        super().reset()
        self._needed = 0
        self._stray = None

    async def parse(self, data: bytes = b"") -> None:
        data, at = self.feed(data), 0
        try:
            while (at := self.dispatch(data, at)) < len(data):
                at = await self._parse_other(data, at)
        except (ProtocolError, OSError):
            raise
        except Exception as exc:  # it would end nats-py's reader for ever
            self.nc.on_fault(exc)
            raise ProtocolError("nats: a callback failed within a chunk") from exc

    def feed(self, data: bytes) -> bytes:
        """The chunk, preceded by the incomplete frame of earlier ones; empty while that frame is
        incomplete.
        """
        if not self.buf and not self._needed:
            return data
        self.buf += data
        if len(self.buf) < self._needed:
            return b""
        data, self._needed = bytes(self.buf), 0
        self.buf.clear()
        return data

    def dispatch(self, data: bytes, at: int = 0) -> int:  # noqa: PLR0912 - once a frame
        """Call the callback of each complete frame of a direct subscription; keep an incomplete
        one. Returns the first other's offset.
        """
        callbacks, takers = self.nc.callbacks, self.nc.takers
        while True:
            if (end := data.find(b"\r\n", at)) < 0:
                break
            part = data[at:end].split(b" ")
            body = middle = end + 2
            kind, reply = part[0], b""
            try:  # to unpack the line costs less than to look at its parts by number
                if kind == b"MSG":
                    if len(part) == 4:
                        _, subject, number, size = part
                    else:
                        _, subject, number, reply, size = part
                elif kind == b"HMSG":
                    if len(part) == 5:
                        _, subject, number, head, size = part
                    else:
                        _, subject, number, reply, head, size = part
                    middle += int(head)
                else:
                    self._stray = None
                    return at
                sid, after = int(number), body + int(size) + 2
            except ValueError:
                self._stray = None
                return at
            if after > len(data):
                self._needed = after - at
                break
            if sid in takers and (taken := takers[sid](data, at)) > at:
                at = taken
                continue
            dispatch = callbacks.get(sid)
            if dispatch is None:
                self._stray = (
                    (sid, subject, reply, data[middle : after - 2], data[body:middle]),
                    after,
                )
                return at
            at = after
            dispatch(
                subject,
                reply,
                data[middle : after - 2],
                data[body:middle] if middle > body else None,
            )
        self.buf += data[at:]
        return len(data)

    async def _parse_other(self, data: bytes, at: int) -> int:
        """Parse what `dispatch` stopped at: a protocol line, or a message without a direct
        subscription. Returns the next offset.
        """
        if data[at] in MESSAGES:
            if self._stray is None:
                raise ProtocolError("nats: malformed message frame")
            (frame, after), self._stray = self._stray, None
            await self.nc._process_msg(*frame)
            return after
        end = data.find(b"\r\n", at) + 2
        if data.startswith(b"-ERR", at):
            self.nc.on_error_line(data[at:end].decode("utf-8", "replace"))
        self.buf += data[at:end]
        await super().parse()
        self.buf.clear()
        return end


# Nearly all messages and answers of the server have these alone, so that no name of theirs is
# looked at.
PLAIN_NAMES = READ_HEADERS | {
    *("Nats-Msg-Id", "Nats-Expected-Stream", "Status", "Description"),
    *(
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Last-Sequence",
        "Nats-Num-Pending",
    ),
}

# the arguments of nats-py's `_process_msg`, and the frame's end
_Stray = tuple[tuple[int, bytes, bytes, bytes, bytes], int]


def parse_head(raw: bytes) -> Headers | None:
    """A header block as a dict; it never raises. The first of equal names wins, as in the server's
    deduplication; the others stand beside it (`core.repeated_headers`).

    A name that Router reads stands there as Router writes it, whatever case the sender chose
    (`core.header_names`).
    """
    text = raw.decode("utf-8", "replace")
    if text.startswith("NATS/1.0\r\n") and text.endswith("\r\n\r\n"):
        out: Headers = {}
        lines = text[10:-4].split("\r\n")
        for line in lines:  # nearly always `name: value`
            name, _, value = line.partition(": ")
            if not value:
                return _restore_names(_parse_odd_head(text))
            # cheaper than to look beforehand whether a value has space around it
            out[name] = value.strip()
        if len(out) == len(lines):  # each name once
            if PLAIN_NAMES.issuperset(out):
                return out
            if ":" not in "".join(out):  # each name ended by its first colon
                return restore_case(out)
    return _restore_names(_parse_odd_head(text))


def _restore_names(headers: Headers | None) -> Headers | None:
    return restore_case(headers) if headers else headers


class PlainFrames:
    """The messages of one subscription that have no header but a `Nats-Msg-Id`, undecoded: the form
    of a flood.
    """

    def __init__(self, sid: int) -> None:
        begin = rb"MSG [^ \r]++ %d (?:([^ \r]++) )?" % sid
        self._match_begin = re.compile(rb"H?MSG [^ \r]++ %d " % sid).match
        head = rb"NATS/1\.0\r\nNats-Msg-Id: ([\x21-\x7e]++)\r\n\r\n"
        self._match_headed = re.compile(
            b"H" + begin + rb"(\d{1,9}) (\d{1,9})\r\n(" + head + b")"
        ).match
        self._match_bare = re.compile(begin + rb"(\d{1,9})\r\n").match

    def is_at(self, data: bytes, at: int) -> bool:
        """Whether a message of the subscription begins there."""
        return self._match_begin(data, at) is not None

    def read(self, data: bytes, at: int) -> Iterator[PlainFrame]:
        """Those that follow one another in a chunk from an offset on; the first frame of another
        kind, or an incomplete one, ends them.
        """
        match_headed, match_bare, last = self._match_headed, self._match_bare, len(data) - 2
        while True:
            if (found := match_headed(data, at)) is not None:
                body = found.end()
                reply, head_size, size, head, msg_id = found.groups()
                after = body + int(size) - len(head)
                if len(head) != int(head_size) or after < body:
                    return
            elif (found := match_bare(data, at)) is not None:
                body = found.end()
                (reply, size), msg_id = found.groups(), None
                after = body + int(size)
            else:
                return
            if after > last:
                return
            at = after + 2
            yield reply, data[body:after], msg_id, at


# reply, data, message id, the offset behind the frame
PlainFrame = tuple[bytes | None, bytes, bytes | None, int]
# reads a chunk from an offset on; returns the offset behind the frames that it took
TakeFrames = Callable[[PlainFrames, bytes, int], int]


def _parse_odd_head(text: str) -> Headers | None:
    return collect_headers(_read_odd_lines(text)) or None


def _read_odd_lines(text: str) -> Iterator[tuple[str, str]]:
    first, *lines = text.split("\r\n")
    yield from zip(("Status", "Description"), first[8:].split(None, 1), strict=False)
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name, value.strip()
