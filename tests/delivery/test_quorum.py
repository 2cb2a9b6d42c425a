"""What the info of a stream or a consumer says of its quorum."""

import pytest

from router.core.errors import NoLeader, QuorumLost
from router.delivery.quorum import require_quorum

SECOND = 1_000_000_000


def an_info(leader: str, *active_s: float, offline: bool = False) -> dict[str, object]:
    followers = [{"name": str(number), "active": int(one * SECOND), "offline": offline} for number, one in enumerate(active_s)]
    return {"cluster": {"name": "c", "leader": leader, "replicas": followers}}


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"cluster": {"name": "c", "leader": "a"}},
        an_info("a", 0.3, 0.9),
        an_info("a", 0.3, 60),
        an_info("a", 0.3, 0.3, 60, 60),
    ],
    ids=["no cluster", "one copy", "all answer", "one of three is away", "two of five are away"],
)
def test_a_majority_that_answers_is_a_quorum(info: dict[str, object]) -> None:
    require_quorum("stream S", info)


@pytest.mark.parametrize(
    ("info", "cause"),
    [
        (an_info("a", 5, 5), "stream S lost its quorum: 1 of its 3 servers answer each other"),
        (an_info("a", 0.3, 5, 5, 5), "2 of its 5 servers"),
        (an_info("a", 0.3, 0.3, offline=True), "1 of its 3 servers"),
    ],
)
def test_a_leader_that_is_alone_has_lost_its_quorum(info: dict[str, object], cause: str) -> None:
    with pytest.raises(QuorumLost, match=cause):
        require_quorum("stream S", info)


def test_a_stream_that_any_member_tells_of_may_have_no_leader() -> None:
    with pytest.raises(NoLeader, match="stream S has no leader") as without:
        require_quorum("stream S", an_info("", 0.3, 0.3, 0.3))
    assert not isinstance(without.value, QuorumLost)
