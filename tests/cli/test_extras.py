"""What an extra brings, where it is not installed: said before anything begins, with what to
install.
"""

import subprocess
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
def test_a_command_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    ended = call_command(*command)
    assert (ended.status, ended.out) == (2, "")
    assert (
        ended.err
        == f"router: {module}: is not installed: pip install 'beamline-router[postgres]'\n"
    )


def test_a_provider_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    ended = call_command("provider", "run", "mine", "--kind", "openai")
    assert (ended.status, ended.out) == (2, "")
    assert "pip install 'beamline-router[gateway]'" in ended.err


WITHOUT = """
import sys
missing, *sys.argv[1:] = sys.argv[1:]
sys.modules |= dict.fromkeys(missing.split(","))
from router.cli import main
main()
"""


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        (("console",), "jinja2", "console"),
        (("usage", "report"), "pyarrow,pyspark,deltalake", "spark"),
        (("usage", "ingest"), "pyspark,pyarrow,deltalake", "spark"),
    ],
)
def test_a_command_whose_modules_are_loaded_once_says_it_too(
    command: tuple[str, ...], missing: str, extra: str
) -> None:
    """In a process of its own: in this one other tests have loaded them, and hold on to them."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"router: {missing.split(',', maxsplit=1)[0]}: is not installed: pip install "
        f"'beamline-router[{extra}]'\n"
    )


def test_an_echo_needs_no_extra() -> None:
    asked = ("provider", "run", "mine", "--kind", "echo", "--print-entry")
    command = [sys.executable, "-c", WITHOUT, "httpx2", *asked]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert '"beamline.provider.mine.v1"' in ended.stdout
