"""`router usage ingest`: what it says before Spark is started, and Ctrl-C while it works."""

import signal

import pytest

from router.cli.usage.ingest import Shown, _interrupts
from tests.support.cli import router


def test_the_first_interrupt_waits_for_the_batch_and_the_second_one_does_not() -> None:
    shown = Shown(is_quiet=True)
    before = signal.getsignal(signal.SIGINT)
    with _interrupts(shown) as asked:
        shown.commits = 7
        signal.raise_signal(signal.SIGINT)
        assert asked == [7]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stream_that_is_not_there_is_told_before_spark_is_started(nats_url: str) -> None:
    ended = router("usage", "ingest", "--nats-url", nats_url)
    assert (ended.status, ended.err) == (2, "router: stream: there is no stream ROUTER_USAGE where `url` points to\n")
