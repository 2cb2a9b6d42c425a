"""`router dlq`: what fails is counted, sent again, taken along, thrown away."""

import asyncio
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.shell.exit_codes import NOT_WRITTEN
from tests.support.cli import COMMAND, CommandResult, call_command, clean_environment, table_words
from tests.support.dead_letters import DeadLetterStreams, a_dead_letter, a_stored_dead_letter
from tests.support.delivery import connected


@pytest.fixture
async def house(nats_url: str, prefix: str) -> AsyncIterator[DeadLetterStreams]:
    async with connected(nats_url) as connection:
        yield await DeadLetterStreams(JetStream(connection), prefix).build()


def _dlq(
    house: DeadLetterStreams, nats_url: str, *arguments: str, given: bytes = b"", **environ: str
) -> CommandResult:
    named = {"NATS_URL": nats_url, "ROUTER_STREAMS__DLQ__NAME": house.letters, **environ}
    return call_command("dlq", *arguments, given=given, environ=named)


async def test_dead_letters_are_grouped_by_their_cause(
    house: DeadLetterStreams, nats_url: str
) -> None:
    await house.store(2)
    await house.store(1, make=lambda message: a_dead_letter(message, reason="maxdeliver_exhausted"))
    lines = _dlq(house, nats_url, "list", "--group", "--json").lines
    assert [(line["reason"], line["error"], line["count"]) for line in lines] == [
        ("validation_failed", "SCHEMA_VALIDATION_FAILED", 2),
        ("maxdeliver_exhausted", "SCHEMA_VALIDATION_FAILED", 1),
    ]
    assert "maxdeliver_exhausted" in table_words(_dlq(house, nats_url, "list", "--group").out)
    counted = _dlq(house, nats_url, "stats", "--json").json
    assert (counted["letters"], [kind["count"] for kind in counted["kinds"]]) == (3, [2, 1])
    assert f"{house.letters}: 3 dead letters" in _dlq(house, nats_url, "stats").out


async def test_dead_letters_are_sent_again_by_number_and_by_filter(
    house: DeadLetterStreams, nats_url: str
) -> None:
    await house.store(3)
    rehearsed = _dlq(house, nats_url, "replay", "--all", "--dry-run")
    assert (rehearsed.status, rehearsed.out.split(";")[0]) == (0, "3 would be sent again, 0 kept")
    assert await house.left() == [1, 2, 3]
    told = _dlq(house, nats_url, "replay", "2", "--json")
    assert (told.status, told.json["sent"], await house.left()) == (0, 1, [1, 3])
    told = _dlq(house, nats_url, "replay", "--reason", "validation_failed", "--rate", "1000")
    assert (told.status, told.out, await house.left()) == (
        0,
        "2 sent again, 0 kept\nwhat fails again is a new dead letter: `router dlq list` shows it\n",
        [],
    )


async def test_what_cannot_be_sent_is_told_with_its_cause_and_status_1(
    house: DeadLetterStreams, nats_url: str
) -> None:
    await house.store(1, make=lambda _: a_stored_dead_letter(b"\xff", f"{house.subject}.dlq"))
    await house.store(1, headers={"x-replay-count": "1"})
    told = _dlq(house, nats_url, "replay", "--all", "--max-replays", "1", "--json")
    assert told.status == 1
    causes = [(kept["cause"], kept["sequences"]) for kept in told.json["kept"]]
    assert causes == [
        ("it is no dead letter of ours", [1]),
        ("it was replayed 1 times already", [2]),
    ]
    assert "no dead letter of ours" in _dlq(house, nats_url, "replay", "1", "9").out


async def test_one_payload_is_mended_in_an_editor_and_sent(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path
) -> None:
    await house.store(2)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys, pathlib; p = pathlib.Path(sys.argv[1]); "
        "p.write_text(p.read_text().replace('0', '42'))"
    )
    told = _dlq(
        house, nats_url, "replay", "1", "--edit", "--json", EDITOR=f"{sys.executable} {editor}"
    )
    assert told.json["sent"] == 1
    assert [message.data for message in await house.sent()] == [b'{"n":42}']
    unchanged = _dlq(house, nats_url, "replay", "2", "--edit", EDITOR="true")
    assert (unchanged.status, await house.left()) == (1, [2])
    assert "nothing was changed" in unchanged.err


async def test_dead_letters_are_thrown_away_only_after_a_yes(
    house: DeadLetterStreams, nats_url: str
) -> None:
    await house.store(3)
    refused = _dlq(house, nats_url, "discard", "1", "2", given=b"n\n")
    assert (refused.status, await house.left()) == (1, [1, 2, 3])
    assert "Discard 2 dead letters" in refused.err
    assert _dlq(house, nats_url, "discard", "1", given=b"y\n").status == 0
    assert _dlq(house, nats_url, "discard", "--all", "--yes", "--json").json == {"discarded": 2}
    assert await house.left() == []


async def test_dead_letters_are_exported_as_json_lines(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path
) -> None:
    await house.store(2, data=b"\x00\xff")
    lines = _dlq(house, nats_url, "export", "--all").lines
    assert [(line["sequence"], line["payload_encoding"]) for line in lines] == [
        (1, "base64"),
        (2, "base64"),
    ]
    file = tmp_path / "letters.jsonl"
    _dlq(house, nats_url, "export", "2", "-o", str(file))
    assert [orjson.loads(line)["sequence"] for line in file.read_bytes().splitlines()] == [2]
    assert json.loads(file.read_text())["letter"]["reason"] == "validation_failed"


async def test_only_its_owner_reads_an_export(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path
) -> None:
    await house.store(1)
    file = tmp_path / "letters.jsonl"
    file.write_text("an earlier one, which all may read")
    _dlq(house, nats_url, "export", "--all", "-o", str(file))
    assert (file.stat().st_mode & 0o777, len(file.read_bytes().splitlines())) == (0o600, 1)
    assert os.listdir(tmp_path) == [file.name]


async def test_an_export_that_breaks_off_leaves_the_earlier_one(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker goes away after the first of three dead letters."""
    await house.store(3)
    file = tmp_path / "letters.jsonl"
    _dlq(house, nats_url, "export", "1", "-o", str(file))
    earlier = file.read_bytes()

    async def break_off(_: object, write: Callable[[bytes], object], __: object) -> int:
        write(b"{}\n")
        raise BrokerUnavailable("gone")

    monkeypatch.setattr("router.operate.commands.dead_letters.replay.write_out", break_off)
    assert _dlq(house, nats_url, "export", "--all", "-o", str(file)).status == 3
    assert file.read_bytes() == earlier
    assert os.listdir(tmp_path) == [file.name]


async def test_an_export_that_has_no_room_leaves_the_earlier_one(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path
) -> None:
    await house.store(3)
    file = tmp_path / "letters.jsonl"
    file.write_text("an earlier one")
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("dlq", "export", "--all", "-o", str(file), "--nats-url", nats_url),
        env=clean_environment({"ROUTER_STREAMS__DLQ__NAME": house.letters}),
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)),
    )
    _, err = await process.communicate()
    assert process.returncode == NOT_WRITTEN
    assert (
        err.decode().splitlines()[-1]
        == f"router: {file}: File too large: make room; what is missing was not written"
    )
    assert (file.read_text(), os.listdir(tmp_path)) == ("an earlier one", [file.name])


async def test_an_export_goes_into_what_is_no_file(
    house: DeadLetterStreams, nats_url: str, tmp_path: Path
) -> None:
    """A pipe stays one, and a link leads to the file that it named."""
    await house.store(1)
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "letters.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _dlq(house, nats_url, "export", "--all", "-o", str(pipe))
    assert orjson.loads(os.read(reader, 65536))["sequence"] == 1
    os.close(reader)
    link.symlink_to(file)
    _dlq(house, nats_url, "export", "--all", "-o", str(link))
    assert (pipe.is_fifo(), link.is_symlink(), len(file.read_bytes().splitlines())) == (
        True,
        True,
        1,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("discard",),
        ("export",),
        ("replay", "1", "--all"),
        ("replay", "--all", "--edit"),
        ("replay", "--rate", "0", "--all"),
    ],
)
def test_dead_letters_must_be_said_and_wrong_use_is_status_2(arguments: tuple[str, ...]) -> None:
    assert call_command("dlq", *arguments).status == 2
