"""What the doctor says of which facts."""

from typing import Any

import pytest

from router.delivery.wire.topology import DRIFTED, MISSING, UNBATCHED, WIDENED, Difference
from router.operate.doctor import (
    Follower,
    Origin,
    RaftGroup,
    SyncMode,
    Verdict,
    ViolationFacts,
    examine,
)
from tests.support.doctor import (
    MIB,
    NOW,
    a_consumer,
    a_partition,
    a_server,
    a_stream,
    find_finding,
    some_facts,
)

HOUR = 3600.0
DAY = 24 * HOUR


def test_a_healthy_broker_has_nothing_to_do() -> None:
    findings = examine(some_facts())
    assert {finding.verdict for finding in findings} == {Verdict.OK}
    assert not any(finding.remedy for finding in findings)


def test_whatever_is_not_ok_says_what_to_do() -> None:
    facts = some_facts(
        server=a_server(version=(2, 10, 0), max_payload=1, sync=SyncMode(), is_clustered=True),
        streams=(
            a_stream(
                size=999,
                discard="new",
                group=RaftGroup("n1", (Follower("n2", is_current=False),)),
                duplicate_window=9.0,
            ),
            a_stream("DLQ", messages=1),
        ),
        consumers=(a_consumer(pending=1, waiting_pulls=0, oldest_at=NOW - DAY, oldest_sequence=1),),
        differences=(Difference("stream", "S", MISSING), Difference("stream", "T", DRIFTED)),
    )
    findings = [finding for finding in examine(facts) if finding.verdict is not Verdict.OK]
    assert len(findings) >= 11
    assert all(finding.remedy for finding in findings)


def test_a_bucket_that_is_no_longer_read_is_named_with_the_command_that_deletes_it() -> None:
    finding = find_finding("left over", left_over=("ROUTER_STARTS",))
    assert finding.verdict is Verdict.WARN
    assert "ROUTER_STARTS" in finding.found
    assert "nats stream rm KV_ROUTER_STARTS" in finding.remedy


def test_a_server_that_is_too_old_fails() -> None:
    assert (
        find_finding("server version", server=a_server(version=(2, 10, 29))).verdict is Verdict.FAIL
    )


def test_without_jetstream_nothing_else_is_asked() -> None:
    findings = examine(some_facts(server=a_server(has_jetstream=False)))
    assert [(finding.check, finding.verdict) for finding in findings][1:] == [
        ("jetstream", Verdict.FAIL)
    ]


def test_a_server_that_refuses_what_we_would_answer_is_a_warning() -> None:
    assert find_finding("max_payload", server=a_server(max_payload=MIB)).verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("sync", "replicas", "verdict"),
    [
        (SyncMode(is_always=True), 1, Verdict.OK),
        (SyncMode(120.0), 1, Verdict.WARN),
        (SyncMode(120.0), 3, Verdict.WARN),  # several servers may lose power at once
        (SyncMode(), 1, Verdict.WARN),
    ],
)
def test_an_acknowledgement_before_the_disk_is_a_risk_with_any_copies(
    sync: SyncMode, replicas: int, verdict: Verdict
) -> None:
    assert (
        find_finding(
            "sync mode", server=a_server(sync=sync), streams=(a_stream(replicas=replicas),)
        ).verdict
        is verdict
    )


def test_a_sync_mode_that_cannot_be_read_says_so() -> None:
    assert "cannot be read" in find_finding("sync mode", server=a_server(sync=SyncMode())).found


@pytest.mark.parametrize("state", [MISSING, DRIFTED])
def test_what_is_not_as_declared_fails(state: str) -> None:
    assert (
        find_finding("topology", differences=(Difference("stream", "S", state),)).verdict
        is Verdict.FAIL
    )


def test_one_copy_is_a_warning_in_a_cluster_only() -> None:
    assert find_finding("replicas", server=a_server(is_clustered=True)).verdict is Verdict.WARN
    assert find_finding("replicas").verdict is Verdict.OK


def test_a_dedupe_window_other_than_declared_is_a_warning() -> None:
    assert (
        find_finding("dedupe window", streams=(a_stream(duplicate_window=120.0),)).verdict
        is Verdict.WARN
    )


def test_a_stream_s_end_is_told_from_its_rate() -> None:
    half_in_an_hour = {"size": 500, "first_at": NOW - HOUR, "last_at": NOW}
    finding = find_finding("room in S", streams=(a_stream(**half_in_an_hour),))
    assert (finding.verdict, "full in 1 h" in finding.found) == (Verdict.WARN, True)


def test_a_stream_that_forgets_faster_than_it_fills_is_never_full() -> None:
    half_in_an_hour = {"size": 500, "first_at": NOW - HOUR, "last_at": NOW}
    assert (
        find_finding("room in S", streams=(a_stream(**half_in_an_hour, max_age=2 * HOUR),)).verdict
        is Verdict.OK
    )


def test_it_is_said_how_long_a_stream_lasts_at_the_rate_of_its_newest_tenth() -> None:
    """A day of nothing, then ten bytes a minute."""
    busy = {
        "size": 100,
        "messages": 100,
        "first_sequence": 1,
        "last_sequence": 100,
        "first_at": NOW - 10 * DAY,
        "last_at": NOW,
    }
    recent = {"recent_sequence": 90, "recent_at": NOW - 60.0}
    finding = find_finding("room in S", streams=(a_stream(**busy, **recent),))
    assert (finding.verdict, finding.found) == (
        Verdict.WARN,
        "10% full, lasts 1.7 h at this rate, full in 1.5 h",
    )
    assert (
        find_finding("room in S", streams=(a_stream(**busy),)).found
        == "10% full, holds all 1 d that it keeps at this rate"
    )


def test_a_stream_whose_messages_leave_it_when_they_are_done_is_not_said_to_fill() -> None:
    busy = a_stream(size=100, messages=100, last_sequence=100, first_at=NOW - 600.0, last_at=NOW)
    finding = find_finding("room in S", streams=(busy,), cleaned_stream="S")
    assert finding.verdict is Verdict.OK
    assert (
        finding.found == "10% full, holds 1.7 h of messages at this rate; finished ones are removed"
    )


def test_a_stream_without_a_limit_says_what_comes_in_a_day() -> None:
    endless = a_stream(
        size=600, messages=10, last_sequence=10, first_at=NOW - 600.0, last_at=NOW, max_bytes=-1
    )
    assert (
        find_finding("room in S", streams=(endless,)).found
        == "no limit but the disk's, 84.4 KiB a day at this rate"
    )


def test_a_full_stream_that_refuses_fails_and_one_that_drops_warns() -> None:
    assert (
        find_finding("room in S", streams=(a_stream(size=990, discard="new"),)).verdict
        is Verdict.FAIL
    )
    assert (
        find_finding("room in S", streams=(a_stream(size=990, discard="old"),)).verdict
        is Verdict.WARN
    )


def test_work_without_a_puller_fails_and_an_idle_durable_warns() -> None:
    assert (
        find_finding("consumer c", consumers=(a_consumer(waiting_pulls=0, pending=1),)).verdict
        is Verdict.FAIL
    )
    assert (
        find_finding("consumer c", consumers=(a_consumer(waiting_pulls=0),)).verdict is Verdict.WARN
    )


@pytest.mark.parametrize(
    ("age", "verdict"), [(1.0, Verdict.OK), (11.0, Verdict.WARN), (61.0, Verdict.FAIL)]
)
def test_an_old_message_is_lag(age: float, verdict: Verdict) -> None:
    assert (
        find_finding("consumer c", consumers=(a_consumer(pending=1, oldest_at=NOW - age),)).verdict
        is verdict
    )


@pytest.mark.parametrize(
    ("age", "verdict"), [(HOUR, Verdict.OK), (13 * HOUR, Verdict.WARN), (22 * HOUR, Verdict.FAIL)]
)
def test_the_distance_is_the_part_of_the_age_limit_that_is_left(
    age: float, verdict: Verdict
) -> None:
    assert (
        find_finding("distance c", consumers=(a_consumer(pending=1, oldest_at=NOW - age),)).verdict
        is verdict
    )


def test_what_a_full_stream_drops_next_fails() -> None:
    full = a_stream(size=950, first_sequence=100, last_sequence=200)
    assert (
        find_finding(
            "distance c",
            streams=(full,),
            consumers=(a_consumer(pending=99, oldest_at=NOW, oldest_sequence=101),),
        ).verdict
        is Verdict.FAIL
    )
    behind, abreast = (
        a_consumer(oldest_at=NOW, oldest_sequence=101),
        a_consumer(oldest_at=NOW, oldest_sequence=191),
    )
    assert find_finding("distance c", streams=(full,), consumers=(behind,)).verdict is Verdict.FAIL
    assert find_finding("distance c", streams=(full,), consumers=(abreast,)).verdict is Verdict.OK


def test_messages_that_were_dropped_before_they_were_read_fail() -> None:
    begins_at_26 = a_stream(first_sequence=26, last_sequence=35)
    finding = find_finding(
        "distance c", streams=(begins_at_26,), consumers=(a_consumer(delivered_sequence=4),)
    )
    assert (finding.verdict, finding.found) == (
        Verdict.FAIL,
        "21 messages were dropped before they were read",
    )
    assert (
        find_finding(
            "distance c", streams=(begins_at_26,), consumers=(a_consumer(delivered_sequence=25),)
        ).verdict
        is Verdict.OK
    )


def test_dead_letters_are_a_warning() -> None:
    assert (
        find_finding("dead letters", streams=(a_stream("DLQ", messages=2),)).verdict is Verdict.WARN
    )
    assert find_finding("dead letters", streams=(a_stream("DLQ"),)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("facts", "verdict", "found"),
    [
        ({}, Verdict.OK, "node-b takes its requests"),
        (
            {"lease_age": 60.0, "pending": 7, "waiting_pulls": 0},
            Verdict.FAIL,
            "7 wait; node-b renewed its lease 1 min ago",
        ),
        (
            {"lease_age": None, "holder": "", "waiting_pulls": 0},
            Verdict.FAIL,
            "no router takes its requests, 0 wait",
        ),
        ({"is_owned": False}, Verdict.WARN, "node-b has taken it over"),
        ({"standby_age": None}, Verdict.WARN, "none stands by"),
        ({"standby_age": 60.0}, Verdict.WARN, "none stands by"),
        ({"standby_age": None, "waiting_pulls": 2}, Verdict.OK, "another router can take over"),
    ],
)
def test_a_partition_needs_a_router_and_another_that_can_take_it(
    facts: dict[str, Any], verdict: Verdict, found: str
) -> None:
    finding = find_finding("partition 1", partitions=(a_partition(**facts),))
    assert finding.verdict is verdict
    assert found in finding.found
    assert ("=1" in finding.remedy) is (verdict is not Verdict.OK)


def test_the_worst_tenant_of_the_last_hour_is_named() -> None:
    found = ViolationFacts(
        messages=205, tenants=2, tenant="acme", worst=200, subject="s", rule="trace_id.malformed"
    )
    finding = find_finding("header contract", violations=found)
    assert finding.verdict is Verdict.WARN
    assert finding.found.endswith("most of tenant acme: 200 times trace_id.malformed on s")
    assert "router contract violations --since 1h" in finding.remedy
    assert find_finding("header contract", violations=ViolationFacts()).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("silence", "verdict"), [(1.0, Verdict.OK), (30.0, Verdict.WARN), (None, Verdict.WARN)]
)
def test_another_place_that_gives_no_sign_is_a_warning(
    silence: float | None, verdict: Verdict
) -> None:
    stream = a_stream(origins=(Origin("USAGE", "$JS.leaf.API", silence),))
    assert find_finding("USAGE of $JS.leaf.API in S", streams=(stream,)).verdict is verdict


def test_a_stream_that_takes_no_batches_is_a_warning_and_no_failure() -> None:
    unbatched = Difference("stream", "S", UNBATCHED, {"allow_atomic": (True, None)})
    findings = examine(some_facts(differences=(unbatched,)))
    (told,) = [one for one in findings if "allow_atomic" in one.found]
    assert (told.check, told.verdict) == ("topology", Verdict.WARN)
    assert "router topology apply" in told.remedy


def test_a_window_that_a_restore_widened_is_a_warning_and_no_failure() -> None:
    widened = Difference("stream", "S", WIDENED, {"duplicate_window": (1, 2)})
    findings = examine(
        some_facts(streams=(a_stream(duplicate_window=100.0),), differences=(widened,))
    )
    told = [
        (finding.check, finding.verdict)
        for finding in findings
        if "window" in f"{finding.check} {finding.found}"
    ]
    assert told == [("topology", Verdict.WARN)]
