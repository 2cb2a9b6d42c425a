"""A tutorial, followed word for word: its files are written, its commands typed into bash, in an
empty directory with an empty home.

```json mine.json          a file of that name
```sh                      typed into one shell, block after block; the first command that fails
                           ends it
```sh, of the commands TERMINALS    a terminal of its own: it runs until the end, and is waited for
                                    until it says `.ready`
<!-- not run: … -->        above a block: it is left out
```text                    what the block before it printed; … is anything, and JSON is compared as
                           a person's terminal shows it

Ports of the page (`PORTS`), of `router serve` and of its gateway are other ones here, free ones, so
that nothing that runs is in the way.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port

TERMINALS = (
    "router serve ",
    "router extension serve",
    "router worker",
    "router outbox relay",
    "router inbox consume",
    "router provider run",
    "python stand_in",
)
GATEWAY_PORT = "9003"  # of `router serve --gateway`
PORTS = ("8090", GATEWAY_PORT)
WITHIN_S = 900  # it hangs
SERVE = "router serve --embedded"
OWN = " --nats-port {port} --http-port 0"
_BLOCK = re.compile(
    r"(<!-- not run: .*? -->\n)?^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL
)


@dataclass
class Tutorial:
    """One page's blocks, each with its language, the name of its file, and its text."""

    blocks: list[tuple[str, str, str]]
    gateway_port: int = 0
    printed: list[str] = field(default_factory=list)  # of each block that was typed

    @classmethod
    def read(cls, page: Path) -> "Tutorial":
        text, chosen = page.read_text(), {port: free_port() for port in PORTS}
        for port, free in chosen.items():
            text = text.replace(port, str(free))
        return cls(
            [
                (language, name, block)
                for is_left, language, name, block in _BLOCK.findall(text)
                if not is_left
            ],
            chosen[GATEWAY_PORT],
        )

    @property
    def files(self) -> Mapping[str, str]:
        return {name: text for _, name, text in self.blocks if name}

    def follow(self, home: Path) -> list[str]:
        """What was not as the page says: empty, or a line for each."""
        for name, text in self.files.items():
            (home / name).write_text(text)
        typed = [text for language, _, text in self.blocks if language == "sh"]
        script = "set -eu -o pipefail\n" + "".join(
            _type(text, number, free_port()) for number, text in enumerate(typed)
        )
        status, said = _run(script, home, self.gateway_port)
        self.printed = [
            (home / f"out.{number}").read_text() if (home / f"out.{number}").exists() else ""
            for number in range(len(typed))
        ]
        failed = (
            []
            if status == 0
            else [f"exit status {status}: {said}\n{''.join(self.printed[-2:])}{_read_last(home)}"]
        )
        return [*failed, *self._compare()]

    def _compare(self) -> Iterator[str]:
        number = -1
        for language, _, text in self.blocks:
            number += language == "sh"
            if language == "text" and not is_shown(text, self.printed[number]):
                yield f"shown:\n{text}\nprinted:\n{self.printed[number]}"


def is_shown(shown: str, printed: str) -> bool:
    """Whether what a page shows was printed; … stands for anything. Part after part is looked for:
    one pattern of all may take for ever.
    """
    first, *others = [
        re.escape(part.strip()).replace(r"\ ", r"\s*").replace("\\\n", r"\s*")
        for part in shown.split("…")
    ]
    text, place = _indent_json(printed), 0
    last = others.pop() if others else None
    for pattern in (rf"\A\s*{first}", *others):
        found = re.compile(pattern).search(text, place)
        if found is None:
            return False
        place = found.end()
    return (
        not text[place:].strip()
        if last is None
        else re.compile(rf"{last}\s*\Z").search(text, place) is not None
    )


def _indent_json(text: str) -> str:
    return "\n".join(
        json.dumps(json.loads(line), indent=2) if line.startswith("{") else line
        for line in text.splitlines()
    )


def _type(text: str, number: int, port: int) -> str:
    if not text.split("\n")[-2].startswith(TERMINALS):
        return f"{{\n{text}}} > out.{number} 2>&1\n"
    *before, last = text.rstrip("\n").split("\n")
    if last.startswith(SERVE):
        last += OWN.format(port=port)
    waits = f"until grep -q '\\.ready\"' out.{number}; do kill -0 $!; sleep 0.1; done\n"
    tells = (
        f"""export NATS_URL="$(sed -n 's/.*"nats_url":"\\([^"]*\\)".*/\\1/p' out.{number})"\n"""
        if last.startswith(SERVE)
        else ""
    )
    return "\n".join([*before, f"{last} > out.{number} 2> err.{number} &", waits + tells])


def _run(script: str, home: Path, gateway_port: int) -> tuple[int, str]:
    """In a group of processes of its own, which ends with it."""
    environ = {
        "ROUTER_GATEWAY__PORT": str(gateway_port),
        "ROUTER_GATEWAY__PAGES_PORT": "0",
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    passed = ("JAVA_HOME", "TMPDIR", "PYTHONPATH")
    environ |= {name: os.environ[name] for name in passed if name in os.environ}
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=home, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip
    try:
        return process.wait(WITHIN_S), ""
    except subprocess.TimeoutExpired:
        return 124, f"not done within {WITHIN_S} s"
    finally:
        _end_group(process.pid)
        _end_database(home / "postgres" / "postmaster.pid")
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _end_group(group: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        time.sleep(1)


def _end_database(lock: Path) -> None:
    """A server that a page started and, because it failed before its end, did not stop: it is in no
    group of ours.
    """
    if lock.is_file():
        os.kill(int(lock.read_text().splitlines()[0]), signal.SIGINT)


def _read_last(home: Path) -> str:
    return "".join(
        f"{file.name}: {file.read_text()[-600:]}\n" for file in sorted(home.glob("err.*"))
    )
