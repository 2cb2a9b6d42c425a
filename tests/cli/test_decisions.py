"""`router decisions explain` and `router policy try`, as processes."""

import json
from pathlib import Path

import pytest

from tests.support.cli import call_command, table_words
from tests.support.policy import a_document, a_provider
from tests.support.requests import a_body


def a_candidate(tmp_path: Path, *providers: dict[str, object], **sections: object) -> str:
    path = tmp_path / "acme" / "default.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(a_document(*providers, **sections)))
    return str(path)


def a_request_file(tmp_path: Path, body: object) -> str:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(body))
    return str(path)


def test_one_request_is_decided_here_with_its_trace(tmp_path: Path) -> None:
    request = a_request_file(tmp_path, a_body())
    told = call_command(
        "policy", "try", a_candidate(tmp_path, a_provider("left")), "--request", request
    )
    assert told.status == 0
    assert {"eligible", "weighted", "left", "chosen"} <= set(table_words(told.out))
    listed = call_command(
        "policy", "try", a_candidate(tmp_path, a_provider("left")), "--request", request, "--json"
    ).json
    assert listed["decision"]["provider_id"] == "left"
    assert [step["stage"] for step in listed["trace"]] == ["eligible", "weighted"]


def test_one_request_that_is_refused_is_a_no(tmp_path: Path) -> None:
    body = {**a_body(), "constraints": {"max_cost": 0.001}}
    candidate = a_candidate(tmp_path, a_provider("left", expected_cost=1.0))
    told = call_command(
        "policy", "try", candidate, "--request", a_request_file(tmp_path, body), "--json"
    )
    assert (told.status, told.json["error"]["code"]) == (1, "decision_failed")


def test_a_request_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    told = call_command(
        "policy",
        "try",
        a_candidate(tmp_path),
        "--request",
        a_request_file(tmp_path, {"message": {"message_type": "chat"}}),
    )
    assert told.status == 2
    assert "tenant_id" in told.err


def test_a_candidate_that_is_no_policy_is_refused_with_its_paths_before_a_router_is_asked(
    tmp_path: Path,
) -> None:
    told = call_command(
        "policy",
        "try",
        a_candidate(tmp_path, a_provider("left", 500), tricky=1),
        "--against",
        "5",
        "--nats-url",
        "nats://unreachable:1",
    )
    assert told.status == 1
    assert "providers[0].weight" in told.err
    assert "tricky" in told.err


@pytest.mark.parametrize("options", [(), ("--against", "5", "--request", "x")])
def test_try_wants_either_recorded_decisions_or_a_request(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    given = [option if option != "x" else a_request_file(tmp_path, a_body()) for option in options]
    assert call_command("policy", "try", a_candidate(tmp_path), *given).status == 2


def test_where_no_router_answers_the_status_is_3(nats_url: str, tmp_path: Path) -> None:
    told = call_command("decisions", "explain", "r-1", "--tenant", "acme", "--nats-url", nats_url)
    assert (told.status, told.out) == (3, "")
    assert "no router answered" in told.err
    assert (
        call_command(
            "policy", "try", a_candidate(tmp_path), "--against", "5", "--nats-url", nats_url
        ).status
        == 3
    )


@pytest.mark.parametrize(
    "wrong", [("two words", "--tenant", "acme"), ("r-1", "--tenant", "_shared"), ("r-1",)]
)
def test_a_wrong_id_is_wrong_use(wrong: tuple[str, ...]) -> None:
    assert call_command("decisions", "explain", *wrong).status == 2
