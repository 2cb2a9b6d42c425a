"""What is learned of providers, put together of several instances' answers and printed."""

from typing import Any

import pytest

from router.decide.views import print_decision_record
from router.policies.views import PROVIDERS, merge_stats
from tests.support.cli import table_words

FIGURES = {
    "samples": 9,
    "in_flight": 2,
    "chosen": 3,
    "success_rate": 1.0,
    "is_failing": False,
    "errors": {},
}
ROW = {"tenant_id": "acme", "provider_id": "a", **FIGURES}
KNOWN = {
    "share": 0.25,
    "p50_latency_ms": 90.0,
    "p95_latency_ms": 120.0,
    "cost": 0.01,
    "recent_success_rate": 0.5,
    "score": 300.0,
    "silent_s": 4.2,
    "is_failing": True,
    "errors": {"provider": 7, "request": 0, "rate_limit": 2, "cancelled": 0},
}


def test_of_two_answers_the_one_that_knows_more_results_counts() -> None:
    one, other = ROW | {"samples": 8}, ROW | {"provider_id": "b"}
    assert merge_stats([{"providers": [one, other]}, {"providers": [ROW]}]) == [ROW, other]


def test_a_row_leaves_out_what_is_not_known_yet() -> None:
    unknown = ["acme", "a", None, 2, None, None, "100.0%", None, None, 9, None, None]
    assert PROVIDERS.list_cells(ROW) == unknown
    shown = (
        "25.0%",
        2,
        "90 ms",
        "120 ms",
        "50.0%",
        "0.01",
        "300",
        9,
        "4 s ago",
        "fails, 7 provider, 2 rate_limit",
    )
    assert PROVIDERS.list_cells({**ROW, **KNOWN}) == ["acme", "a", *shown]


def test_an_explained_decision_shows_what_was_learned_and_the_candidates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {
        "samples": 9,
        "in_flight": 2,
        "latency_ms": 90.0,
        "success_rate": 1.0,
        "score": 270.0,
        "cost": None,
        "p95_latency_ms": None,
    }
    trace = [{"stage": "candidate", "subject": "a", "verdict": "score 270"}]
    answer = {"decision": {"provider_id": "a", "reason": "least_latency"}}
    record: dict[str, Any] = {
        "at_ms": 1,
        "request": {"answer_id": "r-1", "tenant_id": "acme", "message_type": "chat"},
        "policy": {"tenant_id": "acme", "policy_id": "default", "version": 1},
        "states": {},
        "figures": {
            "a": figures,
            "b": {**figures, "score": None, "latency_ms": None, "cost": 0.5, "p95_latency_ms": 7.0},
        },
        "reevaluation": {**answer, "is_same": True, "trace": trace},
        **answer,
    }
    print_decision_record(record)
    assert {"learned", "270", "candidate", "least_latency", "0.5"} <= set(
        table_words(capsys.readouterr().out.replace("(", " ").replace(")", " "))
    )
