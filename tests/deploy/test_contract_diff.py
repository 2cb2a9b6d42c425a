"""The contract of a tree against the last tag's, in a git repository of the test's own.

The code in there is a command that prints the document beside it: to compile a whole copy of the
router would cost more than all the rest.
"""

import copy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from router.config import Settings
from router.serve.contract.contract_document import build_contract_document

SCRIPT = Path(__file__).parents[2] / "deploy" / "contract_diff.py"
COMMAND = (
    "import pathlib, sys\nif sys.argv[1:3] == ['contract', 'asyncapi']:\n"
    "    print(pathlib.Path('router/document.json').read_text())\n"
)
DOCUMENT = build_contract_document(Settings())


class Repository:
    """Its `router contract asyncapi` prints what was written last."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name, text in (
            ("router/__init__.py", ""),
            ("router/cli.py", COMMAND),
            ("proto/a.proto", ""),
        ):
            (home / name).parent.mkdir(exist_ok=True)
            (home / name).write_text(text)
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> None:
        identity = (
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.com",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "tag.gpgsign=false",
        )
        subprocess.run(
            ("git", *identity, *arguments), cwd=self.home, check=True, capture_output=True
        )

    def commit(self, document: Any) -> None:
        (self.home / "router" / "document.json").write_bytes(orjson.dumps(document))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a contract")

    def compare(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command: Sequence[str] = (
            sys.executable,
            str(SCRIPT),
            "--repository",
            str(self.home),
            *arguments,
        )
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.commit(DOCUMENT)
    return repository


def fields_of(document: Any) -> dict[str, Any]:
    """Those of a bare acknowledgement."""
    found: dict[str, Any] = document["components"]["schemas"]["ack"]["oneOf"][0]["properties"]
    return found


def test_without_a_tag_there_is_nothing_to_compare_with(repository: Repository) -> None:
    compared = repository.compare()
    assert (compared.returncode, compared.stdout) == (
        0,
        "contract: there is no tag to compare with\n",
    )


def test_a_removed_field_breaks_what_the_tag_promised_and_an_optional_one_does_not(
    repository: Repository,
) -> None:
    repository.git("tag", "v1")
    document = copy.deepcopy(DOCUMENT)
    fields_of(document)["note"] = {"type": "string"}
    repository.commit(document)
    added = repository.compare()
    assert added.returncode == 0, added.stdout + added.stderr
    assert "compared with v1" in added.stdout
    assert "ack(bare).note" in added.stdout

    del fields_of(document)["message"]
    repository.commit(document)
    removed = repository.compare("--into", str(repository.home / "kept"))
    assert removed.returncode == 1
    assert "ack(bare).message" in removed.stdout
    assert sorted(file.name for file in (repository.home / "kept").iterdir()) == [
        "new.json",
        "old.json",
    ]


def test_a_tag_from_before_the_contract_says_so(repository: Repository) -> None:
    (repository.home / "router" / "cli.py").write_text("raise SystemExit(2)")
    repository.commit(DOCUMENT)
    repository.git("tag", "v0")
    compared = repository.compare()
    assert compared.returncode == 0
    assert "v0 has no `router contract asyncapi`" in compared.stdout
