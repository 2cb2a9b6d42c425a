"""`router policy` on a real server: put, looked at, compared, rolled back, made equal to a
directory.
"""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from router.cli.app import app
from router.core.errors import Conflict
from router.policies.store import AuditedPolicies
from router.policies.sync import PolicySyncStep, apply_step
from tests.support.buckets import a_bucket
from tests.support.cli import CommandResult, table_words
from tests.support.policy_buckets import a_policy_of


class OperatorShell:
    """An operator with files, at a bucket of its own."""

    def __init__(self, files: Path, url: str, bucket: str) -> None:
        self.files = files
        self._environ = {"NATS_URL": url, "ROUTER_BUCKETS__POLICIES__NAME": bucket}

    def write(self, path: str, document: bytes) -> str:
        file = self.files / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document)
        return str(file)

    def policy(self, *arguments: str, given: bytes = b"") -> CommandResult:
        """In this process: a dozen commands a test would take as many seconds."""
        done = CliRunner().invoke(
            app, ["policy", *arguments], input=given, env=self._environ, catch_exceptions=False
        )
        return CommandResult(done.exit_code, done.stdout, done.stderr)

    def versions(self) -> dict[str, int]:
        return {
            f"{one['tenant']}/{one['policy']}": one["version"]
            for one in self.policy("list", "--json").lines
        }


@pytest.fixture
def shell(nats_url: str, prefix: str, tmp_path: Path) -> OperatorShell:
    asyncio.run(_make(nats_url, prefix))
    return OperatorShell(tmp_path, nats_url, prefix)


async def _make(url: str, bucket: str) -> None:
    async with a_bucket(url, bucket):
        pass


def test_a_policy_is_put_shown_compared_and_rolled_back(shell: OperatorShell) -> None:
    one, two = (
        shell.write("one.json", a_policy_of("openai")),
        shell.write("two.json", a_policy_of("openai", timeout_ms=100)),
    )
    assert (
        shell.policy("put", "acme", "default", one, "--author", "ann").out
        == "acme/default version 1: in force\n"
    )
    assert (
        shell.policy(
            "put", "acme", "default", two, "--replaces", "1", "--author", "bob", "--json"
        ).json["version"]
        == 2
    )

    differs = shell.policy("diff", "acme", "default", "1", "2", "--json")
    assert (differs.status, differs.lines) == (1, [{"path": "timeout_ms", "after": 100}])

    assert shell.policy("rollback", "acme", "default", "--to", "1", "--author", "eve").status == 0
    assert shell.policy("diff", "acme", "default", "1", "3").out == "they say the same\n"
    shown = shell.policy("show", "acme", "default", "--json").json
    assert (shown["version"], shown["author"], shown["document"]) == (
        3,
        "eve",
        json.loads(a_policy_of("openai")),
    )
    assert shell.policy("show", "acme", "default", "--version", "2").json["timeout_ms"] == 100

    history = shell.policy("history", "acme", "default")
    assert [word for word in table_words(history.out) if word in {"ann", "bob", "eve"}] == [
        "ann",
        "bob",
        "eve",
    ]
    assert "the last 64 are kept" in history.out


def test_what_is_deleted_meets_the_shared_one_and_its_history_stays(shell: OperatorShell) -> None:
    own, shared = (
        shell.write("own.json", a_policy_of("own")),
        shell.write("shared.json", a_policy_of("shared")),
    )
    shell.policy("put", "acme", "default", own)
    shell.policy("put", "_shared", "default", shared)
    assert shell.policy("delete", "acme", "default", "--replaces", "7").status == 1
    assert shell.policy("delete", "acme", "default").status == 0
    assert shell.policy("show", "acme", "default", "--json").json["tenant"] == "_shared"
    assert shell.policy("list").out.count("default") == 1
    assert [
        one["version"] for one in shell.policy("history", "acme", "default", "--json").lines
    ] == [1, "deleted"]
    missing = shell.policy("show", "acme", "nope")
    assert (missing.status, "neither acme/nope nor _shared/nope" in missing.err) == (1, True)


def test_a_document_may_come_from_standard_input_and_what_is_wrong_is_said_place_by_place(
    shell: OperatorShell,
) -> None:
    bad = b'{"providers": [{"name": "x", "weight": -1}], "zz": 1}'
    refused = shell.policy("put", "acme", "default", "-", "--json", given=bad)
    assert (refused.status, [error["path"] for error in refused.json["errors"]]) == (
        1,
        ["providers[0].weight", "zz"],
    )
    assert shell.policy("put", "acme", "default", "/nowhere.json").status == 2
    assert shell.policy("put", "acme", "default", "-", given=a_policy_of("x")).status == 0


def test_sync_makes_the_server_equal_to_a_directory_or_changes_nothing(
    shell: OperatorShell,
) -> None:
    shell.policy("put", "acme", "old", shell.write("old.json", a_policy_of("old")))
    root = shell.files / "git"
    shell.write("git/acme/default.json", a_policy_of("a"))
    bad = shell.write("git/_shared/bad.json", b'{"providers": []}')

    refused = shell.policy("sync", str(root))
    assert (refused.status, "_shared/bad.json: providers" in refused.err) == (1, True)
    Path(bad).unlink()
    planned = shell.policy("sync", str(root), "--dry-run", "--json")
    assert planned.status == 1
    assert [(step["action"], step["policy"]) for step in planned.lines] == [
        ("put", "default"),
        ("delete", "old"),
    ]
    assert shell.versions() == {"acme/old": 1}

    assert shell.policy("sync", str(root)).status == 0
    assert shell.versions() == {"acme/default": 1}
    assert shell.policy("sync", str(root), "--dry-run").out == "nothing to do: all is equal\n"


def test_a_sync_that_ends_early_says_how_far_it_came(
    shell: OperatorShell, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def apply_first(policies: AuditedPolicies, step: PolicySyncStep, author: str) -> None:
        if step.key[1] != "a":
            raise Conflict("another write came first")
        await apply_step(policies, step, author)

    monkeypatch.setattr("router.policies.commands.write.apply_step", apply_first)
    for name in "abc":
        shell.write(f"git/acme/{name}.json", a_policy_of("one"))
    ended = shell.policy("sync", str(shell.files / "git"))
    assert (ended.status, "the first 1 of 3 changes were made" in ended.err) == (1, True)
    assert shell.versions() == {"acme/a": 1}


def test_an_empty_directory_deletes_nothing(shell: OperatorShell) -> None:
    shell.policy("put", "acme", "default", shell.write("one.json", a_policy_of("a")))
    (shell.files / "empty").mkdir()
    refused = shell.policy("sync", str(shell.files / "empty"))
    assert (refused.status, "there is no policy in it" in refused.err) == (1, True)
    assert shell.versions() == {"acme/default": 1}


def test_a_bucket_that_is_not_there_is_said_and_what_to_do(nats_url: str, tmp_path: Path) -> None:
    shell = OperatorShell(tmp_path, nats_url, "NOT_THERE")
    ended = shell.policy("list")
    assert ended.status == 1
    assert "router topology apply" in ended.err
