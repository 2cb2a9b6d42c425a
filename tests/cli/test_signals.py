"""A process that has nothing to reload, and is asked to."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from router.shell.signals import run_until_signal
from tests.support.observability import capture_log
from tests.support.waiting import until


@pytest.fixture
def lives_on() -> Iterator[None]:
    """A signal must not end the tests: neither one without a handler, nor a late one, which is to
    end the program.
    """
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("lives_on")
async def test_asked_to_reload_it_drains_and_ends_with_0_however_often_it_is_asked() -> None:
    draining, may_end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            draining.set()
            await may_end.wait()

    with capture_log() as lines:
        life = asyncio.create_task(run_until_signal(work()))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(draining.is_set)
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)  # the first of its kind does not hurry either
        await until(lambda: len(lines.all()) == 2)
        assert not life.done()
        may_end.set()
        assert await life == 0
        assert {(line["event"], line["error"]) for line in lines.all()} == {
            ("reload.refused", "a reload needs --processes 2 or more: this process drains and ends")
        }


LATE = """
import asyncio, os, signal
from router.shell.signals import run_until_signal

async def main():
    loop = asyncio.get_running_loop()
    remove = loop.remove_signal_handler

    def remove_and_hear_another(number):
        removed = remove(number)
        os.kill(os.getpid(), number)
        return removed

    loop.remove_signal_handler = remove_and_hear_another
    loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
    return await run_until_signal(asyncio.sleep(60))

raise SystemExit(asyncio.run(main()))
"""


def test_a_second_signal_at_the_moment_asyncio_gives_the_signals_back_has_the_status_130() -> None:
    assert subprocess.run([sys.executable, "-c", LATE], check=False).returncode == 130
