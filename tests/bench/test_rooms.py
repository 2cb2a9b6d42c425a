"""A profile by rooms."""

import cProfile
from pathlib import Path

import pytest

from bench.rooms import main, room_of, rooms, table
from router.decide.model.read import read
from tests.support.requests import a_body, a_message

MESSAGES = 50


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Some requests, read."""
    message, file = a_message(a_body()), tmp_path / "read.prof"
    with cProfile.Profile() as told:
        for _ in range(MESSAGES):
            read(message)
    told.dump_stats(file)
    return file


def test_what_c_does_is_counted_where_it_was_called_from(profile: Path) -> None:
    found = rooms(profile)
    assert found["router/decide/model"][1] % MESSAGES == 0
    # its own calls alone are a dozen; the rest are `get`, `isdisjoint` …
    assert found["router/decide/model"][1] > 20 * MESSAGES
    assert "router/contracts" in found
    assert "~" not in "".join(found)


def test_the_table_has_every_call(profile: Path) -> None:
    found = rooms(profile)
    shown = table(found, MESSAGES)
    together = sum(calls for _, calls in found.values()) / MESSAGES
    assert f"| together | {together:.1f} | |" in shown
    assert shown.index("router/decide/model") < shown.index("all others")


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("/x/router/decide/model/read.py", "router/decide/model"),
        ("/home/router/y/router/delivery/frame_parser.py", "router/delivery"),
        ("/x/router/core/ids.py", "router/core/ids"),
        ("/x/site-packages/nats/aio/client.py", "nats"),
        ("/x/lib/python3.11/asyncio/base_events.py", "asyncio"),
        ("/x/lib/python3.11/json/decoder.py", "elsewhere"),
    ],
)
def test_a_room_is_a_directory_of_ours_or_a_package(file: str, room: str) -> None:
    assert room_of(file) == room


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "no.prof"), "--messages", "1"]) == 2
    assert "is no file" in capsys.readouterr().err
