"""A service whose log or output cannot be written serves on: lines are counted, and told when there
is room again.
"""

import asyncio
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.support.broker import Broker
from tests.support.cli import ASK, COMMAND, call_command_async, clean_environment
from tests.support.ports import free_port
from tests.support.waiting import until

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def is_ready(http: str) -> bool:
    try:
        return urllib.request.urlopen(f"{http}/readyz", timeout=5).status == 200
    except OSError:
        return False


@contextmanager
def serve(url: str, port: int, full: str) -> Iterator[subprocess.Popen[bytes]]:
    """A router that logs each message, and whose outputs have no room."""
    command = [*COMMAND, "serve", "--nats-url", url, "--http-port", str(port)]
    with FULL.open("wb") as disk:
        environ = clean_environment({"ROUTER_LOG__LEVEL": "debug"})
        process = subprocess.Popen(
            command, stdout=disk if full == "both" else PIPE, stderr=disk, env=environ
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def count_lost(http: str) -> float:
    metrics = urllib.request.urlopen(f"{http}/metrics").read().decode()
    return float(
        next(
            line.split()[1]
            for line in metrics.splitlines()
            if line.startswith("router_log_lines_lost_total")
        )
    )


@pytest.mark.parametrize("full", ["stderr", "both"])
async def test_a_router_whose_log_has_no_room_starts_answers_and_ends_well(
    full: str, broker: Broker
) -> None:
    port = free_port()
    http = f"http://127.0.0.1:{port}"
    with serve(broker.url, port, full) as process:
        await until(
            lambda: process.poll() is not None or is_ready(http),
            within_s=60,
            what="the router is ready",
        )
        assert process.poll() is None
        answer = await call_command_async(*ASK, "--payload", "hi", "--nats-url", broker.url)
        # it is answered; there is no policy
        assert answer.json["error"]["code"] == "policy_not_found"
        assert count_lost(http) > 0
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0
