"""A command that changes several things and fails in the middle tells what stands; what fails of a
project stops nothing else.
"""

import asyncio
from pathlib import Path

import pytest

from router.cli.project import command_process
from router.cli.project.command_process import CommandProcess
from router.cli.project.dev_server import FILE, read_example
from router.core.errors import Misconfigured
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.shell.exit_codes import NO
from tests.support.broker import Broker
from tests.support.cli import call_command_async


async def test_a_topology_that_stands_in_part_is_told_and_audited() -> None:
    """Nothing was printed, and no audit event stored, of the streams that were made before the one
    that the server refused.
    """
    with Broker() as broker:
        connection = await connect({"servers": [broker.url]})
        taken = {"name": "TAKEN", "subjects": ["$KV.ROUTER_POLICIES.>"]}
        await JetStream(connection).ask("STREAM.CREATE.TAKEN", taken)
        ended = await call_command_async("topology", "apply", "--json", "--nats-url", broker.url)
        audited = await call_command_async("audit", "--json", "--nats-url", broker.url)
        await connection.close()
    assert (ended.status, "10065" in ended.err) == (NO, True), ended.err
    made = [line["name"] for line in ended.lines]
    assert "ROUTER_DECIDE" in made
    assert "KV_ROUTER_POLICIES" not in made
    assert [line["command"] for line in audited.lines] == ["topology apply"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"tenant_id": "\xfc"}',
        b"[" * 100_000,
        b'{"tenant_id": "a", "message_type": "b", "payload": %d}' % 10**30,
    ],
)
def test_a_request_that_cannot_be_read_is_told_and_the_project_goes_on(
    data: bytes, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(Misconfigured, match=FILE):
        read_example(tmp_path)


async def test_a_command_that_does_not_become_ready_is_told_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All of `router dev` ended with a traceback."""
    monkeypatch.setattr(command_process, "READY_WITHIN_S", 0.5)
    (tmp_path / "waiting.py").write_text("import time\ntime.sleep(3600)\n")
    process = CommandProcess(tmp_path, "worker.ready", lambda _: None, lambda _: None, {})
    async with asyncio.timeout(120):
        assert await process.start("worker", "waiting:answer") is None
    assert "worker is not ready after 0.5 s" in capfd.readouterr().err
