"""A policy put again and again by the real command, `router policy put`: the largest that this code takes.

How large that is, is tried before the start: a document of `PROVIDERS[0]` providers fills what a policy may hold; where it is refused, a
smaller one is tried. The documents differ, so that each put is a new version.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.neighbours.asking import LOUD
from tests.neighbours.play import Cue

PROVIDERS = (26_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500, 256, 200, 128, 100, 64, 50, 20)
NAME = "large"
PUT_S = 60.0
PAUSE_S = 0.5


def put(cue: Cue, *, url: str, tree: str, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="router-neighbours-") as home:
        command = _Command(url, tree, Path(home))
        count = next((count for count in PROVIDERS if command.run(f"first-{count}", count)), 0)
        began = cue.wait_for_go()
        done = failed = 0
        while time.monotonic() < began + seconds:
            taken = command.run(NAME, count, done + 1)
            done, failed = done + taken, failed + (not taken)
            cue.sleep(PAUSE_S)
        size = len(_document(count, 0))
        facts = {"began": began, "ended": time.monotonic(), "sent": done + failed, "is_answered": True}
        return {**facts, "answers": {"put": done, "refused": failed}, "providers": count, "bytes": size, "complaint": command.complaint}


class _Command:
    def __init__(self, url: str, tree: str, home: Path) -> None:
        self._url = url
        self._tree = tree
        self._file = home / "policy.json"
        self.complaint = ""

    def run(self, name: str, count: int, version: int = 0) -> bool:
        """Whether it was taken. `version`: the one that this becomes; 0 and 1: there is none yet."""
        self._file.write_text(_document(count, version))
        replaces = ("--replaces", str(version - 1)) if version > 1 else ()
        words = ("policy", "put", LOUD, name, str(self._file), "--nats-url", self._url, *replaces)
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "router", *words], cwd=self._tree, capture_output=True, text=True, timeout=PUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            self.complaint = f"no answer within {PUT_S:.0f} s"
            return False
        if ended.returncode:
            self.complaint = (ended.stderr or ended.stdout).strip()[-200:]
        return ended.returncode == 0


def _document(count: int, version: int) -> str:
    providers = [{"name": f"p{number}", "weight": 1 + (number + version) % 100} for number in range(count)]
    return json.dumps({"version": "1.0", "providers": providers}, separators=(",", ":"))
