"""Frames between parent and child arrive whole, however they are cut, and a status costs the
child's loop little.
"""

import asyncio
import socket
import time

import msgspec

from router.process.child_process import Ipc
from router.process.observability import Metrics, ReadinessCheck
from router.serve.fleet.ipc import (
    ChildFailed,
    ChildStarted,
    ChildStatus,
    FromChild,
    StartChild,
)


def a_line(heard: list[FromChild]) -> Ipc[FromChild]:
    return Ipc(msgspec.msgpack.Decoder(FromChild), heard.append, lambda: None)


def a_report(metrics: Metrics) -> ChildStatus:
    return ChildStatus({"consumer": ReadinessCheck(False, "paused")}, metrics.registry.snapshot())


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data


async def test_frames_arrive_however_they_are_cut() -> None:
    metrics, wire, heard = Metrics(), Wire(), list[FromChild]()
    metrics.decisions["acme", "default", "openai", "weighted", "ok"] += 3
    metrics.decision_seconds.observe(0.2)
    metrics.in_flight.set_function(lambda: float("inf"), "router-decide-consumer")
    said = [ChildStarted("nats://there"), a_report(metrics), ChildFailed("", "gone")]
    speaker = a_line([])
    speaker.connection_made(wire)
    for one in said:
        speaker.send(one)
    listener = a_line(heard)
    for begin in range(0, len(wire.written), 7):
        listener.data_received(wire.written[begin : begin + 7])
    assert heard == said


async def test_what_the_other_end_sent_before_it_closed_arrives_though_a_frame_for_it_fails() -> (
    None
):
    """A child fails with a cause and ends; in the same moment its parent writes to it."""
    heard, closed = list[FromChild](), asyncio.Event()
    ours, theirs = socket.socketpair()
    listener = Ipc(msgspec.msgpack.Decoder(FromChild), heard.append, closed.set)
    wire = Wire()
    speaker = a_line([])
    speaker.connection_made(wire)
    speaker.send(ChildFailed("topology", "the server refused it"))
    theirs.sendall(wire.written)
    theirs.close()
    await listener.open(ours)
    listener.send(StartChild(b""))
    await closed.wait()
    assert heard == [ChildFailed("topology", "the server refused it")]


async def test_nothing_is_sent_to_a_closed_end() -> None:
    line, wire = a_line([]), Wire()
    line.connection_made(wire)
    line.connection_lost(None)
    line.send(ChildStarted("nats://there"))
    assert wire.written == b""


async def test_a_report_of_a_thousand_series_holds_the_loop_under_five_milliseconds() -> None:
    metrics, line = Metrics(label_limit=1000), a_line([])
    line.connection_made(Wire())
    for number in range(1000):
        metrics.decisions["acme", f"policy-{number}", "openai", "weighted", "ok"] += 1

    def held() -> float:
        began = time.thread_time()
        line.send(a_report(metrics))
        return time.thread_time() - began

    # of this thread's own time, the best: other work on the machine slows it too
    assert min(held() for _ in range(50)) < 0.005
