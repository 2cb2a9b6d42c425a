"""The front page: short, and what it tells to type is typed here, at a router of the test's own."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import indent

from tests.docs.pages import TOP
from tests.gateway.test_beside_router import ANY_PORT, ask, read_ready
from tests.support.cli import call_command, clean_environment, serve_router
from tests.support.waiting import until

PAGE = (TOP / "README.md").read_text()
REQUESTS = (TOP / "docs/how-to/requests.md").read_text()
SHORT = 150  # lines
URL = "nats://127.0.0.1:4222"
SERVE = ("--embedded", "--http-port", "0", "--nats-port", "0", "--store", "s")


def test_it_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.splitlines()) <= SHORT


def test_what_it_tells_to_type_is_answered(tmp_path: Path) -> None:
    """The README's command and its program, and that of the page on requests."""
    (command,) = re.findall(r"^router decide .*$", PAGE, re.MULTILINE)
    (plain,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ours, *_ = re.findall(r"```python\n(.*?)```", REQUESTS, re.DOTALL)
    head, _, body = ours.partition("\n\n")
    wrapped = (
        f"import asyncio\n{head}\n\nasync def main():\n{indent(body, '    ')}\n"
        "asyncio.run(main())\n"
    )
    with serve_router(*SERVE, cwd=tmp_path) as served:
        url = served.ready["nats_url"]
        asked = call_command(*shlex.split(command)[1:], environ={"NATS_URL": url})
        assert asked.status == 0, asked.err
        for text in (plain, wrapped):
            assert run_program(tmp_path / "program.py", text.replace(URL, url)) in (
                "openai\n",
                "anthropic\n",
            )


async def test_what_it_tells_http_clients_to_type_is_answered(tmp_path: Path) -> None:
    (typed,) = re.findall(r"```sh\n(export OPENAI.*?)```", PAGE, re.DOTALL)
    _, commands = typed.split("\n", 1)
    with serve_router(*SERVE, "--gateway", cwd=tmp_path, environ=ANY_PORT) as served:
        ready = read_ready(served)
        await until(lambda: ask(ready, "router/echo"))
        told = {"OPENAI_BASE_URL": ready["url"], "OPENAI_API_KEY": ready["key"]}
        out = await asyncio.to_thread(run_shell, commands, told)
    assert "data: [DONE]\n\n" in out
    assert out.endswith("Hello\n")


def run_shell(commands: str, told: dict[str, str]) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ("bash", "-euc", commands),
        env={**clean_environment(), **told, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_program(file: Path, text: str) -> str:
    file.write_text(text)
    done = subprocess.run(
        (sys.executable, str(file)),
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
