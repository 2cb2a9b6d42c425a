"""The TypeScript client, installed by npm and compiled once, and programs that Node runs with it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
BUILD = CLIENT / "build"
LOCK = CLIENT / "package-lock.json"
SOURCES = (
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "tsconfig.tests.json",
    "src",
    "test",
    "examples",
)
WITHIN_S = 90  # a bound of a hang, no measure of speed


def build_client() -> None:
    """Install what its lock file names, and compile it; where neither has changed, nothing is done.
    Skips where that cannot be.
    """
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine: the TypeScript client is not tested")
    with _one_at_a_time():
        _do_once(CLIENT / "node_modules" / ".installed", (LOCK,), _install)
        _do_once(BUILD / ".compiled", _list_files(), _compile)


def run_node(*arguments: str, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run `node …` in the client's folder, to its end."""
    return _run(("node", *_list_options(), *arguments), environ)


@contextmanager
def node_process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`node …`, killed at the end of the block if it still runs."""
    with subprocess.Popen(
        ("node", *arguments), cwd=CLIENT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _list_options() -> tuple[str, ...]:
    """Node has WebSocket since its version 22, and before that behind an option."""
    version = subprocess.run(
        ("node", "--version"), capture_output=True, text=True, check=True
    ).stdout
    return ("--experimental-websocket",) if int(version[1:].partition(".")[0]) < 22 else ()


def _install() -> None:
    done = _run(
        (
            "npm",
            "ci",
            "--prefer-offline",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            "--fetch-retries=1",
        )
    )
    if done.returncode != 0:
        pytest.skip(
            f"npm cannot install the packages of {LOCK}, is there no registry? The "
            f"TypeScript client is not tested: {done.stderr}"
        )


def _compile() -> None:
    for project in ("tsconfig.json", "tsconfig.tests.json"):
        done = _run(("node_modules/.bin/tsc", "-p", project))
        assert done.returncode == 0, done.stdout


def _do_once(stamp: Path, files: Iterable[Path], do: Callable[[], None]) -> None:
    """Not again until one of the files changes."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        do()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest)


def _list_files() -> Iterator[Path]:
    for name in SOURCES:
        place = CLIENT / name
        yield from sorted(file for file in place.rglob("*.ts")) if place.is_dir() else (place,)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Several processes of one test run share the folder."""
    with (CLIENT / ".npmrc").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(
    command: tuple[str, ...], environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=CLIENT,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
