"""Each tutorial works as it stands: first-decision.md, first-extension.md, first-worker.md,
first-gateway.md, usage-report.md, shop.md.
"""

import ast
import json
import shutil
from pathlib import Path

import pytest

from router.budgets.model.prices.price import parse_prices
from router.policies.model.parse import parse_policy
from tests.docs.pages import TOP
from tests.docs.tutorial import Tutorial, is_shown

HOME = TOP / "docs" / "tutorials"
FOLLOWED = (
    "first-decision",
    "first-extension",
    "first-worker",
    "first-gateway",
    "usage-report",
    "shop",
)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_reader_who_follows_it_gets_what_it_shows(name: str, tmp_path: Path) -> None:
    """`make docs` runs these: each starts a router and several commands."""
    if name == "usage-report" and shutil.which("java") is None:
        pytest.skip("THERE IS NO JAVA HERE: the tutorial on usage was not followed")
    assert Tutorial.read(HOME / f"{name}.md").follow(tmp_path) == []


@pytest.mark.parametrize("name", FOLLOWED)
def test_its_files_are_what_they_say(name: str) -> None:
    for file, text in Tutorial.read(HOME / f"{name}.md").files.items():
        if file == "prices.json":
            assert parse_prices(json.loads(text))
        elif file.endswith(".json"):
            parse_policy(json.loads(text), "acme", "default")
        else:
            ast.parse(text)


def test_what_a_page_shows_is_compared_with_what_was_printed() -> None:
    assert is_shown('{\n  "ok": true,\n…\n', '{"ok":true,"x":1}\n')
    assert is_shown("version 1: in force\n", "version 1: in force\n")
    assert not is_shown('{\n  "ok": true,\n…\n', '{"ok":false,"x":1}\n')
    assert not is_shown("version 1: in force\n", "version 2: in force\n")
    assert is_shown("a … b\n", "a x b y b\n")
    assert not is_shown("a … b\n", "a x b y\n")
    assert not is_shown("a\n", "a b\n")
    assert not is_shown("… a " * 30 + "b", "a " * 2000)


def test_a_block_that_is_marked_as_not_run_is_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: it needs the index -->\n```sh\npip install\n```\n\n```sh\ntrue\n```\n"
    )
    assert Tutorial.read(page).blocks == [("sh", "", "true\n")]
