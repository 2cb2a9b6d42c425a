"""What the NATS clients of this process write to their sockets: writes, bytes, and each message by
subject.

Counted, so the same on every machine: a guard where time cannot be one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nats.aio.transport import TcpTransport

from router.delivery.wire.frames import DirectTransport

_LINE = re.compile(rb"([A-Z]+)(?: ([^\r]*))?\r\n")
_IN_PROGRESS = b"+WPI\r\n"


class SocketTap:
    """Everything that was written since the tap was opened, by all clients together."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    @property
    def writes(self) -> int:
        return len(self.written)

    def published(self, kinds: tuple[str, ...]) -> Counter[str]:
        """Messages by the first of `kinds` that their subject begins with, or by the subject
        itself.
        """
        return Counter(_kind(subject, kinds) for subject, _ in self._messages())

    def bytes(self, kinds: tuple[str, ...]) -> Counter[str]:
        """Bytes of those messages, with everything around them."""
        sizes: Counter[str] = Counter()
        for subject, size in self._messages():
            sizes[_kind(subject, kinds)] += size
        return sizes

    def _messages(self) -> Iterator[tuple[str, int]]:
        """Subject and bytes of each PUB and HPUB, but for acks that say "in progress": the busier
        the machine, the more of them.
        """
        stream, place = b"".join(self.written), 0
        while place < len(stream):
            line = _LINE.match(stream, place)
            assert line is not None, stream[place : place + 80]
            begun, place = place, line.end()
            if line[1] in (b"PUB", b"HPUB"):
                words = line[2].split()
                place += int(words[-1]) + 2
                if stream[line.end() : place] != _IN_PROGRESS:
                    yield words[0].decode(), place - begun


def _kind(subject: str, kinds: tuple[str, ...]) -> str:
    return next((kind for kind in kinds if subject.startswith(kind)), subject)


@contextmanager
def open_socket_tap() -> Iterator[SocketTap]:
    """Open the tap: clients that connect within are heard whole."""
    tap = SocketTap()
    write, writelines = TcpTransport.write, DirectTransport.writelines

    def note(transport: TcpTransport, payload: bytes) -> None:
        tap.written.append(bytes(payload))
        write(transport, payload)

    def note_lines(transport: DirectTransport, payload: list[bytes]) -> None:
        tap.written.append(b"".join(payload))
        writelines(transport, payload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TcpTransport, "write", note)
        patch.setattr(DirectTransport, "writelines", note_lines)
        yield tap
