"""`router policy canary`: what is wrong use, before a server is asked."""

from pathlib import Path

import pytest

from tests.support.cli import call_command
from tests.support.policy_buckets import a_policy_of


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--guard", "error_rate<=0.5x", "error_rate<=1.2x or p95_latency<=1.2x"),
        ("--guard", "cost<=1.2x", "error_rate<=1.2x or p95_latency<=1.2x"),
        ("--for", "31d", "at most 30d"),
        ("--for", "soon", "at most 30d"),
        ("--share", "60", "--share"),
        ("--min-results", "0", "--min-results"),
    ],
)
def test_wrong_use_says_what_is_legal(tmp_path: Path, option: str, value: str, says: str) -> None:
    file = tmp_path / "candidate.json"
    file.write_bytes(a_policy_of("b"))
    told = call_command("policy", "canary", "start", "acme", "default", str(file), option, value)
    assert told.status == 2
    assert says in " ".join(told.err.replace("│", " ").split())


def test_a_figure_is_guarded_once(tmp_path: Path) -> None:
    file = tmp_path / "candidate.json"
    file.write_bytes(a_policy_of("b"))
    guards = ("--guard", "error_rate<=1.2x", "--guard", "error_rate<=2x")
    told = call_command("policy", "canary", "start", "acme", "default", str(file), *guards)
    assert (told.status, "names a figure twice" in told.err) == (2, True)


def test_a_document_that_is_no_policy_is_refused_with_the_place_of_each_mistake(
    tmp_path: Path,
) -> None:
    file = tmp_path / "candidate.json"
    file.write_text('{"providers": [{"name": "a", "weight": 700}]}')
    told = call_command("policy", "canary", "start", "acme", "default", str(file))
    assert (told.status, "providers[0].weight" in told.err) == (1, True)
