"""The front page: short, and what it tells to type is typed here, at a router of the test's own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import indent

from tests.docs.pages import TOP
from tests.support.cli import call_command, clean_environment, serve_router

PAGE = (TOP / "README.md").read_text()
SHORT = 150  # lines
URL = "nats://127.0.0.1:4222"
SERVE = ("--embedded", "--http-port", "0", "--nats-port", "0", "--store", "s")


def test_it_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.splitlines()) <= SHORT


def test_what_it_tells_to_type_is_answered(tmp_path: Path) -> None:
    """The README's command, and its two programs, each as a file of its own."""
    (command,) = re.findall(r"^router decide .*$", PAGE, re.MULTILINE)
    plain, ours = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
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
