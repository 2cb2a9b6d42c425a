"""A file that a command cannot write is told in a line, by its name, before anything is done; an
earlier one stays as it was.
"""

import errno
import os
from pathlib import Path

import pytest

from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.shell.exit_codes import USAGE
from tests.support.cli import call_command, call_command_async, router
from tests.support.lake_gold import Use, a_warehouse

MISSING, NO_DIRECTORY = os.strerror(errno.ENOENT), os.strerror(errno.ENOTDIR)


@pytest.fixture
def gold(tmp_path: Path) -> str:
    a_warehouse(tmp_path / "w", [Use()])
    return str(tmp_path / "w")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ("contract schemas {file}/within", NO_DIRECTORY),
        ("topology export --dir {file}/within", NO_DIRECTORY),
        ("usage export --warehouse {gold} --period 2026-11 --output {missing}/usage.csv", MISSING),
        (
            (
                "usage export --warehouse {gold} --period 2026-11 --format parquet --output "
                "{missing}/usage.parquet"
            ),
            MISSING,
        ),
        ("usage report --warehouse {gold} --html {missing}/usage.html", MISSING),
    ],
)
def test_a_file_that_cannot_be_written_is_named_and_nothing_is_tried(
    arguments: str, cause: str, gold: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("of before")
    words = arguments.format(file=file, gold=gold, missing=tmp_path / "missing").split()
    ended, named = call_command(*words), words[-1]
    assert (ended.status, ended.out, ended.err) == (
        USAGE,
        "",
        f"router: {named} cannot be used: {cause}\n",
    )
    assert file.read_text() == "of before"


def test_a_store_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = tmp_path / "file" / "store"
    ended = router("serve", "--embedded", "--nats-port", "0", "--store", str(store))
    assert (ended.status, ended.out, ended.err) == (
        USAGE,
        "",
        f"router: {store} cannot be used: {NO_DIRECTORY}\n",
    )


async def test_dead_letters_are_not_exported_into_a_directory_that_is_not_there(
    nats_url: str, tmp_path: Path
) -> None:
    named = tmp_path / "missing" / "letters.jsonl"
    ended = await call_command_async(
        "dlq", "export", "--all", "-o", str(named), "--nats-url", nats_url
    )
    assert (ended.status, ended.err) == (USAGE, f"router: {named} cannot be used: {MISSING}\n")


async def test_no_load_is_published_whose_truth_cannot_be_written(
    nats_url: str, prefix: str, tmp_path: Path
) -> None:
    named, stream = tmp_path / "missing" / "truth.json", f"{prefix}_USAGE"
    wanted = ("usage", "generate", "--events", "10", "--truth", str(named), "--nats-url", nats_url)
    ended = await call_command_async(*wanted, environ={"ROUTER_STREAMS__USAGE__NAME": stream})
    assert (ended.status, ended.err) == (USAGE, f"router: {named} cannot be used: {MISSING}\n")
    connection = await connect({"servers": [nats_url]})
    assert await JetStream(connection).stream(stream) is None
    await connection.close()


@pytest.mark.parametrize("command", ["export --period 2026-11 --output", "report --html"])
def test_a_link_leads_to_the_file_that_it_named(command: str, gold: str, tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "usage"
    link.symlink_to(file)
    assert call_command("usage", *command.split(), str(link), "--warehouse", gold).status == 0
    assert (link.is_symlink(), file.stat().st_size > 0) == (True, True)


@pytest.mark.parametrize(
    "command", ["usage export --period 2026-11 --output", "usage report --json --html"]
)
def test_what_is_written_to_the_output_goes_into_its_pipe(command: str, gold: str) -> None:
    ended = router(*command.split(), "/dev/stdout", "--warehouse", gold)
    assert ended.status == 0, ended.err
    assert ended.out.startswith(("BilledCost", '"BilledCost"', "<!doctype html>"))


def test_a_page_that_cannot_be_made_leaves_the_earlier_one(
    gold: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "usage.html"
    page.write_text("of before")

    def fail(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("router.lake.report.page.render_page", fail)
    assert call_command("usage", "report", "--warehouse", gold, "--html", str(page)).status != 0
    assert (page.read_text(), [one.name for one in tmp_path.iterdir() if "usage" in one.name]) == (
        "of before",
        [page.name],
    )


def test_a_file_of_the_warehouse_that_is_gone_is_told_as_the_warehouses(
    gold: str, tmp_path: Path
) -> None:
    (lost,) = Path(gold).rglob("part.parquet")
    lost.unlink()
    ended = call_command(
        "usage",
        "export",
        "--warehouse",
        gold,
        "--period",
        "2026-11",
        "--output",
        str(tmp_path / "usage.csv"),
    )
    assert (ended.status, ended.err.count("\n"), str(lost.name) in ended.err) == (1, 1, True)
    assert ended.err.startswith(f"router: {gold}: ")
    assert not (tmp_path / "usage.csv").exists()
