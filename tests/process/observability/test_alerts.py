"""Alerts: each says what an operator needs, has its section in the runbook, and was seen to fire
and to be still.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import find_wrong_commands

DEPLOY = Path(__file__).parents[3] / "deploy"
HOME = DEPLOY / "prometheus"
RULES, TESTS = sorted((HOME / "rules").glob("*.yml")), sorted((HOME / "tests").glob("*.yml"))
RUNBOOK = (HOME.parents[1] / "docs" / "how-to" / "runbook.md").read_text()
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not on PATH (Debian: apt-get install prometheus)"
)


def alerts() -> list[dict[str, Any]]:
    read = [yaml.safe_load(file.read_text()) for file in RULES]
    return [
        rule
        for file in read
        for group in file["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]


def sections() -> dict[str, str]:
    """The runbook's, by their title."""
    parts = re.split(r"^#{2,3} (.*)$", RUNBOOK, flags=re.MULTILINE)[1:]
    return {
        title: text for title, text in zip(parts[::2], parts[1::2], strict=True) if text.strip()
    }


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_an_operator_needs(alert: dict[str, Any]) -> None:
    told = alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(told) == {"summary", "description", "runbook_url"}
    assert told["runbook_url"] == (
        f'{{{{ or $externalLabels.runbooks "docs/how-to" }}}}/runbook.md#{alert["alert"].lower()}'
    )
    assert "{{" in told["description"], "whose it is, or how much"
    assert (
        "for" in alert
        or "increase" in alert["expr"]
        or "delta" in alert["expr"]
        or "parked" in alert["expr"]
    ), "for how long?"


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(names) == len(set(names))
    assert sorted(names) == sorted(sections())


@pytest.mark.parametrize("title", sections())
def test_a_section_says_what_it_means_where_to_look_what_to_do_and_when_to_stop(title: str) -> None:
    asked = re.findall(r"^- \*\*(.*?)\*\*", sections()[title], flags=re.MULTILINE)
    assert asked == ["Means", "Look", "Do", "Stop worrying"]


def test_every_command_of_the_runbook_can_be_typed() -> None:
    assert find_wrong_commands(RUNBOOK) == []
    typed = re.findall(r"^router [^#\n]*", RUNBOOK, flags=re.MULTILINE)
    assert find_wrong_commands("\n".join(f"`{one.strip()}`" for one in typed)) == []
    assert len(typed) >= 2


def test_every_alert_is_seen_to_fire_and_to_be_still() -> None:
    fired, still = set(), 0
    for file in TESTS:
        for test in yaml.safe_load(file.read_text())["tests"]:
            for one in test["promql_expr_test"]:
                fired |= set(
                    re.findall(
                        r'alertname="(\w+)"',
                        one["expr"] + "".join(s.get("labels", "") for s in one["exp_samples"]),
                    )
                )
                still += not one["exp_samples"]
    assert fired == {alert["alert"] for alert in alerts()}
    assert still >= len(RULES) - 1


@needs_promtool
def test_promtool_takes_the_configuration_and_the_rules() -> None:
    checked = promtool("check", "config", str(HOME / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_promtool
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_promtool_sees_the_alerts_fire_and_be_still(file: Path) -> None:
    tested = promtool("test", "rules", str(file))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert PROMTOOL is not None
    return subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=50, check=False
    )
