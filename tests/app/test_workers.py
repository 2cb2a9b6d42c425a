"""Workers as an instance hears them."""

import json

from router.app.workers import Workers
from router.observability import Metrics
from tests.support.app import Told

BEATS = "caf.worker.heartbeat.v1"


class Heard(Told):
    """Workers over told alerts."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics = Metrics()
        self.workers = Workers(self.metrics, self.alerts, self.clock)

    def beat(self, worker: str = "w-1", **fields: object) -> None:
        body = {"worker_id": worker, "status": "idle", "timestamp": 1, "interval_ms": 1000, **fields}
        self.workers.beat(BEATS, "", json.dumps(body).encode(), None)

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
        heard.workers.look()
    (alert,) = heard.heard
    assert (alert["severity"], alert["metadata"]["worker_id"], alert["metadata"]["silent_for_ms"]) == ("warning", "w-1", 3000)
    assert heard.alive == 0


def test_each_silent_worker_is_a_cause_of_its_own() -> None:
    heard = Heard()
    heard.beat("w-1")
    heard.beat("w-2", tenant_id="acme")
    heard.clock.now += 3
    heard.workers.look()
    assert heard.causes == ["worker_silent::w-1", "worker_silent:acme:w-2"]


def test_what_is_no_heartbeat_is_counted() -> None:
    heard = Heard()
    heard.workers.beat(BEATS, "", b"junk", None)
    assert (heard.metrics.heartbeats_refused.value, heard.alive) == (1, 0)


def test_what_a_worker_gave_up_is_alerted_with_its_ids() -> None:
    heard = Heard()
    body = {"assignment_id": "a-1", "status": "error", "tenant_id": "acme"}
    heard.workers.letter("caf.exec.dlq.v1", "", json.dumps(body).encode(), None)
    heard.workers.letter("caf.exec.dlq.v1", "", b"\xff\xfe", None)
    (alert,) = heard.heard
    assert alert["severity"] == "warning"
    assert (alert["metadata"]["assignment_id"], alert["metadata"]["tenant_id"]) == ("a-1", "acme")
