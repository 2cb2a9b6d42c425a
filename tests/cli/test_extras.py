"""What an extra brings, where it is not installed: said before anything begins, with what to install."""

import sys

import pytest

from tests.support.cli import call_command

NEEDS_POSTGRES = [
    ("mailbox", "migrate"),
    ("mailbox", "check"),
    ("outbox", "relay"),
    ("outbox", "backlog"),
    ("outbox", "parked"),
    ("outbox", "requeue", "--all"),
    ("outbox", "publish", "7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ("inbox", "consume", "--url", "http://127.0.0.1:1/handle"),
    ("inbox", "backlog"),
]


@pytest.mark.parametrize("command", NEEDS_POSTGRES, ids=" ".join)
@pytest.mark.parametrize("module", ["psycopg", "httpx2"])
def test_a_command_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    ended = call_command(*command)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == f"router: {module}: is not installed: pip install 'beamline-router[postgres]'\n"


def test_the_console_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("router.console", "router.shell"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = call_command("console")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == "router: jinja2: is not installed: pip install 'beamline-router[console]'\n"


@pytest.mark.parametrize(("command", "module"), [(("usage", "report"), "pyarrow"), (("usage", "ingest"), "pyspark")])
def test_the_usage_tables_without_their_extra_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], module: str
) -> None:
    for name in [name for name in sys.modules if name.startswith(("router.lake.warehouse", "pyarrow", "pyspark", "deltalake"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyarrow", "pyspark", "deltalake"):
        monkeypatch.setitem(sys.modules, name, None)
    ended = call_command(*command)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == f"router: {module}: is not installed: pip install 'beamline-router[spark]'\n"
