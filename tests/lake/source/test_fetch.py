"""One range of a real stream, read as an executor reads it: each message a row, once, whatever
happens meanwhile.
"""

from itertools import count

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.core.errors import BrokerUnavailable, Misconfigured
from router.delivery.wire.connection import head_of
from router.lake.source.fetch import EphemeralConsumer
from router.lake.source.offset import DataLoss, SequenceRange, split
from tests.support.broker import Broker
from tests.support.lake import Feed, a_feed, in_small_steps, seqs

_numbers = count()


@pytest.fixture
def feed(broker: Broker) -> Feed:
    return Feed(broker.url, f"EVENTS{next(_numbers)}").create()


@pytest.fixture(scope="module")
def thousand(broker: Broker) -> Feed:
    """With holes: nothing changes it any more."""
    feed = Feed(broker.url, "THOUSAND").create().count(1_000)
    feed.delete(2, 3, 500, 501, 502, 999, 1_000)
    return feed


# -- what a row says -------------------------------------------------------------------------------


def test_a_row_is_the_message_as_the_stream_holds_it(feed: Feed) -> None:
    feed.put([b"body"], subject="a.b", head=head_of({"trace_id": "t", "Nats-Msg-Id": "1"})).put(
        [b""]
    )
    first, second = feed.rows(1, 3)
    assert (first["stream"], first["seq"], first["subject"], first["data"]) == (
        feed.stream,
        1,
        f"{feed.stream}.a.b",
        b"body",
    )
    assert dict(first["headers"]) == {"trace_id": "t", "Nats-Msg-Id": "1"}
    assert (second["headers"], second["data"]) == (None, b"")
    assert first["time"] <= second["time"]
    assert first["time"].tzinfo is not None


def test_headers_are_null_when_they_are_not_wanted(feed: Feed) -> None:
    feed.put([b""], head=head_of({"a": "1"}))
    assert feed.rows(1, 2, includeHeaders="false")[0]["headers"] is None


def test_a_subject_that_is_no_utf8_stops_no_reader(feed: Feed) -> None:
    feed.put_odd(b"caf\xe9")
    assert feed.rows(1, 2)[0]["subject"].endswith("caf\N{REPLACEMENT CHARACTER}")


def test_only_messages_of_the_filtered_subject_are_rows(feed: Feed) -> None:
    """UL-22."""
    for _ in range(3):
        feed.count(40, subject="a").count(60, subject="b")
    assert feed.sequences(1, 301, subject=f"{feed.stream}.a") == [
        *range(1, 41),
        *range(101, 141),
        *range(201, 241),
    ]
    assert feed.sequences(101, 111, subject=f"{feed.stream}.a") == list(range(101, 111))
    assert feed.sequences(41, 101, subject=f"{feed.stream}.a") == []


# -- a range gives the same rows, however it is read -----------------------------------------------


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    start=st.integers(1, 1_001),
    length=st.integers(0, 1_000),
    parts=st.integers(1, 5),
    rows=st.integers(1, 400),
)
def test_a_range_read_again_in_other_parts_gives_the_same_rows(
    thousand: Feed, start: int, length: int, parts: int, rows: int
) -> None:
    """UL-24, UL-32, UL-33."""
    with pytest.MonkeyPatch.context() as patch:
        end = min(start + length, 1_001)
        whole = thousand.rows(start, end)
        in_small_steps(patch, rows)
        pieces = [
            row
            for one in split(SequenceRange(start, end, ""), parts, 1)
            for row in thousand.rows(one.start, one.end)
        ]
    assert whole == pieces
    assert [row["seq"] for row in whole] == [
        n for n in range(start, end) if n not in (2, 3, 500, 501, 502, 999, 1_000)
    ]


def test_deleted_messages_have_no_row_wherever_they_were(feed: Feed) -> None:
    """UL-27."""
    feed.count(100)
    feed.delete(1, 50, 51, 99, 100)
    assert feed.sequences(51, 52) == []
    assert feed.sequences(98, 101) == [98]
    # the first of a stream is gone like a purged one: they cannot be told apart
    with pytest.raises(DataLoss):
        feed.sequences(1, 3)


def test_messages_beyond_the_range_are_left_alone(feed: Feed) -> None:
    feed.count(300)
    feed.delete(140, 141)
    assert feed.sequences(130, 142) == list(range(130, 140))


def test_large_messages_among_many_small_ones_come_in_batches_that_fit(feed: Feed) -> None:
    """UL-33."""
    feed.count(2_000).put([bytes(1024 * 1024)] * 64).count(4_000)
    batches = list(feed.batches(1, 6_065))
    assert seqs(batches) == list(range(1, 6_065))
    # a batch, and what is in flight
    assert max(batch.nbytes for batch in batches) < 50 * 1024 * 1024


# -- what happens meanwhile ------------------------------------------------------------------------


def test_messages_deleted_while_their_range_is_read_are_no_loss(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-27."""
    in_small_steps(monkeypatch)
    batches = feed.count(1_000).batches(1, 1_001)
    first = next(batches)
    feed.delete(600, 999, 1_000)  # the last ones, too: the server had counted them as pending
    assert seqs([first, *batches]) == [n for n in range(1, 999) if n != 600]


def test_a_purge_in_the_middle_of_a_range_is_a_loss_that_names_the_gap(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-26."""
    in_small_steps(monkeypatch)
    batches = feed.count(1_000).batches(1, 1_001)
    next(batches)
    feed.purge(before=501)
    with pytest.raises(DataLoss, match=r"begins at 501 now: sequences \d+ to 500 are gone"):
        list(batches)


def test_a_purge_of_all_the_rest_is_a_loss_too(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_steps(monkeypatch)
    batches = feed.count(1_000).batches(1, 1_001)
    next(batches)
    feed.purge()
    with pytest.raises(DataLoss, match="to 1000 are gone"):
        list(batches)


def test_a_range_whose_end_the_stream_no_longer_has_is_a_loss(feed: Feed) -> None:
    batches = feed.count(90).batches(1, 101)  # planned before it was restored from a copy
    with pytest.raises(DataLoss, match="ends at 90 now: sequences 91 to 100 are gone"):
        list(batches)


def test_a_loss_that_is_allowed_is_read_past(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_steps(monkeypatch)
    batches = feed.count(1_000).batches(1, 1_001, failOnDataLoss="false")
    read = seqs([next(batches)])
    feed.purge(before=501)
    read += seqs(batches)
    assert read[:100] == list(range(1, 101))
    assert read[-500:] == list(range(501, 1_001))
    assert read == sorted(set(read))


def test_a_stream_made_anew_is_another_one(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """UL-28."""
    in_small_steps(monkeypatch)
    strict, lenient = (
        feed.count(1_000).batches(1, 1_001),
        feed.batches(1, 1_001, failOnDataLoss="false"),
    )
    before = seqs([next(lenient)]), next(strict)
    feed.create_anew().count(1_000)
    with pytest.raises(DataLoss, match="made anew"):
        list(strict)
    after = seqs(lenient)
    # what was on its way, and nothing of the new one
    assert before[0] + after == list(range(1, len(before[0] + after) + 1))
    assert len(after) < 900


def test_a_consumer_that_is_deleted_is_replaced(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-21."""
    in_small_steps(monkeypatch)
    batches = feed.count(1_000).batches(1, 1_001)
    first = next(batches)
    feed.drop_consumers()
    assert seqs([first, *batches]) == list(range(1, 1_001))


def test_a_broker_killed_and_started_again_is_read_on_from_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """UL-21, UL-25."""
    in_small_steps(monkeypatch)
    with a_feed() as (broker, feed):
        batches = feed.count(2_000).batches(1, 2_001)
        read = seqs([next(batches), next(batches)])
        broker.kill()
        broker.start()
        assert read + seqs(batches) == list(range(1, 2_001))


def test_a_silent_broker_is_an_error_that_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_steps(monkeypatch)
    with a_feed() as (broker, feed):
        batches = feed.count(1_000).batches(1, 1_001, timeoutMs="10000")
        read = seqs([next(batches)])
        broker.pause()
        with pytest.raises(BrokerUnavailable, match="cannot be read") as told:
            read += seqs(batches)
        assert f"sequence {read[-1]} " not in str(told.value)
        broker.unpause()


# -- what is left behind ---------------------------------------------------------------------------


def test_no_consumer_is_left_on_the_server_however_a_read_ends(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-21."""
    in_small_steps(monkeypatch)
    feed.count(1_000)
    list(feed.batches(1, 1_001))
    given_up = feed.batches(1, 1_001)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    lossy = feed.batches(1, 1_001)
    next(lossy)
    feed.purge()
    with pytest.raises(DataLoss):
        list(lossy)
    assert feed.consumers() == []


def test_reading_takes_nothing_out_of_the_stream(feed: Feed) -> None:
    """UL-23."""
    feed.count(10)
    assert feed.rows(1, 11) == feed.rows(1, 11)
    assert feed.messages() == 10


def test_a_stream_that_is_not_there_is_said_by_its_option(broker: Broker) -> None:
    with pytest.raises(Misconfigured, match="there is no stream NOWHERE"):
        list(Feed(broker.url, "NOWHERE").batches(1, 2))


def test_record_batches_have_the_schema_that_spark_was_told(feed: Feed) -> None:
    """UL-17."""
    from tests.support.lake import ARROW

    assert all(
        isinstance(one, pa.RecordBatch) and one.schema == ARROW
        for one in feed.count(3).batches(1, 4)
    )


def test_a_delivery_that_was_lost_on_the_way_is_read_again(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-33."""
    in_small_steps(monkeypatch)
    hear, heard = EphemeralConsumer._on_delivery, count(1)

    def hear_but_once(
        self: EphemeralConsumer, subject: bytes, reply: bytes, data: bytes, head: bytes | None
    ) -> None:
        if next(heard) != 350:  # as between two connections of the same client
            hear(self, subject, reply, data, head)

    monkeypatch.setattr(EphemeralConsumer, "_on_delivery", hear_but_once)
    assert feed.count(1_000).sequences(1, 1_001) == list(range(1, 1_001))
