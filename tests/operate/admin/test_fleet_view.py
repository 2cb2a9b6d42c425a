"""Lines of several nodes put together: what adds up, what is the worst, and what a node has to
tell.
"""

from router.extensions.instances import merge, merge_breakers, merge_health, node_ids

QUIET = {
    **{
        "extension_id": "guard",
        "status": "healthy",
        "success_rate": 1.0,
        "success_count": 0,
        "failure_count": 0,
        "avg_latency_ms": 0.0,
    },
    **{
        "p50_latency_ms": 0.0,
        "p95_latency_ms": 0.0,
        "p99_latency_ms": 0.0,
        "latency_samples": 0,
        "updated_at": 5,
    },
    "circuit_breaker_state": "closed",
}
BUSY = {
    **QUIET,
    "success_count": 6,
    "latency_samples": 6,
    "avg_latency_ms": 10.0,
    "p50_latency_ms": 9.0,
    "updated_at": 7,
    "last_success": 7,
}
BAD = {
    **{
        **QUIET,
        "status": "unhealthy",
        "success_rate": 0.5,
        "success_count": 1,
        "failure_count": 1,
        "latency_samples": 2,
    },
    **{"avg_latency_ms": 30.0, "p50_latency_ms": 40.0, "updated_at": 6, "last_failure": 6},
    **{"circuit_breaker_state": "open", "circuit_breaker_opened_at_ms": 3},
}


def test_one_node_is_told_as_it_is() -> None:
    assert merge_health([("a", BUSY)]) == {**BUSY, "nodes": {"a": _of_a_node(BUSY)}}


def test_calls_add_up_percentiles_are_the_highest_and_the_breaker_is_the_worst() -> None:
    merged = merge_health([("a", BUSY), ("b", BAD), ("c", QUIET)])
    assert (merged["success_count"], merged["failure_count"], merged["latency_samples"]) == (
        7,
        1,
        8,
    )
    assert (merged["success_rate"], merged["status"]) == (7 / 8, "degraded")
    assert (merged["avg_latency_ms"], merged["p50_latency_ms"], merged["updated_at"]) == (
        15.0,
        40.0,
        7,
    )
    assert (merged["last_success"], merged["last_failure"]) == (7, 6)
    assert (merged["circuit_breaker_state"], merged["circuit_breaker_opened_at_ms"]) == ("open", 3)
    assert merged["nodes"] == {"a": _of_a_node(BUSY), "b": _of_a_node(BAD)}


def test_without_calls_nothing_is_invented() -> None:
    assert merge_health([("a", QUIET), ("b", QUIET)]) == {**QUIET, "nodes": {}}


def test_a_breaker_is_in_its_worst_state_since_its_first_opening() -> None:
    closed = {"extension_id": "guard", "state": "closed", "failure_count": 0, "error_rate": 0.0}
    half = {**closed, "state": "half_open", "opened_at_ms": 1, "failure_count": 9}
    late, early = (
        {**closed, "state": "open", "opened_at_ms": at, "failure_count": 5, "error_rate": 0.5}
        for at in (8, 6)
    )
    merged = merge_breakers([("a", closed), ("b", late), ("c", early), ("d", half)])
    assert (
        merged["state"],
        merged["opened_at_ms"],
        merged["failure_count"],
        merged["error_rate"],
    ) == ("open", 6, 9, 0.5)
    assert set(merged["nodes"]) == {"b", "c", "d"}  # type: ignore[call-overload]
    assert merge_breakers([("a", closed)]) == {**closed, "nodes": {}}


def test_instances_of_one_name_are_told_apart() -> None:
    assert node_ids([{"router_node_id": name} for name in ("a", "b", "a", "a")]) == [
        "a",
        "b",
        "a#2",
        "a#3",
    ]


def test_what_another_version_writes_otherwise_counts_as_absent() -> None:
    assert (
        merge(
            [{"router_node_id": "a", "health": 7}, {"health": {"guard": None}}],
            "health",
            merge_health,
        )
        == {}
    )


def _of_a_node(line: dict[str, object]) -> dict[str, object]:
    names = (
        "status",
        "success_count",
        "failure_count",
        "p95_latency_ms",
        "last_success",
        "circuit_breaker_state",
    )
    return {name: line[name] for name in names if name in line}
