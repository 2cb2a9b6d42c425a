"""Several instances' comparisons as one account."""

from typing import Any

from router.operate.admin.broadcast import InstanceAnswers
from router.policies.commands.try_ import _describe_empty
from router.policies.trial import combine_answers


def compared(
    at_ms: int, verdict: str, before: str = "left", after: str | None = "right"
) -> dict[str, Any]:
    choice = (
        {"provider": after, "reason": "weighted"}
        if after is not None
        else {"provider": None, "reason": "decision_failed"}
    )
    return {
        "at_ms": at_ms,
        "request_id": f"r-{at_ms}",
        "verdict": verdict,
        "before": {"provider": before, "reason": "weighted"},
        "after": choice,
    }


def an_answer(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "compared": list(rows)}


def test_of_all_instances_the_newest_count() -> None:
    one = an_answer(compared(40, "changed"), compared(10, "changed"))
    other = an_answer(compared(30, "unchanged"), compared(20, "unclear"))
    found = combine_answers([one, other], against=3, missing=1)
    assert [row["at_ms"] for row in found.changed] == [40]
    assert (found.unchanged, [row["at_ms"] for row in found.unclear], found.total) == (1, [20], 3)
    assert (found.instances, found.missing) == (3, 1)


def test_changes_are_counted_by_what_becomes_what_the_most_numerous_first() -> None:
    rows = [
        compared(1, "changed", after=None),
        compared(2, "changed"),
        compared(3, "changed"),
        compared(4, "unchanged"),
    ]
    assert list(combine_answers([an_answer(*rows)], against=10, missing=0).pairs.items()) == [
        (("left (weighted)", "right (weighted)"), 2),
        (("left (weighted)", "decision_failed"), 1),
    ]


def test_an_instance_that_was_counted_and_did_not_answer_is_missing() -> None:
    heard = InstanceAnswers()
    for _ in range(3):
        heard.on_ping("", "", b"{}", None)
    heard.on_answer("", "", b'{"ok": true}', None)
    heard.on_answer("", "", b'{"ok": false, "error": {"code": "decision_not_found"}}', None)
    assert (heard.missing, len(heard.successful), [error["code"] for error in heard.errors]) == (
        1,
        1,
        ["decision_not_found"],
    )


def test_no_router_is_told_to_record_what_is_no_tenant() -> None:
    assert "acme" in _describe_empty("acme", "default", is_recorded=False)
    assert "_shared" not in _describe_empty("_shared", "default", is_recorded=False)


def test_a_tenant_that_was_guessed_is_told_with_the_option_that_says_another() -> None:
    told = [
        _describe_empty("tmp", "default", is_recorded=recorded, is_guessed=True)
        for recorded in (True, False)
    ]
    assert all("tmp" in line and "--tenant" in line for line in told)
    assert "--tenant" not in _describe_empty("acme", "default", is_recorded=False)


def test_no_responders_is_no_answer() -> None:
    heard = InstanceAnswers()
    heard.on_answer("", "", b"", {"Status": "503"})
    heard.on_ping("", "", b"", {"Status": "503"})
    assert (heard.answers, heard.instances) == ([], 0)


def test_shares_and_expected_figures_stand_beside_todays() -> None:
    figures = {
        "expected_before": {"latency_ms": 100, "cost": 2.0},
        "expected_after": {"latency_ms": 50, "cost": 3.0},
    }
    rows = [
        compared(1, "changed") | figures,
        compared(2, "unchanged", after="left") | figures,
        compared(3, "changed", after=None),
    ]
    found = combine_answers([an_answer(*rows)], against=10, missing=0)
    assert [(one.provider, round(one.before, 2), round(one.after, 2)) for one in found.shares] == [
        ("left", 1.0, 0.33),
        ("right", 0.0, 0.33),
    ]
    assert found.expected == {
        "before": {"latency_ms": 100, "cost": 2.0},
        "after": {"latency_ms": 50, "cost": 3.0},
    }
