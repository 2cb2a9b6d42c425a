"""What a parent and its worker say arrives whole, however it is cut, and costs the one who is asked next to nothing."""

import asyncio
import time

import msgspec

from router.fleet.line import FromWorker, Line, Refused, Report, Started
from router.observability import Metrics, ReadinessCheck


def a_line(heard: list[FromWorker]) -> Line[FromWorker]:
    return Line(msgspec.msgpack.Decoder(FromWorker), heard.append, lambda: None)


def a_report(metrics: Metrics) -> Report:
    return Report({"lane": ReadinessCheck(False, "paused")}, metrics.registry.snapshot())


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data


async def test_what_is_said_is_heard_however_it_is_cut() -> None:
    metrics, wire, heard = Metrics(), Wire(), list[FromWorker]()
    metrics.decisions["acme", "default", "openai", "weighted", "ok"] += 3
    metrics.decision_seconds.observe(0.2)
    metrics.in_flight.set_function(lambda: float("inf"), "router-decide-consumer")
    said = [Started("nats://there"), a_report(metrics), Refused("", "gone")]
    speaker = a_line([])
    speaker.connection_made(wire)
    for one in said:
        speaker.say(one)
    listener = a_line(heard)
    for begin in range(0, len(wire.written), 7):
        listener.data_received(wire.written[begin : begin + 7])
    assert heard == said


async def test_nothing_is_said_to_nobody() -> None:
    line, wire = a_line([]), Wire()
    line.connection_made(wire)
    line.connection_lost(None)
    line.say(Started("nats://there"))
    assert wire.written == b""


async def test_a_report_of_a_thousand_series_holds_the_loop_under_five_milliseconds() -> None:
    metrics, line = Metrics(label_limit=1000), a_line([])
    line.connection_made(Wire())
    for number in range(1000):
        metrics.decisions["acme", f"policy-{number}", "openai", "weighted", "ok"] += 1

    def held() -> float:
        began = time.perf_counter()
        line.say(a_report(metrics))
        return time.perf_counter() - began

    assert min(held() for _ in range(5)) < 0.005  # the best: the machine's other work may hold it too
