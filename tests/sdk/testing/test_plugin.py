"""The pytest plugin, as a user's tests see it: each test here is a small project of their own, run
by pytest in a process.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import files_of

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "test-your-own.md"
pytestmark = pytest.mark.timeout(300)

PROJECT = """
from router.sdk.testing import FakeExtension, assert_decided, assert_refused
"""


def run_project(pytester: pytest.Pytester, tests: str, **counts: int) -> pytest.RunResult:
    pytester.makepyfile(PROJECT + tests)
    # Of the plugins that are installed beside it: none is needed.
    ended = pytester.runpytest_subprocess(
        "-q", "-p", "no:xdist", "-p", "no:asyncio", "-p", "no:timeout", "-p", "no:cacheprovider"
    )
    ended.assert_outcomes(**counts)
    return ended


def test_what_was_answered_instead_is_said(pytester: pytest.Pytester) -> None:
    tests = """
import pytest

def test_it(embedded_router, tmp_path):
    assert (tmp_path / "nats").is_dir()
    answer, refusal = embedded_router.decide("hello"), embedded_router.decide("hello", policy_id="none")
    with pytest.raises(AssertionError, match="provider_id should be 'none' and is '"):
        assert_decided(answer, provider_id="none")
    with pytest.raises(AssertionError, match="it was not decided: .*policy_not_found"):
        assert_decided(refusal)
    with pytest.raises(AssertionError, match="it should be refused as 'policy_not_found': "):
        assert_refused(answer, "policy_not_found")
    with pytest.raises(AssertionError, match="there should be 1 usage events, there are 0"):
        embedded_router.wait_for_usage(1, timeout_s=0.1)
    assert embedded_router.read_dead_letters() == []
"""
    run_project(pytester, tests, passed=1)


def test_policies_extensions_and_settings_are_those_of_the_project(
    pytester: pytest.Pytester,
) -> None:
    shared = pytester.mkdir("policies") / "_shared"
    shared.mkdir()
    policy = (
        '{"version": "1.0", "providers": [{"name": "own", "weight": 1}], "pre": [{"id": '
        '"shout", "mode": "required"}]}'
    )
    (shared / "default.json").write_text(policy)
    conftest = """
from pathlib import Path
import pytest

@pytest.fixture
def router_policies():
    return Path(__file__).parent / "policies"

@pytest.fixture
def router_settings():
    return {"node_id": "mine"}
"""
    tests = """
def test_it(embedded_router):
    shout = FakeExtension("pre", "shout", ("HELLO", {"loud": "yes"}))
    embedded_router.serve_extensions(shout)
    assert_decided(embedded_router.decide("hello"), provider_id="own")
    assert [one.payload for one in shout.requests] == ["hello"]
    assert embedded_router.settings.node_id == "mine"
"""
    pytester.makeconftest(conftest)
    run_project(pytester, tests, passed=1)


def test_loading_it_imports_nothing_of_the_router_but_the_plugin() -> None:
    program = (
        "import sys, router.sdk.testing.plugin; print(*sorted(name for name in sys.modules if "
        "name.partition('.')[0] in %r))"
    )
    heavy = ("router", "nats", "msgspec", "pydantic", "orjson", "structlog")
    shown = subprocess.run(
        [sys.executable, "-c", program % (heavy,)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == [
        "router",
        "router.sdk",
        "router.sdk.testing",
        "router.sdk.testing.plugin",
    ]


def test_the_page_on_it_is_run_as_it_stands(pytester: pytest.Pytester) -> None:
    files = files_of(PAGE.read_text())
    assert set(files) == {"test_mine.py", "conftest.py"}
    pytester.makepyfile(test_mine=files["test_mine.py"])
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=4)
