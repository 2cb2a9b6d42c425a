"""`router worker`, `router workers`, `router assignments`, as processes, on one served router."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from router import Client
from router.delivery.wire.api import JetStream
from router.work.assignments import find_assignment
from router.work.commands.workers import MAX_REFUSED
from router.work.commands.workers import _on_heartbeat as hear_beat
from router.work.model import Liveness
from tests.support.cli import (
    COMMAND,
    CommandResult,
    call_command,
    run_process,
    serve_router,
    table_words,
)
from tests.support.delivery import connected
from tests.support.waiting import until

ANSWERS = """
from router import StepResult

def twice(assignment):
    return StepResult(output=assignment.payload * 2)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("served")
    (directory / "router.toml").write_text("[acks]\nenabled = true\n")
    options = (
        "--embedded",
        "--http-port",
        "0",
        "--nats-port",
        "0",
        "--store",
        str(directory / "store"),
    )
    with serve_router(*options, "--config", str(directory / "router.toml")) as served:
        yield served.ready["nats_url"]


@contextmanager
def working(
    url: str, *arguments: str, cwd: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """`router worker …`, ready, with a durable of its own."""
    command = (*COMMAND, "worker", "--nats-url", url, *arguments)
    with run_process(*command, cwd=cwd) as (process, ready):
        assert ready["event"] == "worker.ready"
        yield process


def pushed(url: str, *request_ids: str, tenant: str = "acme") -> None:
    """Requests that ask for an assignment, all answered; not by the command, which would be a
    process for each.
    """

    async def ask() -> None:
        async with Client(url) as client:
            for request_id in request_ids:
                answer = await client.decide(
                    tenant_id=tenant,
                    message_type="chat",
                    payload="hello",
                    request_id=request_id,
                    push=True,
                    timeout=60.0,
                )
                assert answer.ok

    asyncio.run(ask())


def acknowledged(url: str, assignment_id: str) -> None:
    """Return once a worker's acknowledgement stands on the assignment."""

    async def look() -> None:
        async with connected(url) as connection:
            await until(lambda: _has_ack(JetStream(connection), assignment_id))

    asyncio.run(look())


async def _has_ack(jetstream: JetStream, assignment_id: str) -> bool:
    found = await find_assignment(jetstream, "ROUTER_ASSIGNMENTS_KNOWN", assignment_id)
    return found is not None and found.acknowledgement is not None


def next_line(process: "subprocess.Popen[str]") -> dict[str, object]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())  # type: ignore[no-any-return]


def test_an_echo_handles_what_is_pushed_and_the_assignment_shows_it(url: str) -> None:
    with working(url, "--echo", "--worker-id", "echo-1", "--latency-ms", "5") as worker:
        pushed(url, "r-echo")
        line = next_line(worker)
        assert (line["event"], line["status"], line["tenant_id"]) == (
            "worker.handled",
            "ok",
            "acme",
        )
    assignment_id = str(line["assignment_id"])
    acknowledged(url, assignment_id)
    shown = call_command("assignments", "show", assignment_id, "--json", "--nats-url", url).json
    assert (shown["request_id"], shown["status"]) == ("r-echo", "accepted")
    assert shown["assignment"]["job"] == {"type": "chat", "payload": "hello"}
    told = call_command("assignments", "show", assignment_id, "--nats-url", url).out
    assert {"accepted", "acme", "r-echo"} <= set(table_words(told))


def test_a_share_of_echoes_fails_when_asked_for(url: str) -> None:
    with working(url, "--echo", "--fail-rate", "1", "--durable", "failing") as worker:
        pushed(url, "r-failing")
        # what earlier tests pushed is this durable's too
        while (line := next_line(worker))["status"] == "ok":
            pass
    assert line["error_code"] == "2001"


def test_a_function_of_mine_answers(url: str, tmp_path: Path) -> None:
    (tmp_path / "my_answers.py").write_text(ANSWERS)
    with working(url, "my_answers:twice", "--durable", "twice", cwd=tmp_path) as worker:
        pushed(url, "r-twice")
        assert next_line(worker)["status"] == "ok"


def test_told_to_stop_a_worker_drains_and_ends_well(url: str) -> None:
    with working(url, "--echo", "--durable", "stopped") as worker:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(100) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--echo", "some:thing"),
        ("no_such_module:answer",),
        ("json",),
        ("json:nothing",),
        ("--echo", "--encoding", "xml"),
    ],
)
def test_a_worker_that_cannot_work_says_so_and_ends_with_2(wrong: tuple[str, ...]) -> None:
    ended = call_command("worker", *wrong)
    assert ended.status == 2
    assert ended.err


def test_workers_that_are_heard_are_listed(url: str) -> None:
    with working(
        url,
        "--echo",
        "--worker-id",
        "heard-1",
        "--slots",
        "4",
        "--heartbeat",
        "0.1",
        "--durable",
        "heard",
    ):
        told = listen_until_alive(url)
        listed = listen_until_alive(url, "--json")
    assert {"heard-1", "idle", "4"} <= set(table_words(told.out))
    (line,) = [line for line in listed.lines if line["worker_id"] == "heard-1"]
    assert (line["status"], line["capacity"], line["interval_ms"]) == ("idle", 4, 100)


def listen_until_alive(url: str, *options: str) -> CommandResult:
    """`router workers` once it says that a worker is alive: one that the machine holds up for 0.3 s
    is silent.
    """
    for _ in range(40):
        if (
            heard := call_command("workers", "--for", "0.5", *options, "--nats-url", url)
        ).status == 0:
            break
    assert heard.status == 0, heard.out
    return heard


def test_no_worker_is_a_no(nats_url: str) -> None:
    ended = call_command("workers", "--for", "0.1", "--nats-url", nats_url)
    assert (ended.status, ended.out) == (1, "no worker was heard within 0.1 s\n")


def test_a_heartbeat_that_cannot_be_taken_is_told_once() -> None:
    known, refused = Liveness(), dict[tuple[str | None, str], None]()
    for worker in (
        "gpu one",
        "gpu one",
        "gpu-1",
        *(f"gpu {number}" for number in range(2 * MAX_REFUSED)),
    ):
        hear_beat(
            known, refused, json.dumps({"worker_id": worker, "status": "idle"}).encode(), None
        )
    assert len(known) == 1
    assert ("gpu one", len(refused)) == (next(iter(refused))[0], MAX_REFUSED)


def test_assignments_are_listed_newest_first_and_chosen(url: str) -> None:
    pushed(url, "r-old", "r-new", tenant="initech")
    lines = call_command(
        "assignments",
        "--tenant",
        "initech",
        "--status",
        "unacknowledged",
        "--json",
        "--nats-url",
        url,
    ).lines
    assert [line["request_id"] for line in lines] == ["r-new", "r-old"]
    # the router does not listen, so there is no status
    assert [line.get("status") for line in lines] == [None, None]
    heard = {"ROUTER_ACKS__ENABLED": "true"}
    lines = call_command(
        "assignments", "--tenant", "initech", "--json", "--nats-url", url, environ=heard
    ).lines
    assert [line["status"] for line in lines] == ["unacknowledged", "unacknowledged"]
    assert (
        lines[0]["assignment_id"]
        in call_command("assignments", "--limit", "1", "--nats-url", url).out
    )
    assert (
        call_command(
            "assignments", "--tenant", "initech", "--status", "rejected", "--nats-url", url
        ).out
        == "no assignments\n"
    )


def test_an_unknown_assignment_is_a_no_and_an_unknown_status_wrong_use(url: str) -> None:
    assert call_command("assignments", "show", "unknown", "--nats-url", url).status == 1
    assert call_command("assignments", "--status", "done", "--nats-url", url).status == 2
