"""Tables against one another: whatever is lost, doubled or changed is found, and named."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from router.lake.reconcile import ReconcileCheck, Reconciliation, reconcile
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_accounts import DAY, Rows, an_account, body, tables_of
from tests.support.lake_jobs import Lake, a_body

COSTS = ("0.25", "1e-9", "12.0", "0.30000000000000004", "0.0000000015")
KEPT = ("0.25", "0.000000001", "12", "0.300000000", "0.000000002")


def ten() -> dict[str, Rows]:
    costs, kept = COSTS * 2, KEPT * 2
    return tables_of([body(seq, cost=cost) for seq, cost in enumerate(costs, 1)], kept)


def check(account: Reconciliation, name: str) -> ReconcileCheck:
    return next(one for one in account.checks if one.name == name)


def test_tables_that_add_up_agree(tmp_path: Path) -> None:
    account = reconcile(IN_PROCESS, an_account(tmp_path, ten()))
    assert account.is_right
    assert {one.name: one.verdict for one in account.checks} == {
        "stream = bronze": "skipped", "sequences": "ok", "bronze = its parts": "ok", "cost: bronze = silver": "ok",
        "identities in silver": "ok",
        "silver = gold_minute": "ok", "silver = gold_hour": "ok", "silver = gold_day": "ok", "results acked = usage": "skipped",
        "budgets settled = silver": "skipped",
    }  # fmt: skip
    assert check(account, "cost: bronze = silver").figures["silver"] == "25.100000006"


def test_duplicates_conflicts_and_malformed_are_parts_of_bronze(tmp_path: Path) -> None:
    tables = ten()
    for table, seq in (("duplicates", 3), ("conflicts", 5), ("quarantine", 8)):
        tables[table] = [{"seq": seq}]
        for counted in ("silver", "gold_minute", "gold_hour", "gold_day"):
            tables[counted] = [row for row in tables[counted] if row["seq"] != seq]
    assert reconcile(IN_PROCESS, an_account(tmp_path, tables)).is_right


def test_a_sequence_that_is_not_in_bronze_is_named(tmp_path: Path) -> None:
    """UL-9."""
    tables = ten()
    tables["bronze"] = [row for row in tables["bronze"] if row["seq"] not in (4, 5, 8)]
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert not account.is_right
    assert list(check(account, "sequences").ids) == ["4-5", "8"]
    assert list(check(account, "bronze = its parts").ids) == ["4-5", "8"]


def test_a_message_twice_in_bronze_is_named(tmp_path: Path) -> None:
    tables = ten()
    tables["bronze"].append(tables["bronze"][6])
    assert list(check(reconcile(IN_PROCESS, an_account(tmp_path, tables)), "sequences").ids) == [
        "7"
    ]


def test_an_event_that_never_came_to_silver_is_named(tmp_path: Path) -> None:
    tables = ten()
    del tables["silver"][2]
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert list(check(account, "bronze = its parts").ids) == ["3"]
    assert list(check(account, "silver = gold_day").ids) == ["2026-11-20/acme/openai/chat/success"]


def test_an_event_that_counts_and_is_a_duplicate_as_well_is_named(tmp_path: Path) -> None:
    tables = ten()
    tables["duplicates"] = [{"seq": 9}]
    assert list(
        check(reconcile(IN_PROCESS, an_account(tmp_path, tables)), "bronze = its parts").ids
    ) == ["9"]


def test_one_lost_and_another_doubled_are_both_named_though_the_counts_agree(
    tmp_path: Path,
) -> None:
    """UL-9."""
    tables = ten()
    del tables["silver"][2]
    tables["duplicates"] = [{"seq": 9}]
    assert list(
        check(reconcile(IN_PROCESS, an_account(tmp_path, tables)), "bronze = its parts").ids
    ) == ["3", "9"]


@pytest.mark.parametrize("off", ["0.000000001", "-0.000000001"])
def test_a_cost_that_is_off_in_the_last_place_is_named(tmp_path: Path, off: str) -> None:
    """UL-7, UL-9."""
    tables = ten()
    tables["silver"][3] = {
        **tables["silver"][3],
        "cost": Decimal(str(tables["silver"][3]["cost"])) + Decimal(off),
    }
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert list(check(account, "cost: bronze = silver").ids) == ["4"]
    assert not check(account, "silver = gold_minute").is_right


def test_a_cost_is_read_from_its_own_field_alone(tmp_path: Path) -> None:
    odd = [
        body(1, metadata={"cost": 7.5}, cost="0.25"),
        body(2, metadata={"cost": 7.5}).replace(
            b'"tenant_id"', b'"metadata":{"cost":7.5},"tenant_id"', 1
        ),
        body(3, event_type='say "cost":9.0', cost="0.25"),
    ]
    assert reconcile(IN_PROCESS, an_account(tmp_path, tables_of(odd, ["0.25"] * 3))).is_right


@pytest.mark.parametrize("table", ["gold_minute", "gold_hour", "gold_day"])
def test_gold_that_lost_a_row_or_has_one_twice_is_found(tmp_path: Path, table: str) -> None:
    """UL-9."""
    for number, change in enumerate((lambda rows: rows[1:], lambda rows: [*rows, rows[0]])):
        tables = ten()
        tables[table] = change(tables[table])
        account = reconcile(IN_PROCESS, an_account(tmp_path / str(number), tables))
        assert [one.name for one in account.checks if one.is_right is False] == [
            f"silver = {table}"
        ]


def test_an_empty_warehouse_agrees(tmp_path: Path) -> None:
    assert reconcile(IN_PROCESS, an_account(tmp_path, tables_of([], []))).is_right


@pytest.mark.parametrize("table", ["gold_minute", "gold_hour", "gold_day"])
def test_gold_with_another_row_s_percentiles_is_found(tmp_path: Path, table: str) -> None:
    tables = ten()
    tables[table][2] = {**tables[table][2], "histogram": tables[table][7]["histogram"]}
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert [one.name for one in account.checks if one.is_right is False] == [f"silver = {table}"]


DEAR = "99900000000000000000000000000.0"


@pytest.mark.parametrize("table", ["gold_minute", "gold_hour", "gold_day"])
def test_a_sum_that_wrapped_in_gold_is_found(tmp_path: Path, table: str) -> None:
    """UL-9: what is checked is added up by other means than those that made it, so they do not wrap
    together.
    """
    tables = tables_of([body(seq, cost=DEAR) for seq in (1, 2, 3)], [DEAR] * 3)
    wrapped = Decimal("-40582366920938463463374607431.768211456")  # as Arrow adds these three
    tables[table] = [
        {
            **tables[table][0],
            "count": 3,
            "cost": wrapped,
            "latency_sum": 60,
            "histogram": _all_buckets(tables[table]),
        }
    ]
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert [one.name for one in account.checks if one.is_right is False] == [f"silver = {table}"]


def test_totals_of_any_number_of_digits_are_exact(tmp_path: Path) -> None:
    tables = tables_of(
        [body(seq, cost=DEAR) for seq in (1, 2)] + [body(3, cost="0.000000001")],
        [DEAR, DEAR, "0.000000001"],
    )
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert account.is_right
    total = "199800000000000000000000000000.000000001"
    assert (
        check(account, "cost: bronze = silver").figures["bronze"]
        == check(account, "cost: bronze = silver").figures["silver"]
        == total
    )
    assert (
        check(account, "silver = gold_day").figures["cost"]
        == check(account, "silver = gold_minute").figures["cost"]
        == total
    )


def test_latencies_that_no_column_can_hold_together_are_compared(tmp_path: Path) -> None:
    tables = tables_of([body(seq, latency_ms=2**62) for seq in (1, 2)], ["0.25"] * 2)
    assert reconcile(IN_PROCESS, an_account(tmp_path / "right", tables)).is_right
    # the same, modulo 2^64 and with the other
    tables["gold_day"][0] = {**tables["gold_day"][0], "latency_sum": -(2**62)}
    assert not check(
        reconcile(IN_PROCESS, an_account(tmp_path / "wrong", tables)), "silver = gold_day"
    ).is_right


COSTS_WITH_MANY_PLACES = (
    "5.0e-324",
    "0." + "4" * 60,
    "1e-41",
    "0.1" + "0" * 30,
    "2.5e1",
    "25E-1",
    "1.000000000500000000000000000000000000000001",
)


def test_an_event_that_counts_twice_under_two_sequences_is_named(tmp_path: Path) -> None:
    """UL-9: gold and silver agree, and so do bronze and its parts."""
    tables = ten()
    same = {name: tables["silver"][1][name] for name in ("event_id", "id_high", "id_low")}
    tables["silver"][4] |= same
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert [one.name for one in account.checks if one.is_right is False] == ["identities in silver"]
    assert check(account, "identities in silver").ids == [same["event_id"]]


def test_an_event_that_is_looked_up_by_another_one_s_numbers_is_named(tmp_path: Path) -> None:
    tables = ten()
    tables["silver"][4]["id_high"] = 7
    account = reconcile(IN_PROCESS, an_account(tmp_path, tables))
    assert check(account, "identities in silver").figures["misplaced"] == 1


def test_an_event_in_the_window_of_another_day_is_named(tmp_path: Path) -> None:
    """UL-9: the sums of all days together agree."""
    tables = ten()
    tables["gold_day"][3] = {**tables["gold_day"][3], "window_start": DAY + timedelta(days=1)}
    assert not check(
        reconcile(IN_PROCESS, an_account(tmp_path, tables)), "silver = gold_day"
    ).is_right


def test_messages_that_are_no_text_and_costs_that_no_column_holds_are_compared(lake: Lake) -> None:
    lake.take(
        b'\xff"cost":2.0}',
        b'{"cost":99999999999999999e19}',
        b'{"cost":"1"}',
        a_body("r-1", cost="1.5"),
    )
    assert reconcile(IN_PROCESS, lake.warehouse).is_right


def test_costs_of_any_number_of_places_are_read(tmp_path: Path) -> None:
    kept = ("0", "0.444444444", "0", "0.1", "25", "2.5", "1.000000001")
    tables = tables_of(
        [body(seq, cost=cost) for seq, cost in enumerate(COSTS_WITH_MANY_PLACES, 1)], kept
    )
    assert reconcile(IN_PROCESS, an_account(tmp_path, tables)).is_right


def _all_buckets(rows: Rows) -> list[tuple[int, int]]:
    return [pair for row in rows for pair in row["histogram"]]  # type: ignore[attr-defined]
