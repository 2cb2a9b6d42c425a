"""A few of the hostile messages that `make fuzz` sends by the million: nothing raises, no process
grows, no ingest stops.
"""

import random

import pytest

from tests.rigs.fuzz import hostile_run
from tests.rigs.fuzz.contracts import CONTRACTS, Contract, Sent
from tests.rigs.fuzz.feeding import Broken, read_any_json
from tests.rigs.fuzz.hostile_run import LAKE, Row, feed, feed_contract, main
from tests.rigs.fuzz.lake import take_hostile_events


@pytest.mark.parametrize("name", CONTRACTS)
def test_hostile_messages_of_a_contract_are_refused_or_taken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # time is looked at by `make fuzz`: a machine under test is busy
    monkeypatch.setattr(hostile_run, "SLOWEST_S", 2.0)
    row = feed_contract(name, 60, seed=3)
    assert row.inputs == 60
    assert row.refused < 60


def test_hostile_usage_events_stop_no_ingest_and_the_tables_add_up() -> None:
    """UL-2, UL-9: in two micro-batches."""
    taken = take_hostile_events(300, seed=3, batch=150)
    assert taken.quarantined > 50
    assert taken.accepted > 100


def test_what_was_sent_may_hold_numbers_that_no_double_holds_and_no_nan() -> None:
    assert read_any_json(b'{"a":-1e999,"b":' + b"9" * 5_000 + b"}") == {
        "a": "-1e999",
        "b": "9" * 5_000,
    }
    with pytest.raises(ValueError, match="NaN is no JSON"):
        read_any_json(b'{"a":NaN}')


def _one(serve: object, check: object = lambda: None) -> Contract:
    return Contract((Sent(b'{"a":"b"}'),), lambda: (serve, check))  # type: ignore[arg-type, return-value]


def test_a_handler_that_raises_is_found_and_its_input_is_shown() -> None:
    def serve(data: bytes, _: object) -> bool:
        return bool(1 / (len(data) < 100))

    with pytest.raises(Broken, match=r"weak: ZeroDivisionError.* for data="):
        feed("weak", _one(serve), 500, seed=1)


def test_a_handler_that_keeps_what_it_is_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps far more than earlier tests of this process may have left free for it."""
    kept: list[bytes] = []
    monkeypatch.setattr(hostile_run, "GROWN_MIB", 8.0)
    with pytest.raises(Broken, match="memory grew by"):
        feed("hoarder", _one(lambda *_: kept.append(b"x" * (1 << 20)) or True), 400, seed=1)


def test_a_handler_that_is_slow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_run, "SLOWEST_S", 1e-6)
    with pytest.raises(Broken, match="ms for data"):
        feed("slow", _one(lambda *_: sum(range(20_000))), 5, seed=1)


def test_the_command_prints_a_row_for_each_contract_and_writes_its_page(
    capsys: pytest.CaptureFixture[str], tmp_path
) -> None:  # type: ignore[no-untyped-def]
    page = tmp_path / "page.md"
    assert main(["--inputs", "20", "--jobs", "0", "--only", "heartbeat", "--write", str(page)]) == 0
    assert "| heartbeat | 20 |" in capsys.readouterr().out
    assert "| heartbeat | 20 |" in page.read_text()
    assert main(["--only", "nothing has this name"]) == 1


def test_the_same_seed_gives_the_same_inputs() -> None:
    rows = [hostile_run._input(CONTRACTS["result, JSON"], random.Random(7)) for _ in range(2)]
    assert rows[0] == rows[1]
    assert isinstance(feed_contract("result, JSON", 20, seed=1), Row)
    assert LAKE not in CONTRACTS
