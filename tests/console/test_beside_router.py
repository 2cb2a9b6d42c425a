"""`router serve --embedded --console`: a console in a process of its own, beside a router to try;
and a browser only where there is one.
"""

import json
import os
import signal
import urllib.request
import webbrowser
from pathlib import Path
from queue import SimpleQueue

import pytest

from router.shell.open_browser import DISPLAYS, open_browser
from tests.support.cli import ASK, ServedRouter, router, serve_router
from tests.support.fleet import is_there
from tests.support.waiting import until

ANY_PORTS = ("--http-port", "0", "--nats-port", "0", "--store", "s")
ANY_PORT = {"ROUTER_CONSOLE__PORT": "0"}


def read_console(served: ServedRouter) -> str:
    """The console's address, from the line after router.ready."""
    assert served.process.stdout is not None
    line = json.loads(served.process.stdout.readline())
    assert line["event"] == "console.ready"
    return str(line["http"])


def find_console(served: ServedRouter) -> int:
    """The pid of the console among the router's children."""
    (pid,) = (
        child
        for child in served.list_children()
        if b"console" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return pid


def read_page(address: str) -> str:
    with urllib.request.urlopen(address) as answer:
        return str(answer.read().decode())


def shows_router(address: str) -> bool:
    """It has the router's own port of /metrics."""
    page = read_page(address)
    return "pulls" in page and "was not read" not in page


async def test_it_prints_its_address_shows_the_router_and_ends_with_it(tmp_path: Path) -> None:
    with serve_router(
        "--embedded", "--console", *ANY_PORTS, cwd=tmp_path, environ=ANY_PORT
    ) as served:
        address, children = read_console(served), served.list_children()
        assert router(*ASK, "--payload", "hi", "--nats-url", served.ready["nats_url"]).status == 0
        await until(lambda: shows_router(address))
        assert len(children) == 2  # the broker, the console
        assert served.told(signal.SIGTERM) == 0
    assert not any(map(is_there, children))


async def test_a_console_that_ends_takes_no_router_with_it(tmp_path: Path) -> None:
    with serve_router(
        "--embedded", "--console", *ANY_PORTS, cwd=tmp_path, environ=ANY_PORT
    ) as served:
        address = read_console(served)
        console = find_console(served)
        os.kill(console, signal.SIGKILL)
        await until(lambda: not is_there(console))
        assert served.process.stderr is not None
        assert any("the router goes on without it" in line for line in served.process.stderr)
        with pytest.raises(OSError, match="refused"):
            read_page(address)
        assert read_page(f"{served.ready['http']}/readyz")
        assert served.told(signal.SIGTERM) == 0


async def test_a_router_that_is_killed_leaves_no_console_behind(tmp_path: Path) -> None:
    with serve_router(
        "--embedded", "--console", *ANY_PORTS, cwd=tmp_path, environ=ANY_PORT
    ) as served:
        read_console(served)
        children = served.list_children()
        served.process.kill()
        served.process.wait()
        await until(lambda: not any(map(is_there, children)))


def test_a_browser_is_opened_where_there_is_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    monkeypatch.setattr("sys.platform", "linux")
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    assert not open_browser("http://127.0.0.1:9002/")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_browser("http://127.0.0.1:9002/")
    assert opened.get(timeout=30) == "http://127.0.0.1:9002/"
    assert opened.empty()


@pytest.mark.filterwarnings("error")
def test_a_browser_that_cannot_be_opened_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: SimpleQueue[str] = SimpleQueue()

    def fail(address: str) -> bool:
        asked.put(address)
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_browser("http://127.0.0.1:9002/")
    assert asked.get(timeout=30)
