"""A crash point is nothing until the environment names it; then the process ends at that pass,
unflushed.
"""

import os
import subprocess
import sys

import pytest

from router.core.crashpoints import KILLED_EXIT_CODE

PASSES = (
    "from router.core.crashpoints import crashpoint\nfor name in 'aba': crashpoint(name)\n"
    "print('alive', flush=True)"
)
SENT = (
    "import asyncio\nfrom router.core.crashpoints import crashpoint_sent\n"
    "async def main():\n"
    "    asyncio.get_running_loop().call_soon(lambda: print('sent', flush=True))\n"
    "    crashpoint_sent('a')\n    await asyncio.sleep(60)\n"
    "asyncio.run(main())"
)


def run(program: str, point: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CRASHPOINT": point},
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(
    ("point", "ending"), [("", (0, "alive\n")), ("c", (0, "alive\n")), ("a:3", (0, "alive\n"))]
)
def test_the_process_lives_where_no_point_is_reached(point: str, ending: tuple[int, str]) -> None:
    assert run(PASSES, point) == ending


@pytest.mark.parametrize("point", ["a", "b:1", "a:2"])
def test_it_ends_at_the_pass_that_is_named(point: str) -> None:
    assert run(PASSES, point) == (KILLED_EXIT_CODE, "")


def test_what_was_posted_before_leaves_first() -> None:
    assert run(SENT, "a") == (KILLED_EXIT_CODE, "sent\n")
