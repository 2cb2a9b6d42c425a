"""A router whose machine has a wrong clock: it goes by the server's, so no requester is told that
its request is too old.
"""

import signal
import sys
from pathlib import Path

import pytest

from router.sdk.client import Answer, Client
from tests.support.cli import ServedRouter, serve_router

CLOCKED = (sys.executable, "-m", "tests.support.clocked")
ANY_PORTS = ("--nats-port", "0", "--http-port", "0")
IMPATIENT = {"ROUTER_DECIDE__MAX_AGE_MS": "120000"}


async def ask(served: ServedRouter) -> list[Answer]:
    async with Client(served.ready["nats_url"]) as client:
        return [
            await client.decide(tenant_id="acme", message_type="chat", payload=number, timeout=60.0)
            for number in range(3)
        ]


@pytest.mark.parametrize("ahead_s", ["300", "-300"], ids=["ahead", "behind"])
async def test_a_request_is_as_old_as_the_server_says(ahead_s: str, tmp_path: Path) -> None:
    """Five minutes ahead: every request that named its inbox was refused as expired, and
    acknowledged.
    """
    environ = {**IMPATIENT, "CLOCK_AHEAD_S": ahead_s}
    with serve_router(
        "--embedded", *ANY_PORTS, "--store", str(tmp_path / "s"), command=CLOCKED, environ=environ
    ) as served:
        assert [answer.error for answer in await ask(served)] == [None, None, None]


async def test_a_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    with serve_router(
        "--embedded", *ANY_PORTS, "--store", str(tmp_path / "s"), command=CLOCKED, environ=IMPATIENT
    ) as served:
        for step in (signal.SIGUSR1, signal.SIGUSR2):
            served.process.send_signal(step)
            assert [answer.error for answer in await ask(served)] == [None, None, None]
