"""`router usage ingest`: what it says before Spark is started, and Ctrl-C while it works."""

import json
import logging
import signal
from unittest.mock import Mock

import pytest

from router.lake.commands.command import _is_no_interrupt
from router.lake.commands.ingest import IngestProgress, _count_interrupts, _watch
from router.lake.jobs.ingest import IngestJob
from router.lake.jobs.stream_end import StreamReport
from router.lake.tables.body import EventBounds
from router.lake.warehouse import Cut, Progress
from tests.support.cli import router


class IdleQuery:
    """A query that was started, reads nothing, and ends when it is stopped."""

    waiting, is_busy, is_stopped = 0, False, False

    def wait(self, _seconds: float) -> bool:
        return self.is_stopped

    def stop(self) -> None:
        self.is_stopped = True


def test_the_first_interrupt_waits_for_the_batch_and_the_second_one_does_not() -> None:
    shown = IngestProgress(is_quiet=True)
    before = signal.getsignal(signal.SIGINT)
    with _count_interrupts(shown) as asked:
        shown.cuts = 7
        signal.raise_signal(signal.SIGINT)
        assert asked == [7]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_the_query_starts_ends_it_once_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = IdleQuery()

    def start(*_: object) -> IdleQuery:
        signal.raise_signal(signal.SIGINT)
        return query

    monkeypatch.setattr("router.lake.jobs.ingest.start_ingest", start)
    job = IngestJob(warehouse="none", source={}, continuous=True, max_rows=1, bounds=EventBounds())
    _watch(Mock(), job, as_json=True)
    assert query.is_stopped
    assert "ending after this micro-batch; Ctrl-C again ends it at once" in capsys.readouterr().err


def test_a_second_interrupt_leaves_no_traceback_of_the_library() -> None:
    said = logging.LogRecord(
        "root", logging.ERROR, "", 0, "KeyboardInterrupt while sending command.", (), None
    )
    assert not _is_no_interrupt(said)
    assert _is_no_interrupt(
        logging.LogRecord("root", logging.ERROR, "", 0, "an executor was lost", (), None)
    )


def test_a_stream_that_is_not_there_is_told_before_spark_is_started(nats_url: str) -> None:
    ended = router("usage", "ingest", "--nats-url", nats_url)
    assert (ended.status, ended.err) == (
        2,
        "router: stream: there is no stream ROUTER_USAGE where `url` points to\n",
    )


def test_who_collects_logs_gets_a_line_for_each_batch_and_one_for_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """UL-13."""
    shown = IngestProgress(is_quiet=True, is_told_each=True)
    for number in (4, 5):
        shown.on_cut(
            Cut(
                number=number,
                kind="ingest",
                at="2026-11-20T00:00:00Z",
                versions={},
                progress=a_batch(number),
                counts={"read": 10, "late_1h": 1},
            ),
            StreamReport(),
        )
    shown.end(as_json=True)
    first, second, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["cut"], second["to"], second["late_1h"]) == (4, 50, 1)
    assert 0 <= second["seconds"] < 60
    assert (whole["batches"], whole["read"]) == (2, 20)


def a_batch(number: int) -> Progress:
    return Progress(
        stream="S", created="2026-11-20T00:00:00Z", first=10 * number - 9, last=10 * number
    )
