"""What operators look at is there: each metric and label of dashboards, rules and the runbook
stands in a live scrape.
"""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.promql import histogram_of, read_query
from tests.support.scraping import Series

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
PROMETHEUS_ADDS = {"instance", "job", "le"}
PROMETHEUS_MAKES = {
    "up": PROMETHEUS_ADDS,
    "scrape_duration_seconds": PROMETHEUS_ADDS,
    "ALERTS": {"alertname", "alertstate", "severity"},
}


def rules() -> Iterator[dict[str, Any]]:
    for file in RULES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from group["rules"]


def panels(file: Path) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(file.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and what is asked there."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for file in DASHBOARDS:
        for panel in panels(file):
            for target in panel["targets"]:
                yield f"{file.stem}: {panel['title']}", target["expr"]


RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def labels_of(metric: str, live: Series) -> set[str] | None:
    """None: there is no such metric."""
    if metric in PROMETHEUS_MAKES:
        return PROMETHEUS_MAKES[metric]
    if metric in RECORDED:
        return {label for one in read_query(RECORDED[metric]) for label in one.grouped} - {"le"}
    if metric not in live and histogram_of(metric) not in live:
        return None
    return {label for labels in live.get(metric, []) for label in labels} | PROMETHEUS_ADDS


@pytest.mark.parametrize(("where", "expr"), [*expressions()])
def test_every_metric_and_label_that_is_asked_for_stands_in_a_live_scrape(
    where: str, expr: str, live: Series
) -> None:
    found = list(read_query(expr))
    assert found, f"{where} names no metric: {expr}"
    for one in found:
        labels = labels_of(one.metric, live)
        assert labels is not None, f"{where}: {one.metric} is in no scrape"
        assert one.labels <= labels, f"{where}: {one.metric} has no {one.labels - labels}"
        assert any(one.grouped <= (labels_of(other.metric, live) or set()) for other in found), (
            f"{where}: nothing has all of {one.grouped}"
        )


def test_every_metric_of_the_runbook_stands_in_a_live_scrape(live: Series) -> None:
    named = set(
        re.findall(
            r"`((?:router|process)_\w+)",
            (DEPLOY.parent / "docs" / "how-to" / "runbook.md").read_text(),
        )
    )
    assert named
    assert {name for name in named if labels_of(name, live) is None} == set()


def test_every_metric_of_ours_is_on_a_dashboard(live: Series) -> None:
    """A metric that no panel shows is not worth counting."""
    shown = {histogram_of(one.metric) for _, expr in expressions() for one in read_query(expr)}
    ours = {histogram_of(name) for name in live if name.startswith("router_")}
    assert ours - shown == set()


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_says_all_that_a_reader_needs(file: Path) -> None:
    board = json.loads(file.read_text())
    assert board["uid"] == file.stem
    assert board["panels"][0]["title"] == "The four golden signals"
    assert {one["name"]: one["type"] for one in board["templating"]["list"]} == {
        "datasource": "datasource",
        "instance": "query",
    }
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels(file):
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_no_panel_lies_over_another(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(file.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


def test_the_dashboards_are_what_their_source_makes() -> None:
    made = runpy.run_path(str(DEPLOY / "grafana" / "make.py"))["made"]()
    assert {file.name: file.read_text() for file in DASHBOARDS} == made, (
        "run `python deploy/grafana/make.py`"
    )


def test_the_provisioning_names_what_is_there() -> None:
    home = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((home / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((home / "dashboards" / "router.yml").read_text())["providers"]
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["global"][
        "scrape_interval"
    ]
    assert (source["type"], source["jsonData"]["timeInterval"]) == ("prometheus", scraped)
    assert provider["options"]["path"].endswith("/dashboards")
