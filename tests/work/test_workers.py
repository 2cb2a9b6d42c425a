"""Workers as an instance hears them."""

import json

from router.process.observability import Metrics
from router.work.workers import MAX_NAMED_WORKERS, Workers
from tests.support.app import RecordedAlerts
from tests.support.observability import capture_log

BEATS = "caf.worker.heartbeat.v1"


class Heard(RecordedAlerts):
    """Workers over told alerts."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics = Metrics()
        self.workers = Workers(self.metrics, self.alerts, self.clock)

    def beat(self, worker: str = "w-1", **fields: object) -> None:
        body = {
            "worker_id": worker,
            "status": "idle",
            "timestamp": 1,
            "interval_ms": 1000,
            **fields,
        }
        self.workers.on_heartbeat(BEATS, "", json.dumps(body).encode(), None)

    @property
    def alive(self) -> float:
        return self.metrics.workers_alive.family().series[()]


def test_who_beats_is_alive_and_who_stopped_is_not() -> None:
    heard = Heard()
    heard.beat("w-1")
    heard.beat("w-2")
    heard.beat("w-2", status="stopped")
    assert heard.alive == 1


def test_a_worker_that_misses_three_beats_is_alerted_once() -> None:
    heard = Heard()
    heard.beat()
    for _ in range(4):
        heard.clock.now += 1
        heard.workers.report_silent()
    (alert,) = heard.heard
    assert (
        alert["severity"],
        alert["metadata"]["worker_id"],
        alert["metadata"]["silent_for_ms"],
    ) == ("warning", "w-1", 3000)
    assert heard.alive == 0


def test_each_silent_worker_is_a_cause_of_its_own() -> None:
    heard = Heard()
    heard.beat("w-1")
    heard.beat("w-2", tenant_id="acme")
    heard.clock.now += 3
    heard.workers.report_silent()
    assert heard.causes == ["worker_silent::w-1", "worker_silent:acme:w-2"]


def test_what_is_no_heartbeat_is_counted() -> None:
    heard = Heard()
    heard.workers.on_heartbeat(BEATS, "", b"junk", None)
    assert (heard.metrics.heartbeats_refused.value, heard.alive) == (1, 0)


def test_a_worker_whose_id_has_a_blank_is_logged_with_its_field_and_the_bytes_are_not() -> None:
    heard = Heard()
    with capture_log("warning") as lines:
        for _ in range(3):
            heard.beat("gpu one", secret="hunter2")
        heard.beat("w" * 500 + "\n")
    (line, *others) = [line for line in lines.all() if line["event"] == "heartbeat.refused"]
    assert (line["worker"], line["field"], line["subject"]) == ("gpu one", "worker_id", BEATS)
    assert "1..128" in line["reason"]
    assert others == []  # one line a second for a field, however many beats
    assert "hunter2" not in str(lines.all())
    assert heard.metrics.heartbeats_refused.value == 4


def test_what_is_told_of_a_refused_heartbeat_is_short_and_printable() -> None:
    heard = Heard()
    with capture_log("warning") as lines:
        heard.beat("w" * 500)
        heard.clock.now += 1
        heard.beat("a\x1b[31m b")
        heard.clock.now += 1
        heard.workers.on_heartbeat(BEATS, "", b"junk", None)
        heard.clock.now += 1
        heard.beat(7)  # type: ignore[arg-type]
    assert [line.get("worker") for line in lines.all()] == ["w" * 64, "a\\x1b[31m b", None, None]


def test_what_a_worker_gave_up_is_alerted_with_its_ids() -> None:
    heard = Heard()
    body = {"assignment_id": "a-1", "status": "error", "tenant_id": "acme"}
    heard.workers.on_dead_letter("caf.exec.dlq.v1", "", json.dumps(body).encode(), None)
    heard.workers.on_dead_letter("caf.exec.dlq.v1", "", b"\xff\xfe", None)
    (alert,) = heard.heard
    assert alert["severity"] == "warning"
    assert (alert["metadata"]["assignment_id"], alert["metadata"]["tenant_id"]) == ("a-1", "acme")


def test_many_that_fall_silent_at_once_are_told_of_in_one_alert_and_those_that_went_on_beating_by_name() -> (
    None
):
    heard = Heard()
    for number in range(100):
        heard.beat(f"ghost-{number}")
    heard.beat("honest")
    heard.clock.now += 2
    heard.beat("honest")
    heard.clock.now += 3
    heard.workers.report_silent()
    assert len(heard.causes) == MAX_NAMED_WORKERS + 1
    assert (heard.causes[0], heard.causes[-1]) == ("worker_silent::honest", "workers_silent")
    assert heard.heard[-1]["metadata"]["count"] == 101


def test_a_tenant_without_workers_is_no_share_of_its_own() -> None:
    heard = Heard()
    heard.workers = Workers(heard.metrics, heard.alerts, heard.clock, serves={"acme"}.__contains__)
    for number in range(6_000):
        heard.beat(f"w-{number}", tenant_id=f"made-up-{number}")
    heard.beat("w-1", tenant_id="acme")
    assert len(heard.workers.liveness) == 5_002
