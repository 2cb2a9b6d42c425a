"""What a partition changes for the router that takes it, and what it does not."""

from pathlib import Path

import pytest

from router.config import DECIDE, Settings
from router.config.consumers import DecideConfig
from router.operate.topology.declared_topology import declare_topology
from router.process.supervision import draw
from router.serve.service import RouterService
from tests.support.config import load_settings, read_refusal

PART = Settings(decide=DecideConfig(partition="1"))


def test_without_a_partition_all_is_as_ever() -> None:
    assert (Settings().decide.taken_subject, DECIDE.read_stream(Settings())) == (
        "beamline.router.v1.decide",
        Settings().streams.decide,
    )


def test_a_partition_has_a_subject_and_a_stream_of_its_own() -> None:
    assert (PART.decide.taken_subject, DECIDE.read_stream(PART).name) == (
        "beamline.router.v1.decide.p.1",
        "ROUTER_DECIDE_P1",
    )


def test_everything_else_is_shared() -> None:
    """Two routers of two partitions must agree on every other stream, or each would call the
    other's a drift.
    """
    whole, part = declare_topology(Settings()), declare_topology(PART)
    assert whole.streams[1:] == part.streams[1:-1]
    assert part.streams[-1].name == "KV_ROUTER_PARTITIONS"
    assert whole.consumers[1:] == part.consumers[1:]
    assert part.streams[0].subjects == ("beamline.router.v1.decide.p.1",)
    assert (part.consumers[0].stream, part.consumers[0].filter_subject) == (
        "ROUTER_DECIDE_P1",
        "beamline.router.v1.decide.p.1",
    )
    assert part.consumers[0].durable == whole.consumers[0].durable


def test_a_standby_makes_the_partition_as_its_own_router_does() -> None:
    standby, owner = (
        declare_topology(Settings(decide=DecideConfig(partition="0", standby=("1",)))),
        declare_topology(PART),
    )
    assert standby.streams[-1] == owner.streams[0]
    assert standby.consumers[-1] == owner.consumers[0]


@pytest.mark.parametrize(
    ("partition", "standby", "lease_ms", "refused"),
    [
        ("", "1", 3_000, "decide.standby"),
        ("1", "1", 3_000, "decide.standby"),
        ("1", "0,0", 3_000, "decide.standby"),
        ("1", "a.b", 3_000, "decide.standby"),
        ("1", "0", 299, "decide.lease_ms"),
    ],
)
def test_a_standby_that_makes_no_sense_is_refused(
    partition: str, standby: str, lease_ms: int, refused: str
) -> None:
    assert refused in read_refusal(
        ROUTER_DECIDE__PARTITION=partition,
        ROUTER_DECIDE__STANDBY=standby,
        ROUTER_DECIDE__LEASE_MS=str(lease_ms),
    )


def test_a_standby_has_a_branch_and_an_owner_a_lease(tmp_path: Path) -> None:
    tree = draw(
        RouterService(
            Settings(decide=DecideConfig(partition="0", standby=("1", "2"))), policies_dir=tmp_path
        ).tree()
    )
    assert tree.count("lease ") == 1
    assert [name in tree for name in ("decide-p1 ", "decide-p2 ", "decide-p0 ")] == [
        True,
        True,
        False,
    ]
    assert "lease " not in draw(RouterService(Settings(), policies_dir=tmp_path).tree())


def test_a_partition_is_one_token() -> None:
    assert load_settings(ROUTER_DECIDE__PARTITION="").settings.decide.partition is None
    assert "decide.partition" in read_refusal(ROUTER_DECIDE__PARTITION="a.b")


@pytest.mark.parametrize("prefix", ["_INBOX_*", "a b", "", "_INBOX."])
def test_an_inbox_prefix_is_literal_tokens(prefix: str) -> None:
    assert "nats.inbox_prefix" in read_refusal(ROUTER_NATS__INBOX_PREFIX=prefix)
