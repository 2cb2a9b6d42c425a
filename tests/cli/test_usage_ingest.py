"""`router usage ingest`: what it says before Spark is started, and Ctrl-C while it works."""

import json
import signal

import pytest

from router.cli.usage.ingest import IngestProgress, _count_interrupts
from router.lake.warehouse import Commit
from tests.support.cli import router


def test_the_first_interrupt_waits_for_the_batch_and_the_second_one_does_not() -> None:
    shown = IngestProgress(is_quiet=True)
    before = signal.getsignal(signal.SIGINT)
    with _count_interrupts(shown) as asked:
        shown.commits = 7
        signal.raise_signal(signal.SIGINT)
        assert asked == [7]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stream_that_is_not_there_is_told_before_spark_is_started(nats_url: str) -> None:
    ended = router("usage", "ingest", "--nats-url", nats_url)
    assert (ended.status, ended.err) == (2, "router: stream: there is no stream ROUTER_USAGE where `url` points to\n")


def test_who_collects_logs_gets_a_line_for_each_commit_and_one_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    """UL-13."""
    shown = IngestProgress(is_quiet=True, is_told_each=True)
    for number in (4, 5):
        shown.on_commit(
            Commit(commit=number, kind="ingest", at="2026-11-20T00:00:00Z", last=10 * number, counts={"read": 10, "late_1h": 1})
        )
    shown.end(as_json=True)
    first, second, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["commit"], second["to"], second["late_1h"]) == (4, 50, 1)
    assert 0 <= second["seconds"] < 1
    assert (whole["commits"], whole["read"]) == (2, 20)
