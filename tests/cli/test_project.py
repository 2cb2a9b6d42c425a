"""`router init` and `router dev`: what is made works as it stands, and what is saved is in use a
moment later.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from subprocess import PIPE
from threading import Thread
from typing import Any

import pytest
import yaml

from router import __version__
from router.cli.project import dev_server
from router.cli.project.dev_server import DEFAULT, MAX_FILES, FileWatch, read_example, read_stamps
from router.config.names import NAMES
from router.core.errors import Misconfigured
from tests.support.cli import COMMAND, call_command, clean_environment
from tests.support.deployed import DEPLOY


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = call_command("init", "shop", "--json")
    assert made.status == 0, made.err
    files = [
        one.relative_to(tmp_path / "shop").as_posix()
        for one in (tmp_path / "shop").rglob("*")
        if one.is_file()
    ]
    assert made.json == {"directory": "shop", "files": sorted(files)}
    return tmp_path / "shop"


# -- init ------------------------------------------------------------------------------------------


def test_its_tests_pass_and_its_policies_have_nothing_wrong(project: Path) -> None:
    linted = call_command("policy", "lint", "shop/policies")
    assert (linted.status, linted.err) == (0, "")
    command = ["make", "--no-print-directory", "test", f"PYTHON={sys.executable} -P"]
    environ = clean_environment({"PYTEST_ADDOPTS": "-p no:xdist -p no:asyncio -p no:cacheprovider"})
    ended = subprocess.run(
        command, cwd=project, capture_output=True, text=True, env=environ, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout


def test_what_it_gives_to_compose_are_settings_and_the_versions_of_here(project: Path) -> None:
    text = (project / "compose.yaml").read_text()
    assert [
        name
        for name in re.findall(r"ROUTER_\w+", text)
        if NAMES.find(name.removeprefix("ROUTER_")) is None
    ] == []
    document: dict[str, Any] = yaml.safe_load(text)
    assert document["name"] == "shop"
    services = document["services"]
    theirs = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["nats"]["image"]
    assert services["nats"]["image"] == theirs.partition("$")[0]
    assert {services[name]["image"] for name in ("router", "extensions", "worker")} == {
        f"beamline-router:{__version__}"
    }
    assert all(
        port.startswith("127.0.0.1:") for one in services.values() for port in one.get("ports", ())
    )
    assert "{{" not in "".join(file.read_text() for file in project.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["Shop", "../shop", "1shop", "s" * 64, "shop\n"])
def test_a_name_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call_command("init", name)
    assert (ended.status, [*tmp_path.iterdir()]) == (2, [])
    assert ended.err.startswith("router: NAME: ")


def test_nothing_is_written_over(project: Path) -> None:
    (project / "worker.py").write_text("mine")
    assert call_command("init", "shop").status == 2
    assert (project / "worker.py").read_text() == "mine"


# -- dev -------------------------------------------------------------------------------------------


class DevProcess:
    """`router dev` of a project, and the lines that it prints."""

    def __init__(self, directory: Path) -> None:
        command = [*COMMAND, "dev", "--nats-port", "0", "--http-port", "0", "--no-console"]
        environ = clean_environment({"PYTHONPATH": str(DEPLOY.parent)})
        self._screen, terminal = pty.openpty()
        self.process = subprocess.Popen(
            command, cwd=directory, env=environ, stdout=PIPE, stderr=terminal, text=True
        )
        os.close(terminal)
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("ended")

    def read_screen(self) -> str:
        """What it wrote for a person at its terminal, after its end."""
        text = b""
        with suppress(OSError):  # how Linux says that the other side is closed
            while piece := os.read(self._screen, 4096):
                text += piece
        return text.decode()

    def wait_for(self, is_it: Callable[[str], bool]) -> list[str]:
        """The lines up to the first for which it is true."""
        lines = []
        while not lines or not is_it(lines[-1]):
            lines.append(self._lines.get(timeout=100))
            assert lines[-1] != "ended", lines
        return lines

    def wait_for_answer(self) -> str:
        return self.wait_for(lambda line: line.startswith("answer"))[-1]

    def wait_for_version(self, version: int, policy: Path) -> list[str]:
        """The lines up to an answer by this version. A router that does not follow the policy
        within seconds is asked again.
        """
        lines = self.wait_for(lambda line: line.startswith("answer"))
        while f"policy default version {version}" not in lines[-1]:
            policy.touch()
            lines += self.wait_for(lambda line: line.startswith("answer"))
        return lines


@pytest.fixture
def served(project: Path) -> Iterator[DevProcess]:
    running = DevProcess(project)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


def test_what_is_saved_is_in_use_and_a_request_shows_it(project: Path, served: DevProcess) -> None:
    policy = project / "policies" / "_shared" / "default.json"
    assert "(weighted), policy default version 1" in served.wait_for_version(1, policy)[-1]
    policy.write_text(
        policy.read_text().replace('"fast"', '"other"').replace('"careful"', '"another"')
    )
    lines = served.wait_for_version(2, policy)
    assert "changed     policies/_shared/default.json\n" in lines
    assert re.search(r"answer +(other|another) \(weighted\), policy default version 2", lines[-1])
    (project / "worker.py").write_text("answer = (")
    assert any(
        line.startswith("worker      not started")
        for line in served.wait_for(lambda line: line.startswith("answer"))
    )
    (project / "request.json").write_text('{"tenant": "acme"}')
    assert "request.json: " in served.wait_for(lambda line: line.startswith("request "))[-1]
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(60) == 0
    screen = served.read_screen()
    assert "router: " in screen  # why the worker was not started
    assert "router doctor" not in screen  # what `router serve` alone tells a person


def test_a_program_may_print_lines_that_look_like_those_of_the_router(
    project: Path, served: DevProcess
) -> None:
    served.wait_for_answer()
    worker, text = project / "worker.py", (project / "worker.py").read_text()
    printed = [json.dumps({"event": name}) for name in ("ended", "console.ready")]
    worker.write_text("".join(f"print({line!r}, flush=True)\n" for line in printed) + text)
    served.wait_for_answer()
    worker.write_text(text)
    served.wait_for_answer()


def test_what_to_do_next_brings_what_it_needs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = call_command("init", "shop").out
    assert re.search(
        r"cd shop\n.*pip install -r requirements.txt.*\n.*router dev.*\n.*make test", told
    )


def test_dev_without_a_project_says_what_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call_command("dev")
    assert (ended.status, ended.out) == (2, "")
    assert "router init NAME" in ended.err


def test_dev_without_an_embedded_server_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.files", lambda _name: [])
    monkeypatch.setattr("shutil.which", lambda _name: None)
    ended = call_command("dev", str(project))
    assert ended.status == 2
    assert "pip install 'beamline-router[embedded]'" in ended.err


async def test_a_save_that_empties_a_file_first_is_one_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, empty, full = {"a.py": (1, 9)}, {"a.py": (2, 0)}, {"a.py": (3, 9), "b.py": (3, 1)}
    readings = iter([stored, stored, empty, full, full, full])
    monkeypatch.setattr(dev_server, "INTERVAL_S", 0)
    monkeypatch.setattr(dev_server, "read_stamps", lambda _root: next(readings))
    watch = FileWatch(tmp_path)
    assert await watch.wait_for_change() == ["a.py", "b.py"]
    with pytest.raises(RuntimeError):  # no second change: the readings are used up
        await watch.wait_for_change()


def test_files_are_watched_within_bounds(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.json", ".venv/d.py", "__pycache__/e.py", "tests/f.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = read_stamps(tmp_path)
    assert sorted(before) == ["a.py", "b/c.json"]
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert read_stamps(tmp_path) != before
    (tmp_path / "many").mkdir()
    for number in range(MAX_FILES + 1):
        (tmp_path / "many" / f"{number}.py").touch()
    assert len(read_stamps(tmp_path)) == MAX_FILES


def test_a_request_is_read_or_refused_by_its_field(tmp_path: Path) -> None:
    assert read_example(tmp_path) == DEFAULT
    (tmp_path / "request.json").write_text(
        '{"tenant_id": "acme", "message_type": "chat", "payload": 1, "hidden": 2}'
    )
    with pytest.raises(Misconfigured, match="hidden"):
        read_example(tmp_path)
