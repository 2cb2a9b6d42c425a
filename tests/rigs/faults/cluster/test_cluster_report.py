"""Runs on a cluster as one page: a line for each kind, each run with its verdict."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from tests.rigs.faults.cluster.acks import Loss
from tests.rigs.faults.cluster.recovery import Cost
from tests.rigs.faults.cluster.report import ClusterReport, page, tables
from tests.rigs.faults.ledger import Ledger, Row


def a_cost(
    kind: str,
    well_s: float | None = 2.0,
    *,
    stuck: int = 0,
    unanswered: int = 0,
    gap_s: float = 4.0,
    after_election_s: float | None = None,
) -> Cost:
    return Cost(
        kind,
        10.0,
        100,
        0,
        0,
        stuck,
        unanswered,
        0,
        3,
        gap_s,
        5.0,
        1.5,
        well_s,
        3.0,
        0.0,
        gap_after_election_s=after_election_s,
    )


def a_report(
    *costs: Cost, lost: tuple[str, ...] = (), deaths: int = 0, is_quiet: bool = True
) -> ClusterReport:
    machine = {
        "date": "today",
        "command": "python -m tests.rigs.faults --cluster 3",
        "CPU": "two cores",
    }
    ledger = Ledger((Row("metered", 100, 100 - len(lost), lost, (), ()),), (), {}, 110)
    return ClusterReport(
        machine, 7, 20.0, 3, is_quiet, list(costs), ["no quorum"], ledger, {"router-1": deaths}
    )


def test_runs_are_added_up_by_kind() -> None:
    table = tables(
        [
            a_report(a_cost("paused", 2.0)),
            a_report(a_cost("paused", 6.0), a_cost("no quorum", None, stuck=1)),
        ]
    )
    assert (
        "| paused | 2 | 200 | 0 | 0 | 0 | 0 | (6) | 0 | 4.00 | – | 5.00 | 1.50 / 1.50 | "
        "2.00 / 6.00 | 3.00 / 3.00 | – | 0.00 / 0.00 |"
    ) in table
    assert (
        "| no quorum * | 1 | 100 | 0 | 0 | 1 | 0 | (3) | 0 | 4.00 | – | 5.00 | 1.50 / 1.50 "
        "| never / never |"
    ) in table
    assert "| all | 3 | 300 | 0 | 0 | 1 | 0 | (9) | 0 |" in table


def test_the_longest_gap_is_told_with_its_own_part_after_the_election() -> None:
    paused = [
        a_cost("paused", gap_s=gap_s, after_election_s=after_s)
        for gap_s, after_s in ((4.0, 2.5), (7.0, 0.3))
    ]
    assert "| (6) | 0 | 7.00 | 0.30 | 5.00 |" in tables([a_report(*paused)])


def test_a_run_is_clean_if_nothing_is_lost_stuck_or_unanswered_and_no_process_ended() -> None:
    assert a_report(a_cost("paused")).is_clean
    assert not a_report(a_cost("paused", stuck=1)).is_clean
    assert not a_report(a_cost("paused", unanswered=1)).is_clean
    assert not a_report(a_cost("paused"), lost=("f-1",)).is_clean
    assert not a_report(a_cost("paused"), deaths=1).is_clean
    assert not a_report(a_cost("paused"), is_quiet=False).is_clean


def test_a_page_tells_machine_commands_and_the_control() -> None:
    text = page(
        [a_report(a_cost("paused"))],
        [a_report(a_cost("wiped"), lost=("f-1",))],
        note="Measured beside other work.",
    )
    assert "- CPU: two cores" in text
    assert (
        "- today: `python -m tests.rigs.faults --cluster 3`. Seed 7, 3 copies, 1 faults at "
        "20 requests a second: clean."
    ) in text
    assert "Measured beside other work." in text
    assert "NOT CLEAN" in text.partition("## The control")[2]


def test_a_run_tells_by_how_much_the_suite_itself_was_late() -> None:
    assert replace(a_report(a_cost("paused")), late_s=0.351).verdict.endswith(
        "clean. The suite itself, which all routes pass, was up to 0.35 s late (99 %)."
    )
    assert "late" not in a_report(a_cost("paused")).verdict


def test_a_loss_is_told_with_its_publish_acks() -> None:
    lost = Loss("f-7", "metered", [0.1, 5.2], [5.3], [-12], ["f-8"])
    assert (
        "- f-7, metered: published 0.100, 5.200; acknowledged 5.300 as sequence -12, which "
        "holds f-8"
    ) in tables([replace(a_report(a_cost("paused"), lost=("f-7",)), losses=[lost])])


def test_a_kept_report_is_read_again(tmp_path: Path) -> None:
    """What never ends has no number in JSON."""
    file = tmp_path / "run.json"
    file.write_bytes(msgspec.json.encode(a_report(a_cost("paused", None))))
    assert msgspec.json.decode(file.read_bytes(), type=ClusterReport) == a_report(
        a_cost("paused", None)
    )
