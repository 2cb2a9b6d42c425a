"""A policy put again and again by the real command, `router policy put`: the largest that this code
takes.

How large that is, `router policy lint` says before the start: a document of `PROVIDERS[0]`
providers fills what a policy may hold; where it is refused, a smaller one is tried. The documents
differ, so that each put is a new version.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.rigs.neighbours.asking import LOUD
from tests.rigs.neighbours.play import Cue

PROVIDERS = (26_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500, 256, 200, 128, 100, 64, 50, 20)
NAME = "large"
COMMAND_S = 120.0
PAUSE_S = 0.2
PUT, REFUSED = "put", "refused"


def put(cue: Cue, *, url: str, tree: str, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="router-neighbours-") as home:
        command = _Command(url, tree, Path(home))
        count = next((count for count in PROVIDERS if command.is_legal(count)), 0)
        began = cue.wait_for_go()
        answers: Counter[str] = Counter()
        while time.monotonic() < began + seconds:
            answers[PUT if command.put(count, answers[PUT] + 1) else REFUSED] += 1
            cue.sleep(PAUSE_S)
        facts = {
            "began": began,
            "ended": time.monotonic(),
            "sent": answers.total(),
            "is_answered": True,
            "answers": dict(answers),
        }
        return {
            **facts,
            "providers": count,
            "bytes": len(_document(count, 0)),
            "complaint": command.complaint,
        }


class _Command:
    """`complaint`: what the last put that was refused said."""

    def __init__(self, url: str, tree: str, home: Path) -> None:
        self._url = url
        self._tree = tree
        self._file = home / "policy.json"
        self.complaint = ""

    def is_legal(self, count: int) -> bool:
        self._file.write_text(_document(count, 0))
        return self._run("lint", str(self._file)) is None

    def put(self, count: int, version: int) -> bool:
        """`version`: the one that this becomes."""
        self._file.write_text(_document(count, version))
        replaces = ("--replaces", str(version - 1)) if version > 1 else ()
        complaint = self._run(
            "put", LOUD, NAME, str(self._file), "--nats-url", self._url, *replaces
        )
        self.complaint = complaint or self.complaint
        return complaint is None

    def _run(self, *words: str) -> str | None:
        """What it complained of."""
        command = [sys.executable, "-m", "router", "policy", *words]
        try:
            ended = subprocess.run(
                command,
                cwd=self._tree,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {COMMAND_S:.0f} s"
        return (
            ((ended.stderr or ended.stdout).strip()[-200:] or str(ended.returncode))
            if ended.returncode
            else None
        )


def _document(count: int, version: int) -> str:
    providers = [
        {"name": f"p{number}", "weight": 1 + (number + version) % 100} for number in range(count)
    ]
    return json.dumps({"version": "1.0", "providers": providers}, separators=(",", ":"))
