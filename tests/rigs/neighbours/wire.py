"""A NATS connection for who sends or hears very much: one socket, one loop, no task and no object
for each message.

It knows PUB, HPUB, SUB, MSG, HMSG and PING, and nothing of JetStream. The router's own connection
is not used here: this code must stay the same while the code that is measured changes.
"""

from __future__ import annotations

import json
import select
import socket
import time
from urllib.parse import urlsplit

CHUNK = 1 << 20
REOPEN_S = 0.2
HELLO = {
    "verbose": False,
    "pedantic": False,
    "headers": True,
    "no_responders": False,
    "lang": "python",
    "version": "0",
}

Incoming = tuple[str, str, bytes]  # subject, reply, body without its headers


def publish_frame(subject: str, body: bytes, *, reply: str = "", headers: str = "") -> bytes:
    """One frame. `headers`: lines that end with CR LF, or nothing."""
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(body), body)
    head = f"NATS/1.0\r\n{headers}\r\n".encode()
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
        subject.encode(),
        reply.encode(),
        len(head),
        len(head) + len(body),
        head,
        body,
    )


class Wire:
    """Post frames, pump, read what was heard. A lost connection is opened again; what was posted
    meanwhile is gone.
    """

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        self._address = (address.hostname, address.port)
        self._subscriptions: list[bytes] = []
        self._socket: socket.socket | None = None
        self._tried = 0.0
        self._out = bytearray()
        self._in = b""
        self.losses = 0
        self.errors: list[str] = []  # what the server complained of
        self._open()

    @property
    def backlog(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def subscribe(self, subject: str, queue: str = "") -> None:
        frame = f"SUB {subject} {queue} {len(self._subscriptions) + 1}\r\n".encode()
        self._subscriptions.append(frame)
        self._out += frame

    def publish_nowait(self, frame: bytes) -> None:
        if self._socket is not None:
            self._out += frame

    def pump(self, wait_s: float) -> list[Incoming]:
        """Write what can be written, read what has come; wait so long for either."""
        if self._socket is None and not self._reopened(wait_s):
            return []
        assert self._socket is not None
        can_read, can_write, _ = select.select(
            [self._socket], [self._socket] if self._out else [], [], max(0.0, wait_s)
        )
        try:
            if can_write:
                with memoryview(self._out)[:CHUNK] as some:
                    sent = self._socket.send(some)
                del self._out[:sent]
            return self._read() if can_read else []
        except OSError:
            self._lose()
            return []

    def flush(self, within_s: float) -> None:
        """Until all is written, or so long. What is heard meanwhile is dropped: for the time before
        anything is asked.
        """
        deadline = time.monotonic() + within_s
        while self._out and time.monotonic() < deadline:
            self.pump(0.01)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _read(self) -> list[Incoming]:
        assert self._socket is not None
        chunk = self._socket.recv(CHUNK)
        if not chunk:
            self._lose()
            return []
        self._in += chunk
        heard: list[Incoming] = []
        at = 0
        while (end := self._in.find(b"\r\n", at)) >= 0:
            words = self._in[at:end].split(b" ")
            if words[0] not in (b"MSG", b"HMSG"):
                self._told(words)
                at = end + 2
                continue
            size = int(words[-1])
            if len(self._in) < end + 4 + size:
                break
            is_headed = words[0] == b"HMSG"
            head = int(words[-2]) if is_headed else 0
            reply = words[3].decode() if len(words) == (6 if is_headed else 5) else ""
            heard.append((words[1].decode(), reply, self._in[end + 2 + head : end + 2 + size]))
            at = end + 4 + size
        self._in = self._in[at:]
        return heard

    def _told(self, words: list[bytes]) -> None:
        if words[0] == b"PING":
            self._out += b"PONG\r\n"
        elif words[0] == b"-ERR" and len(self.errors) < 100:
            self.errors.append(b" ".join(words[1:]).decode(errors="replace"))

    def _lose(self) -> None:
        self.close()
        self._socket, self._in, self._out = None, b"", bytearray()
        self.losses += 1

    def _reopened(self, wait_s: float) -> bool:
        if time.monotonic() - self._tried > REOPEN_S:
            self._tried = time.monotonic()
            try:
                self._open()
            except OSError:
                self._socket = None
        if self._socket is None:
            time.sleep(max(0.0, min(wait_s, REOPEN_S)))
        return self._socket is not None

    def _open(self) -> None:
        opened = socket.create_connection(self._address, timeout=5)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.sendall(
            f"CONNECT {json.dumps(HELLO)}\r\nPING\r\n".encode() + b"".join(self._subscriptions)
        )
        said = b""
        while b"PONG\r\n" not in said:
            if not (more := opened.recv(CHUNK)):
                raise ConnectionResetError("the server closed the connection")
            said += more
        opened.setblocking(False)
        self._socket, self._in = opened, said.partition(b"PONG\r\n")[2]
