"""A child process of a fleet that starts at once, sends the frames of a real one, and routes
nothing.

`python fake_child.py WAY FD`:

well            started, counts the status requests, ends at once at SIGTERM or when its parent dies
deaf            started, and takes no notice of SIGTERM
mute            never starts, and takes no notice of SIGTERM
crashes         ends with status 3
misconfigured   refuses with a setting
"""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

LENGTH = 4


def main(way: str, descriptor: int) -> int:
    line = socket.socket(fileno=descriptor)
    if way == "crashes":
        return 3
    if way == "misconfigured":
        _say(line, {"type": "ChildFailed", "setting": "topology", "text": "the server refused it"})
        return 2
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN if way in ("deaf", "mute") else lambda *_: sys.exit(0)
    )
    heard = _heard(line)
    next(heard)  # StartChild
    if way == "mute":
        return len(list(heard))
    with contextlib.suppress(BlockingIOError):
        # status requests from before it started are not answered
        line.recv(65536, socket.MSG_DONTWAIT)
    _say(line, {"type": "ChildStarted", "nats_url": "nats://there"})
    for times, _ in enumerate(heard, 1):
        _say(line, _report(times))
    return 0


def _report(times: int) -> dict[str, Any]:
    asked = {
        "name": "asked_total",
        "help": "a",
        "kind": "counter",
        "labels": [],
        "series": {(): times},
    }
    there = {
        "name": "there",
        "help": "t",
        "kind": "gauge",
        "labels": [],
        "series": {(): 1},
        "aggregation": "sum",
    }
    return {
        "type": "ChildStatus",
        "checks": {"consumer": {"ok": True, "detail": "well"}},
        "families": [asked, there],
    }


def _say(line: socket.socket, what: dict[str, Any]) -> None:
    frame = msgspec.msgpack.encode(what)
    line.sendall(len(frame).to_bytes(LENGTH) + frame)


def _heard(line: socket.socket) -> Iterator[bytes]:
    while head := line.recv(LENGTH, socket.MSG_WAITALL):
        yield line.recv(int.from_bytes(head), socket.MSG_WAITALL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
