"""Messages sent at a rate whatever is answered, and their answers counted.

The moment of sending is a token of each inbox, so that nothing has to be remembered for a message:
millions may be under way.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

from tests.rigs.neighbours.asking import PATIENCE_S, Frame, read_verdict
from tests.rigs.neighbours.wire import Incoming, Wire

TURN_S = 0.002  # what came due within one is sent together
BATCH, BATCH_BYTES = 500, 256 * 1024  # made before the socket is looked at again
# bytes that may wait for the socket when more are made: a frame has its time of sending from when
# it is made
BACKLOG = 64 * 1024
OVERLOADED = "overloaded"
LATE = "late"  # an answer after the asker's patience


class ReplySender:
    """What came back."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.overloaded_ms = array("f")  # from the sending to the answer
        self.first_overloaded: float | None = None
        self.without_retry = 0  # `overloaded` that do not say when to ask again

    def hear(self, sent_at: float, body: bytes) -> None:
        now = time.monotonic()
        verdict = read_verdict(body)
        self.counts[verdict if now - sent_at <= PATIENCE_S else LATE] += 1
        if verdict == OVERLOADED:
            self.first_overloaded = self.first_overloaded or now
            self.overloaded_ms.append((now - sent_at) * 1000)
            self.without_retry += b"retry_after_ms" not in body

    def figures(self, began: float) -> dict[str, object]:
        delays = sorted(self.overloaded_ms)
        found: dict[str, object] = {
            "answers": dict(self.counts),
            "overloaded_without_retry": self.without_retry,
        }
        if delays and self.first_overloaded is not None:
            found["first_overloaded_ms"] = (self.first_overloaded - began) * 1000
            found |= {
                "overloaded_p50_ms": delays[len(delays) // 2],
                "overloaded_p99_ms": delays[int(len(delays) * 0.99)],
            }
        return found


class Load:
    """`burst` frames, then `rate` a second for `seconds`, over all of `wires` by turns; then the
    answers of `PATIENCE_S` more.
    """

    def __init__(
        self,
        wires: list[Wire],
        frame: Frame,
        *,
        rate: float,
        seconds: float,
        is_answered: bool,
        burst: int = 0,
    ) -> None:
        self._wires = wires
        self._frame = frame
        self._rate = rate
        self._seconds = seconds
        self._burst = burst
        self._inbox = f"_INBOX.{uuid4().hex[:12]}"
        self._is_answered = is_answered
        self._sent = 0
        self.answers = ReplySender()

    def run(self) -> dict[str, object]:
        if self._is_answered:
            self._wires[0].subscribe(f"{self._inbox}.*")
        began = time.monotonic()
        end = began + self._seconds
        while (now := time.monotonic()) < end:
            self._send_due(self._burst + int((now - began) * self._rate) + 1)
            self._pump(TURN_S)
        behind = max(0, self._burst + int(self._seconds * self._rate) - self._sent)
        while any(wire.backlog for wire in self._wires) and time.monotonic() < end + PATIENCE_S:
            self._pump(TURN_S)
        ended = time.monotonic()
        while (
            self._is_answered
            and time.monotonic() < ended + PATIENCE_S
            and self.answers.counts.total() < self._sent
        ):
            self._pump(0.05)
        return self._figures(began, ended, behind)

    def _figures(self, began: float, ended: float, behind: int) -> dict[str, object]:
        complaints = Counter(error for wire in self._wires for error in wire.errors)
        facts = {
            "began": began,
            "ended": ended,
            "sent": self._sent,
            "behind": behind,
            "is_answered": self._is_answered,
        }
        lost = {
            "connections_lost": sum(wire.losses for wire in self._wires),
            "complaints": dict(complaints),
        }
        return {**facts, **lost, **(self.answers.figures(began) if self._is_answered else {})}

    def _send_due(self, due: int) -> None:
        while self._sent < due:
            wire = self._wires[self._sent % len(self._wires)]
            if wire.backlog > BACKLOG:
                return
            for frame in self._frames(self._sent, due if len(self._wires) == 1 else self._sent + 1):
                wire.publish_nowait(frame)
                self._sent += 1
            self._pump(0)

    def _frames(self, first: int, due: int) -> Iterator[bytes]:
        inbox = f"{self._inbox}.{int(time.monotonic() * 1e6)}" if self._is_answered else ""
        size = 0
        for number in range(first, min(due, first + BATCH)):
            frame = self._frame(number, inbox)
            size += len(frame)
            yield frame
            if size > BATCH_BYTES:
                return

    def _pump(self, wait_s: float) -> None:
        for wire in self._wires:
            for heard in wire.pump(wait_s / len(self._wires)):
                self._hear(heard)

    def _hear(self, heard: Incoming) -> None:
        subject, _, body = heard
        sent_at = subject.rpartition(".")[2]
        if sent_at.isdigit():
            self.answers.hear(int(sent_at) / 1e6, body)
