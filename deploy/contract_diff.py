"""Compare the contract of this tree with that of the last tag: `python deploy/contract_diff.py
[--repository DIR] [--into DIR]`.

    last tag ── git archive ──> its `router contract asyncapi --json` ──> old.json ─┐
    this tree ────────────────> its `router contract asyncapi --json` ──> new.json ─┴─ router contract diff

Exit status: 0 nothing breaks, or there is no tag; 1 something breaks programs that keep the tag's
contract.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

TOP = Path(__file__).parents[1]
NEEDED = ("router", "proto")  # what the command of a tag reads


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python deploy/contract_diff.py", description=__doc__)
    parser.add_argument("--repository", type=Path, default=TOP)
    parser.add_argument(
        "--into", type=Path, help="keep both documents here, as old.json and new.json"
    )
    options = parser.parse_args(arguments)
    tag = find_last_tag(options.repository)
    if tag is None:
        print("contract: there is no tag to compare with")
        return 0
    with tempfile.TemporaryDirectory(prefix="contract-") as directory:
        into = options.into or Path(directory)
        into.mkdir(parents=True, exist_ok=True)
        if not write_document(
            unpack(options.repository, tag, Path(directory) / "tree"), into / "old.json"
        ):
            print(
                f"contract: {tag} has no `router contract asyncapi`, so there is nothing "
                "to compare with"
            )
            return 0
        if not write_document(options.repository, into / "new.json"):
            return 1
        print(f"contract: compared with {tag}", flush=True)
        return _run_router(
            TOP, "contract", "diff", str(into / "old.json"), str(into / "new.json")
        ).returncode


def find_last_tag(repository: Path) -> str | None:
    """The newest tag before this commit, or on it."""
    command = ("git", "-C", str(repository), "describe", "--tags", "--abbrev=0")
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout.strip() or None


def unpack(repository: Path, tag: str, into: Path) -> Path:
    """The tag's code as files."""
    command = ("git", "-C", str(repository), "archive", "--format=zip", tag, *NEEDED)
    archive = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603
    with zipfile.ZipFile(BytesIO(archive)) as files:
        files.extractall(into)
    return into


def write_document(tree: Path, file: Path) -> bool:
    """The contract of this code, with the default settings; False where the command fails."""
    with file.open("wb") as out:
        return _run_router(tree, "contract", "asyncapi", "--json", out=out.fileno()).returncode == 0


def _run_router(
    tree: Path, *arguments: str, out: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROUTER_", "NATS_"))
    }
    command = (sys.executable, "-m", "router.cli", *arguments)
    environ["PYTHONPATH"] = str(tree.resolve())
    return subprocess.run(command, cwd=tree, stdout=out, env=environ, check=False)  # noqa: S603


if __name__ == "__main__":
    raise SystemExit(main())
