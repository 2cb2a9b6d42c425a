"""What a new user stumbled over: what was done is told as done, the worst comes first, and a reader
who stops is no answer.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.operate.commands.doctor import WORST_FIRST
from router.shell.exit_codes import NOT_WRITTEN, OUTPUT_CLOSED
from tests.support.broker import Broker
from tests.support.cli import COMMAND, call_command, clean_environment

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def bare() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_what_apply_made_is_told_as_made_and_what_the_doctor_finds_begins_with_the_worst(
    bare: Broker,
) -> None:
    at = ("--nats-url", bare.url)
    ended = call_command("doctor", *at)
    verdicts = [
        line.split()[0]
        for line in ended.out.splitlines()
        if line.split() and line.split()[0] in WORST_FIRST
    ]
    assert verdicts == sorted(verdicts, key=WORST_FIRST.index)
    assert (
        ended.out.splitlines()[-1]
        == f"{verdicts.count('fail')} failed, 1 warning, {verdicts.count('ok')} ok"
    )
    made = call_command("topology", "apply", *at)
    assert "made" in made.out
    assert "missing" not in made.out
    assert "nothing to do" in call_command("topology", "apply", *at).out


def test_a_reader_who_stops_is_not_told_as_an_answer() -> None:
    command = [*COMMAND, "topology", "export"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (OUTPUT_CLOSED, b"")


@pytest.mark.parametrize("arguments", ["--help", "--version", "topology export", "config --json"])
def test_a_full_disk_is_not_told_as_an_answer(arguments: str) -> None:
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            timeout=120,
            check=False,
        )
    assert ended.returncode == NOT_WRITTEN
    assert ended.stderr.decode().splitlines() == [
        (
            "router: what the command writes: No space left on device: make room; what is "
            "missing was not written"
        )
    ]


@pytest.mark.parametrize("buffered", [True, False])
def test_a_log_of_both_outputs_on_a_full_disk_is_not_told_as_an_answer(buffered: bool) -> None:
    """As cron writes it: there is no room for the line either."""
    environ = {
        name: value for name, value in clean_environment().items() if name != "PYTHONUNBUFFERED"
    }
    environ |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, "--version"], stdout=full, stderr=full, env=environ, timeout=120, check=False
        )
    assert ended.returncode == NOT_WRITTEN


def test_the_version_is_an_option_too() -> None:
    ended = call_command("--version")
    assert (ended.status, ended.out) == (0, call_command("version").out)


def test_help_stands_in_panels_and_no_two_commands_say_the_same() -> None:
    help_ = call_command("--help").out
    assert all(
        f"─ {panel} ─" in help_
        for panel in (
            "Run",
            "Ask and look",
            "Policies, extensions, providers",
            "Usage",
            "Set up and check",
        )
    )
    assert "answer requests until SIGTERM" in help_
    assert "Answer assignments until" in help_
