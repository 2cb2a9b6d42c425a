"""`router bench load` on a real router: figures that add up, a router that stops, and what it needs.

No test depends on speed: what is due at which time is given, and a stall is as long as the requests
that came due in it say.
"""

import asyncio
import json
import os
import pty
import re
import shlex
import signal
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.docs.blocks import read_blocks
from tests.support.broker import Broker
from tests.support.cli import (
    COMMAND,
    IMPATIENT,
    CommandResult,
    ServedRouter,
    call_command,
    call_command_async,
    clean_environment,
    router,
    serve_router,
)
from tests.support.patient_client import connect_patiently
from tests.support.policy import a_document, a_provider
from tests.support.waiting import slack

# a busy machine takes its time, and no request is refused for it
UNHURRIED = {"ROUTER_ADMISSION__PATIENCE_MS": "600000"}
DECIDE = "beamline.router.v1.decide"
SAMPLES = "router/policies/sample_policies"
LOAD = ("bench", "load", "--json")
QUICK = ("--for", "1s", "--timeout", "60", "--no-bare")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = str(tmp_path_factory.mktemp("store"))
    with serve_router(
        *("--embedded", "--http-port", "0", "--nats-port", "0", "--store", store), environ=UNHURRIED
    ) as served:
        yield served.ready["nats_url"]


def busy_seconds(quiet: int) -> int:
    """How long a load lasts, so that what a test does within it is within it on this machine, too:
    whole seconds, by three.
    """
    return quiet * ceil(slack())


@contextmanager
def a_router_on(url: str, **environ: str) -> Iterator[ServedRouter]:
    """A router that is no parent of its server, so that it can be stopped alone."""
    with serve_router(
        *("--nats-url", url, "--http-port", "0", "--policies", SAMPLES),
        environ={**UNHURRIED, **environ},
    ) as one:
        yield one


def figures_of(ended: CommandResult) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    figures: dict[str, Any] = ended.json
    assert figures["sent"] == figures["answered"] + sum(figures["errors"].values())
    return figures


# -- figures ---------------------------------------------------------------------------------------


def test_a_closed_loop_has_figures_that_add_up_and_a_bare_loop_beside_them(url: str) -> None:
    figures = figures_of(call_command(*LOAD, "--for", "1s", "--timeout", "60", "--nats-url", url))
    assert (figures["in_flight"], figures["rate"], figures["processes"]) == (256, None, 1)
    assert figures["answered"] > 0
    assert (figures["errors"], figures["warnings"], figures["interrupted"]) == ({}, {}, False)
    assert figures["requests_per_s"] > 0
    latency, bare = figures["latency_ms"], figures["bare"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
    assert bare["requests_per_s"] > 0
    assert bare["ratios"]["requests_per_s"] == pytest.approx(
        figures["requests_per_s"] / bare["requests_per_s"], abs=0.01
    )


def test_an_open_loop_sends_what_is_due_from_several_processes(url: str, tmp_path: Path) -> None:
    lines = [
        {"tenant_id": "acme", "message_type": "chat", "payload": n, "policy_id": policy}
        for n, policy in enumerate(("default", "default", "nowhere"))
    ]
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    figures = figures_of(
        call_command(
            *(*LOAD, *QUICK, "--requests", str(file), "--rate", "90", "--processes", "2"),
            *("--nats-url", url),
        )
    )
    assert (figures["sent"], figures["answered"]) == (90, 60)
    assert figures["errors"] == {"policy_not_found": 30}
    assert figures["late_ms"]["max"] is not None
    assert figures["bare"] is None


def test_people_see_a_table_and_a_line_while_it_runs(url: str) -> None:
    terminal, given_to_the_command = pty.openpty()
    options = ("--for", "3s", "--rate", "20", "--timeout", "60", "--nats-url", url)
    command = [*COMMAND, "bench", "load", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=given_to_the_command, env=clean_environment()
    )
    out, _ = process.communicate(timeout=120)
    os.close(given_to_the_command)
    screen = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert process.returncode == 0
    assert re.search(r"load: \d+ of 4 s +\d+/s +p50 .*errors 0\r\n", screen), screen
    assert re.search(r"decisions/s +\d+ +\d+ +\d", out.decode())
    assert "60 sent, 60 answered, 0 errors" in out.decode()


async def test_pushed_assignments_are_counted_as_answers_promise_them(broker: Broker) -> None:
    load = (*LOAD, *QUICK, "--rate", "30", "--push", "--nats-url", broker.url)
    with a_router_on(broker.url):
        figures = figures_of(await call_command_async(*load))
        promised = await _count_stored(broker.url, "ROUTER_ASSIGNMENTS")
    assert (figures["answered"], figures["assignments"]) == (30, 30)
    # each of the warm-up, of the measured second, and the first one
    assert promised == 30 + 30 + 1
    with a_router_on(broker.url, ROUTER_ASSIGNMENT__ENABLED="false"):
        figures = figures_of(await call_command_async(*load))
    assert (figures["answered"], figures["assignments"]) == (30, 0)
    assert figures["warnings"] == {"assignment_skipped": 30}


async def _count_stored(url: str, stream: str) -> int:
    client = await connect_patiently(url)
    info = await client.jetstream().stream_info(stream)
    await client.close()
    return info.state.messages


def test_a_policy_is_there_for_the_run_alone(url: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(a_document(a_provider("openai"))))
    at = ("--nats-url", url)
    figures = figures_of(
        call_command(*LOAD, *QUICK, "--policy", str(file), "--rate", "30", "--tenant", "acme", *at)
    )
    assert (figures["answered"], figures["errors"]) == (30, {})
    assert "bench-load" not in call_command("policy", "list", "--json", *at).out
    written = call_command("audit", "--json", *at).lines
    kept = [one for one in written if "bench-load" in json.dumps(one)]
    assert len(kept) == 2, written


# -- a router that stops ---------------------------------------------------------------------------


async def test_a_router_that_stands_still_is_in_the_latency_of_all_that_came_due(
    broker: Broker,
) -> None:
    """Stopped for a third of the time: what comes due then waits up to that long, though the load
    itself has sent each on time.
    """
    for_s = busy_seconds(3)
    with a_router_on(broker.url) as served:
        options = ("--rate", "50", "--for", f"{for_s}s", "--timeout", "60")
        async with _load_beside(broker.url, *options) as run:
            await run.hear(80)
            served.process.send_signal(signal.SIGSTOP)
            try:
                last = 50 + 50 * for_s - 1  # a second warms up
                await run.hear(min(run.newest + 50 * for_s // 3, last))
            finally:
                served.process.send_signal(signal.SIGCONT)
            figures = figures_of(await run.end())
    assert (figures["sent"], figures["answered"]) == (50 * for_s, 50 * for_s)
    latency = figures["latency_ms"]
    assert latency["max"] >= 900
    assert latency["p99"] >= 900  # of 150 the second from the top


async def test_a_load_that_stands_still_itself_counts_from_when_its_requests_were_due(
    broker: Broker,
) -> None:
    """The process that sends is stopped for a third of the time: what comes due then is sent late,
    and all of it is part of its latency (no coordinated omission).
    """
    for_s = busy_seconds(3)
    with a_router_on(broker.url):
        options = ("--rate", "50", "--for", f"{for_s}s", "--timeout", "60")
        async with _load_beside(broker.url, *options) as run:
            await run.hear(80)
            (sender,) = run.list_children()
            os.kill(sender, signal.SIGSTOP)
            await asyncio.sleep(for_s / 3)
            os.kill(sender, signal.SIGCONT)
            figures = figures_of(await run.end())
    assert (figures["sent"], figures["answered"]) == (50 * for_s, 50 * for_s)
    assert figures["late_ms"]["p99"] >= 900
    assert figures["latency_ms"]["p99"] >= 900


async def test_requests_that_a_router_does_not_answer_count_as_timeouts(broker: Broker) -> None:
    for_s = busy_seconds(4)
    with a_router_on(broker.url) as served:
        options = ("--rate", "20", "--for", f"{for_s}s", "--timeout", "3")
        async with _load_beside(broker.url, *options) as run:
            await run.hear(40)
            served.process.kill()
            figures = figures_of(await run.end())
    assert figures["sent"] == 20 * for_s
    assert 0 < figures["errors"]["timeout"] <= 20 * for_s
    assert figures["latency_ms"]["max"] >= 3000
    assert figures["latency_ms"]["p99"] == pytest.approx(3000, rel=0.01)


async def test_a_broker_that_goes_away_is_an_error_of_each_request_that_came_due() -> None:
    """What is due meanwhile is not kept to be sent all at once when it is back."""
    broker, for_s = Broker().start(), busy_seconds(4)
    try:
        with a_router_on(broker.url):
            options = ("--rate", "20", "--for", f"{for_s}s", "--timeout", "1")
            async with _load_beside(broker.url, *options) as run:
                await run.hear(40)
                broker.kill()
                figures = figures_of(await run.end())
    finally:
        broker.remove()
    assert figures["sent"] == 20 * for_s
    assert figures["errors"]["broker_unavailable"] > 0
    assert figures["errors"].keys() <= {"broker_unavailable", "timeout"}


async def test_ctrl_c_ends_it_and_shows_what_was_measured(broker: Broker) -> None:
    with a_router_on(broker.url):
        async with _load_beside(broker.url, "--rate", "50", "--for", "10m") as run:
            await run.hear(100)
            run.process.send_signal(signal.SIGINT)
            ended = await run.end()
    assert (ended.status, ended.err) == (130, "")
    figures = ended.json
    assert figures["interrupted"] is True
    assert figures["sent"] >= 49
    assert figures["sent"] == figures["answered"] + sum(figures["errors"].values())
    assert 0 < figures["seconds"] < 600


class RunningLoad:
    """`router bench load`, and the numbers of its requests as they pass."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.newest = -1
        self._heard = asyncio.Condition()

    async def on_request(self, message: Any) -> None:
        """The id ends with the number in its process; that of the first one has a name before it."""
        if found := re.search(rb'"load-[0-9a-f]+-\d+-(\d+)"', message.data):
            async with self._heard:
                self.newest = int(found[1])
                self._heard.notify_all()

    async def hear(self, number: int) -> None:
        async with asyncio.timeout(120), self._heard:
            await self._heard.wait_for(lambda: self.newest >= number)

    def list_children(self) -> list[int]:
        """The pids of the processes that send."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for path in tasks for child in path.read_text().split()]

    async def end(self) -> CommandResult:
        out, err = await asyncio.wait_for(self.process.communicate(), 120)
        assert self.process.returncode is not None
        return CommandResult(self.process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def _load_beside(url: str, *options: str) -> AsyncIterator[RunningLoad]:
    client = await connect_patiently(url)
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *LOAD, "--no-bare", "--nats-url", url, *options),
        env=clean_environment(),
        stdout=PIPE,
        stderr=PIPE,
        # the parent of the tests may ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    run = RunningLoad(process)
    await client.subscribe(DECIDE, cb=run.on_request)
    await client.flush()
    try:
        yield run
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await client.close()


# -- what it needs ---------------------------------------------------------------------------------


async def test_a_request_that_no_router_takes_is_refused_before_the_first_is_sent(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    file = tmp_path / "requests.jsonl"
    right = {"tenant_id": "acme", "message_type": "chat", "payload": 1}
    file.write_text("\n".join(map(json.dumps, (right, right, {**right, "message_type": 7}))))
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    await nc.subscribe(">", cb=hear)
    await nc.flush()
    ended = await call_command_async(*LOAD, "--requests", str(file), "--nats-url", broker.url)
    await nc.flush()
    assert (ended.status, ended.out) == (2, "")
    # the frame around it is as narrow as the terminal
    told = "".join(ended.err.replace("│", "").split())
    assert "requests.jsonl,line3:Invalidfield:message_typemustbe" in told
    assert [subject for subject in heard if subject == DECIDE] == []


@pytest.mark.parametrize(
    "options",
    [
        ("--rate", "5", "--in-flight", "5"),
        ("--in-flight", "1", "--processes", "2"),
        ("--for", "soon"),
        ("--rate", "0"),
        ("--subject", "a.*"),
        ("--tenant", "_x"),
        ("--requests", "/nowhere"),
        ("--requests", "x", "--payload", "y"),
        ("--requests", "x", "--type", "y"),
        ("--policy", "x", "--policy-id", "y"),
        ("--policy", "/nowhere"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_status_2(options: tuple[str, ...]) -> None:
    assert call_command(*LOAD, *options).status == 2


def test_a_broker_that_is_away_is_status_3() -> None:
    ended = call_command(*LOAD, "--nats-url", "nats://127.0.0.1:1", environ=IMPATIENT)
    assert (ended.status, ended.out) == (3, "")
    assert "no NATS server answers at nats://127.0.0.1:1" in ended.err


def test_without_a_router_it_says_so_at_once_and_what_a_policy_needs(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(a_document(a_provider("openai"))))
    broker = Broker().start()
    try:
        alone = call_command(*LOAD, "--nats-url", broker.url)
        with_policy = call_command(*LOAD, "--policy", str(file), "--nats-url", broker.url)
    finally:
        broker.remove()
    assert (alone.status, with_policy.status) == (3, 3)
    assert f"no subscriber on {DECIDE}" in alone.err
    assert "--policy-id" in with_policy.err
    assert "no router listens on beamline.router.v1.admin.put_policy" in with_policy.err


def test_a_policy_that_is_wrong_is_status_1_with_the_path_of_each_mistake(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"providers": [], "nonsense": 1}')
    ended = call_command(*LOAD, "--policy", str(file))
    assert ended.status == 1
    assert {one["path"] for one in ended.json["errors"]} == {"providers", "nonsense"}


def test_where_an_inbox_may_not_be_written_there_is_no_bare_loop_and_it_says_so() -> None:
    """As with the shipped accounts: a gateway may listen to its inboxes, and publish requests."""
    allowed = f'publish: {{ allow: ["{DECIDE}"] }}, subscribe: {{ allow: ["_INBOX.>"] }}'
    broker = Broker(
        "authorization { users: [ { user: router, password: r }, "
        f"{{ user: gateway, password: g, permissions: {{ {allowed} }} }} ] }}"
    ).start()
    try:
        router_url = broker.url.replace("//", "//router:r@")
        with a_router_on(router_url):
            gateway = ("--nats-url", broker.url.replace("//", "//gateway:g@"))
            ended = router(*LOAD, "--for", "1s", "--timeout", "60", "--rate", "30", *gateway)
    finally:
        broker.remove()
    figures = figures_of(ended)
    assert (figures["sent"], figures["answered"]) == (30, 30)
    assert "no permission to publish to _INBOX." in figures["bare"]["unavailable"]


# -- beside the bench of a checkout ----------------------------------------------------------------


def test_all_other_arguments_are_those_of_the_bench_of_a_checkout() -> None:
    shown = router("bench", "--help")
    assert (shown.status, "--smoke" in shown.out) == (0, True)
    assert router("bench", "--only", "nonsense").status == 2
    assert "--in-flight" in call_command("bench", "load", "--help").out


# -- its page --------------------------------------------------------------------------------------

PAGE = Path("docs/how-to/measure-your-own-load.md")


def test_what_the_page_shows_can_be_typed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [block for block in read_blocks(PAGE.resolve()) if block.is_run]
    (tmp_path / "policy.json").write_text(json.dumps(a_document(a_provider("openai"))))
    (requests,) = (block.text for block in blocks if block.language == "json")
    (tmp_path / "requests.jsonl").write_text(requests)
    commands = [
        shlex.split(line)[1:]
        for block in blocks
        if block.language == "sh"
        for line in block.text.splitlines()
    ]
    assert len(commands) == 4
    monkeypatch.chdir(tmp_path)
    for arguments in commands:
        # it says for how long; a shorter time tells as much here
        ended = call_command(*arguments, *QUICK, "--json", "--nats-url", url)
        assert figures_of(ended)["answered"] > 0, arguments
