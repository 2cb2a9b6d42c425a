"""What the streams reserve together, against what the account and the servers have."""

import pytest

from router.delivery.wire.topology import StreamSpec
from router.operate.doctor import (
    Facts,
    Follower,
    RaftGroup,
    ServerFacts,
    ServerStorage,
    StreamFacts,
    Verdict,
    find_shortages,
)
from router.operate.doctor.facts import AccountCount
from tests.support.doctor import MIB, a_server, a_stream, find_finding, some_facts

ALONE = RaftGroup("n1")
ON_ALL = RaftGroup("n1", (Follower("n2"), Follower("n3")))


def _spec(name: str = "S", copies: int = 3, mib: int = 4) -> StreamSpec:
    return StreamSpec(name=name, subjects=("s",), max_bytes=mib * MIB, replicas=copies)


def _stream(name: str = "S", *, group: RaftGroup = ALONE, mib: int = 4) -> StreamFacts:
    return a_stream(name, max_bytes=mib * MIB, replicas=len(group.servers), group=group)


def _servers(*reserved: int, limit: int = 10) -> ServerFacts:
    servers = [
        ServerStorage(name=f"n{number}", limit=limit * MIB, reserved=mib * MIB, cluster_size=3)
        for number, mib in enumerate(reserved, 1)
    ]
    return a_server(is_clustered=True, storage=tuple(servers))


def _facts(
    *declared: StreamSpec, server: ServerFacts, streams: tuple[StreamFacts, ...] = ()
) -> Facts:
    return some_facts(declared=declared, server=server, streams=streams)


def test_new_streams_fit_or_are_told_with_figures() -> None:
    assert find_shortages(_facts(_spec("A"), _spec("B"), server=_servers(0, 0, 0))) == []
    (shortage,) = find_shortages(
        _facts(_spec("A"), _spec("B"), _spec("C"), server=_servers(0, 0, 0))
    )
    assert shortage == "server n1 holds 10 MiB, the streams there would reserve 12 MiB"


def test_copies_of_an_existing_stream_are_counted_where_it_is_not_yet() -> None:
    assert find_shortages(_facts(_spec(), server=_servers(8, 6, 6), streams=(_stream(),))) == []
    (shortage,) = find_shortages(_facts(_spec(), server=_servers(8, 6, 7), streams=(_stream(),)))
    assert shortage == "server n3 holds 10 MiB, the streams there would reserve 11 MiB"


def test_a_stream_that_grows_is_counted_with_the_difference() -> None:
    grown = _spec(mib=6)
    assert (
        find_shortages(_facts(grown, server=_servers(8, 8, 8), streams=(_stream(group=ON_ALL),)))
        == []
    )
    assert find_shortages(_facts(grown, server=_servers(9, 9, 9), streams=(_stream(group=ON_ALL),)))


def test_single_copies_are_counted_together_because_the_cluster_places_them() -> None:
    singles = [_spec(name, copies=1, mib=8) for name in "ABC"]
    assert find_shortages(_facts(*singles, server=_servers(2, 2, 2))) == []
    (shortage,) = find_shortages(_facts(*singles, server=_servers(3, 3, 3)))
    assert (
        shortage
        == "the servers hold 30 MiB together, the streams would reserve 33 MiB, copies counted"
    )


def test_servers_that_were_not_read_are_taken_to_be_like_those_that_were() -> None:
    singles = [_spec(name, copies=1, mib=8) for name in "ABC"]
    assert find_shortages(_facts(*singles, server=_servers(2))) == []
    assert find_shortages(_facts(*singles, server=_servers(3)))


def test_an_account_counts_every_copy() -> None:
    # of which 4 are the stream's, and 2 another one's
    account = a_server(account_limit=20 * MIB, account_reserved=6 * MIB)
    (shortage,) = find_shortages(_facts(_spec(copies=5), server=account, streams=(_stream(),)))
    assert (
        shortage
        == "the account may reserve 20 MiB, its streams would reserve 22 MiB, copies counted"
    )
    assert find_shortages(_facts(_spec(copies=3), server=account, streams=(_stream(),))) == []


def test_what_stays_as_it_is_is_no_shortage() -> None:
    """A cluster that reserves too much already must take every other change."""
    assert (
        find_shortages(
            _facts(_spec(), server=_servers(12, 12, 12), streams=(_stream(group=ON_ALL),))
        )
        == []
    )


def test_streams_that_reserve_more_than_a_server_has_are_a_warning() -> None:
    finding = find_finding("storage of n2", server=_servers(4, 12, 4))
    assert finding.verdict is Verdict.WARN
    assert "reserve 12 MiB of 10 MiB" in finding.found
    assert find_finding("storage of n1", server=_servers(4, 12, 4)).verdict is Verdict.OK


def test_a_disk_that_is_nearly_full_is_a_warning() -> None:
    full = ServerStorage(name="n1", limit=10 * MIB, reserved=0, used=9 * MIB)
    assert find_finding("storage of n1", server=a_server(storage=(full,))).verdict is Verdict.WARN


def test_a_cluster_whose_room_cannot_be_read_is_a_warning_with_what_the_streams_need() -> None:
    finding = find_finding("storage", server=a_server(is_clustered=True), declared=(_spec(),))
    assert finding.verdict is Verdict.WARN
    assert "12 MiB of messages, each of up to 3 copies counted" in finding.found
    assert "--monitor" in finding.remedy


@pytest.mark.parametrize(
    ("used", "verdict"), [(50, Verdict.OK), (95, Verdict.WARN), (100, Verdict.FAIL)]
)
def test_how_many_streams_and_consumers_the_account_may_still_make_is_told(
    used: int, verdict: Verdict
) -> None:
    counts = (AccountCount("streams", used, 100), AccountCount("consumers", 3, -1))
    finding = find_finding("limit of streams", server=a_server(account_counts=counts))
    assert (finding.verdict, f"{used} of 100 streams" in finding.found) == (verdict, True)
