"""What the pages say of names, keys and defaults is what the code has."""

import re
from pathlib import Path

import pytest

from router.bus.metrics import BusMetrics
from router.config import Settings
from router.config.names import NAMES
from router.contracts.header_rules import describe
from router.core.setting_values import list_settings
from router.extensions.model import entry
from router.policies.model.fields import PolicyError
from router.policies.model.parse import parse_policy
from router.process.observability import Metrics, events
from router.process.observability.metrics import ParentMetrics
from tests.docs.pages import TOP, find_pages, relative_name

DOCS = TOP / "docs"
REFERENCE = DOCS / "reference"
SETTINGS = {setting.name for setting in list_settings(Settings())}
SECTIONS_OF_SETTINGS = {name.rpartition(".")[0] for name in SETTINGS}
EVENTS = {value for value in vars(events).values() if isinstance(value, str)}
GROUPS = {name.partition(".")[0] for name in SETTINGS if "." in name}


def read_rows(page: str, anchor: str) -> dict[str, tuple[str, ...]]:
    """The first table behind an anchor: its first cell without marks -> the other cells."""
    text = (REFERENCE / page).read_text().partition(f'<a id="{anchor}"></a>')[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    lines = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for line in table[0].splitlines()[2:]
    ]
    return {re.sub(r"<a id=.*?</a>|`", "", first): tuple(rest) for first, *rest in lines}


def list_metrics() -> set[str]:
    return {
        family.name
        for made in (Metrics(), ParentMetrics(), BusMetrics())
        for family in made.registry.snapshot()
    }


@pytest.mark.parametrize("page", find_pages(DOCS), ids=relative_name)
def test_a_setting_or_a_metric_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    if page.name == "messages.md":
        text = re.sub(r"^\| .*", "", text, flags=re.MULTILINE)  # a row names a field of a message
    groups = "|".join(sorted(GROUPS))
    named = set(re.findall(rf"`((?:{groups})\.[a-z_]+(?:\.[a-z_]+)*)(?: = [^`]*)?`", text))
    assert named - SETTINGS - SECTIONS_OF_SETTINGS - EVENTS == set()
    assert set(re.findall(r"\b(router_[a-z_]+_total)\b", text)) <= list_metrics()


def test_the_names_of_the_specifications_set_something() -> None:
    names = [
        name
        for cell in read_rows("contracts.md", "setting-names")
        for name in re.findall(r"[\w{}]+_[\w{}]+", cell)
    ]
    spelled = [name.removeprefix("ROUTER_").replace("{consumer}", "acks") for name in names]
    assert [name for name in spelled if NAMES.find(name) is None] == []


def test_the_table_of_the_header_contract_is_the_contract() -> None:
    text = (REFERENCE / "contracts.md").read_text()
    for header, rule, says, _ in describe():
        assert f"| `{header}` | {says} | `{rule}` |" in text


LEAST = {  # a policy that says nothing but what it must
    "providers": [{"name": "a", "weight": 1}],
    "fallbacks": [{"when": {}, "to": "a"}],
    "sticky": {},
    "circuit_breaker": {},
    "rate_limit": {"requests_per_second": 1, "burst": 1},
    "validators": [{"id": "v"}],
}
SECTIONS = {  # the anchor -> where the section stands in a document, and in a policy
    "providers": ("providers", "providers"),
    "fallbacks": ("fallbacks", "fallbacks"),
    "sticky": ("sticky", "sticky"),
    "circuit-breaker": ("circuit_breaker", "circuit_breaker"),
    "rate-limit": ("rate_limit", "rate_limit"),
    "pipeline": ("validators", "pipeline"),
}


@pytest.mark.parametrize("anchor", SECTIONS)
def test_the_policy_reference_has_every_key_of_a_section(anchor: str) -> None:
    place, _ = SECTIONS[anchor]
    section = LEAST[place]
    wrong = [{**section[0], "zzz": 1}] if isinstance(section, list) else {**section, "zzz": 1}
    with pytest.raises(PolicyError) as told:
        parse_policy({**LEAST, place: wrong}, "acme", "default")
    legal = set(str(told.value).partition("legal are ")[2].split(", "))
    named = {name.partition(" (")[0] for name in read_rows("policies.md", anchor)}
    assert named - {"mode"} == legal


@pytest.mark.parametrize("anchor", SECTIONS)
def test_a_default_of_the_policy_reference_is_the_parsers(anchor: str) -> None:
    parsed = getattr(parse_policy(LEAST, "acme", "default").policy, SECTIONS[anchor][1])
    section = parsed[0] if isinstance(parsed, tuple) else parsed
    figures = {
        key: cells[1]
        for key, cells in read_rows("policies.md", anchor).items()
        if re.fullmatch(r"[0-9. ]+", cells[1])
    }
    assert figures == {
        key: value
        for key, value in figures.items()
        if float(value.replace(" ", "")) == getattr(section, key)
    }


def test_the_policy_reference_has_every_key_of_the_document() -> None:
    with pytest.raises(PolicyError) as told:
        parse_policy({**LEAST, "zzz": 1}, "acme", "default")
    named = {
        name
        for cell in read_rows("policies.md", "document")
        for name in re.findall(r"[a-z_]+", re.sub(r"\(#.*?\)", "", cell))
    }
    assert named == set(str(told.value).partition("legal are ")[2].split(", "))


def test_the_registry_table_has_every_key_and_its_default() -> None:
    rows = read_rows("extensions.md", "registry")
    assert {
        "id",
        "type",
        "subject",
        "timeout_ms",
        "retry",
        "enabled",
        "config, metadata",
        "versions[]",
        "instances[]",
    } <= set(rows)
    assert rows["timeout_ms"][
        1
    ] == f"{entry.TIMEOUT_MS:,}; providers {entry.PROVIDER_TIMEOUT_MS:,}".replace(",", " ")


@pytest.mark.parametrize("kind", ["streams", "buckets"])
def test_streams_and_buckets_are_those_of_the_settings(kind: str) -> None:
    named = {
        name
        for cell in read_rows("contracts.md", kind)
        for name in re.findall(r"ROUTER_[A-Z_]+", cell)
    }
    assert named == {value.name for _, value in getattr(Settings(), kind)}


@pytest.mark.parametrize("page", find_pages(DOCS), ids=relative_name)
def test_a_module_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`(router(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`", page.read_text())
    for name in set(named) - {"router.toml", "router.run"}:
        path = TOP.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
