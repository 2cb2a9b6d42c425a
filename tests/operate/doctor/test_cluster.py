"""What the doctor says of a cluster: leaders, followers, and the loss of one more server."""

from router.operate.doctor import Follower, RaftGroup, ServerStorage, Verdict, examine
from router.operate.doctor.collect import read_group
from tests.support.doctor import MIB, a_consumer, a_server, a_stream, find_finding, some_facts

THREE = RaftGroup("n1", (Follower("n2"), Follower("n3", lag=7)))
ONE_OFFLINE = RaftGroup(
    "n1", (Follower("n2"), Follower("n3", is_current=False, is_offline=True, lag=40))
)
CLUSTERED = a_server(is_clustered=True)


def test_no_quorum_has_a_name_of_its_own_and_nothing_else_is_asked() -> None:
    findings = examine(
        some_facts(server=a_server(is_clustered=True, has_quorum=False), streams=(), consumers=())
    )
    assert [(one.check, one.verdict) for one in findings][1:] == [
        ("jetstream", Verdict.OK),
        ("quorum", Verdict.FAIL),
    ]
    assert "start the servers" in findings[-1].remedy


def test_what_a_monitoring_port_knows_of_the_cluster_is_told() -> None:
    seen = ServerStorage(name="n1", limit=MIB, reserved=0, cluster_size=3, meta=ONE_OFFLINE)
    finding = find_finding("quorum", server=a_server(is_clustered=True, storage=(seen,)))
    assert (finding.verdict, finding.found) == (Verdict.OK, "3 servers, n1 leads, offline: n3")


def test_who_leads_how_much_is_told() -> None:
    finding = find_finding(
        "leaders", streams=(a_stream(group=THREE), a_stream("T", group=RaftGroup("n2")))
    )
    assert (finding.verdict, finding.found) == (Verdict.OK, "n1 leads 1, n2 leads 1")


def test_a_stream_without_a_leader_fails() -> None:
    finding = find_finding(
        "leaders",
        streams=(a_stream(group=RaftGroup("", (Follower("n2"),))),),
        without_leader=("KV_B",),
    )
    assert finding.verdict is Verdict.FAIL
    assert "KV_B, S" in finding.found


def test_the_lag_of_healthy_followers_is_told() -> None:
    finding = find_finding("followers", streams=(a_stream(group=THREE),))
    assert (finding.verdict, finding.found) == (
        Verdict.OK,
        "2 servers follow, at most 7 operations behind",
    )


def test_a_server_that_is_offline_fails_with_what_it_held() -> None:
    finding = find_finding(
        "server n3",
        streams=(a_stream(group=ONE_OFFLINE),),
        consumers=(a_consumer(group=ONE_OFFLINE),),
    )
    assert (finding.verdict, finding.found) == (
        Verdict.FAIL,
        "offline for 2 streams and consumers, up to 40 operations behind: S, c",
    )


def test_with_three_copies_the_loss_of_one_server_stops_nothing() -> None:
    finding = find_finding("if n1 is lost", streams=(a_stream(group=THREE),))
    assert (finding.verdict, "nothing stops; 1 of 1 elect" in finding.found) == (Verdict.OK, True)


def test_one_copy_stops_with_its_server() -> None:
    streams = (a_stream(group=THREE), a_stream("KV_ONE", group=RaftGroup("n2")))
    finding = find_finding("if n2 is lost", streams=streams)
    assert (finding.verdict, finding.found.split()[0]) == (Verdict.WARN, "KV_ONE")
    assert "ROUTER_REPLICAS=3" in finding.remedy
    assert find_finding("if n1 is lost", streams=streams).verdict is Verdict.OK


def test_while_one_of_three_is_offline_each_of_the_others_is_needed() -> None:
    finding = find_finding("if n2 is lost", streams=(a_stream(group=ONE_OFFLINE),))
    assert finding.verdict is Verdict.WARN
    assert "S stops" in finding.found
    findings = examine(some_facts(streams=(a_stream(group=ONE_OFFLINE),)))
    assert not any(one.check == "if n3 is lost" for one in findings)  # it is lost already


def test_two_copies_stop_with_either_of_them() -> None:
    assert (
        find_finding(
            "if n2 is lost", streams=(a_stream(group=RaftGroup("n1", (Follower("n2"),))),)
        ).verdict
        is Verdict.WARN
    )


def test_a_single_server_is_in_no_cluster() -> None:
    assert read_group({"leader": "NDA7", "raft_group": ""}) is None
    assert not any(
        one.check.startswith(("leaders", "if ", "quorum")) for one in examine(some_facts())
    )
