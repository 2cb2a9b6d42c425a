"""The quiet tenant: so many requests a second, each due at its time, each with a patience of its
own.

A latency counts from the moment that the request was due: a stall of the router, of the server or
of this process is counted for every request that came due in it. Each is told to the parent when it
is answered or given up: {"due": s, "ms": latency or null, "code": "decided", the code of an error,
or "lost"}.
"""

from __future__ import annotations

import time
from uuid import uuid4

from tests.rigs.neighbours.asking import (
    DECIDE,
    INVOKE,
    PATIENCE_S,
    QUIET,
    invocation_body,
    read_verdict,
    request_body,
    request_frame,
)
from tests.rigs.neighbours.play import Cue, say
from tests.rigs.neighbours.wire import Wire

LOST = "lost"


class Quiet:
    """`kinds`: what is asked in turn: the name of a policy, or `invoke`."""

    def __init__(self, wire: Wire, rate: float, kinds: list[str]) -> None:
        self._wire = wire
        self._rate = rate
        self._kinds = kinds
        self._inbox = f"_INBOX.{uuid4().hex[:12]}"
        self._waiting: dict[str, float] = {}  # by name, when it was due
        self.late_ms: list[float] = []  # how late each was sent

    def run(self, cue: Cue) -> None:
        self._wire.subscribe(f"{self._inbox}.*")
        began, number = time.monotonic(), 0
        while not cue.is_stopped:
            due = began + number / self._rate
            if time.monotonic() >= due:
                self._ask(number, due)
                number += 1
                continue
            self._hear(min(due - time.monotonic(), 0.1))
            self._give_up()
        while self._waiting:
            self._hear(0.1)
            self._give_up()

    def _ask(self, number: int, due: float) -> None:
        name = f"q-{self._inbox[7:]}-{number}"
        kind, inbox = self._kinds[number % len(self._kinds)], f"{self._inbox}.{name}"
        if kind == "invoke":
            frame = request_frame(INVOKE, invocation_body(QUIET, name, "honest"), name, inbox)
        else:
            frame = request_frame(DECIDE, request_body(QUIET, name, policy=kind), name, inbox)
        self._waiting[name] = due
        self._wire.publish_nowait(frame)
        self._hear(0)
        self.late_ms.append((time.monotonic() - due) * 1000)

    def _hear(self, wait_s: float) -> None:
        for subject, _, body in self._wire.pump(wait_s):
            due = self._waiting.pop(subject.rpartition(".")[2], None)
            if due is not None:
                say({"due": due, "ms": (time.monotonic() - due) * 1000, "code": read_verdict(body)})

    def _give_up(self) -> None:
        past = time.monotonic() - PATIENCE_S
        for name in [name for name, due in self._waiting.items() if due < past]:
            say({"due": self._waiting.pop(name), "ms": None, "code": LOST})


def ask(cue: Cue, *, url: str, rate: float, kinds: list[str]) -> dict[str, object]:
    """Until told to stop; then what is under way has its patience."""
    wire = Wire(url)
    cue.wait_for_go()
    quiet = Quiet(wire, rate, kinds)
    quiet.run(cue)
    late = sorted(quiet.late_ms)
    return {
        "asked": len(late),
        "late_p99_ms": late[int(len(late) * 0.99)] if late else 0.0,
        "connections_lost": wire.losses,
    }
