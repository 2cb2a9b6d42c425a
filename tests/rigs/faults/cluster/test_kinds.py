"""Every leader has its kinds, and a kind is found by its name."""

import pytest

from tests.rigs.faults.cluster.command import main
from tests.rigs.faults.cluster.kinds import FROM_END, KINDS

NAMES = [kind.name for kind in KINDS]


def test_no_two_kinds_have_one_name() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES) > FROM_END


@pytest.mark.parametrize(
    "leads", ["ROUTER_DECIDE", "KV_ROUTER_ATTEMPTS", "router-results", "caf-worker", "the cluster"]
)
def test_the_leader_of_each_group_is_killed_and_paused(leads: str) -> None:
    assert {f"leader of {leads} killed", f"leader of {leads} paused"} <= set(NAMES)


def test_the_command_lists_its_kinds_and_refuses_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--cluster", "3", "--list"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == NAMES
    with pytest.raises(SystemExit):
        main(["--cluster", "3", "--kinds", "meteor"])
    assert "no kind is called so: meteor" in capsys.readouterr().err
