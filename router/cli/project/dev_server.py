"""What `router dev` runs for a project, and what a saved file makes of it.

    router.toml                       the router is started again, and all that uses it
    policies/                         the router's policies are made equal to the directory, if all
                                      of them are legal
    *.py                              the extensions and the worker are started again
    any of them, and request.json     the request of request.json is asked

What does not start says why, and the rest goes on: the next file that is saved starts it again.
Three things that `DevServer` needs stand before it: the wait for what was registered, the watch
over the files, and the request of request.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from router.cli.project.command_process import CommandProcess, Event, run_command
from router.contracts.codec import UNREADABLE_ERRORS, check_numbers, describe_unreadable
from router.core.errors import Misconfigured, RouterError
from router.delivery.wire.connection import Connection
from router.extensions.commands.call import HEALTH_SUBJECT
from router.operate.admin.broadcast import request_one
from router.sdk.client import Answer, Client
from router.sdk.connect import open_connection

# -- The programs of the project.

EXTENSIONS, WORKER, POLICIES, SETTINGS = "extensions.py", "worker.py", "policies", "router.toml"
STORE = ".router/dev"
SHOWN = 5  # of the files that changed
NOT_STARTED = "not started: see above; it is started again when a file is saved"
NOT_APPLIED = "not all of it is in use: see above; it is tried again when a file is saved"
# of what a worker says of an assignment
HANDLED = ("tenant_id", "job", "status", "latency_ms", "error_code")
# so that `router assignments` tells what became of one
WITH_ACKS = {"ROUTER_ACKS__ENABLED": "true"}
QUIET = {"ROUTER_LOG__LEVEL": "warning"}  # what is worth a line is printed here

Print = Callable[[str, str], None]  # a word on what it is, and the line


class RouterEnded(RouterError):
    """The router of the project ended by itself, and said why."""


class DevServer:
    """`serve_options` are those of `router serve` besides. `run` until it is cancelled; what it
    started has ended then.
    """

    def __init__(self, directory: Path, serve_options: Collection[str], print_line: Print) -> None:
        self._directory = directory
        self._serve_options = serve_options
        self._print = print_line
        self._router = self._build_process("router", {**QUIET, **WITH_ACKS})
        self._extensions = self._build_process("extensions", QUIET)
        self._worker = self._build_process("worker", QUIET)
        # the router, by itself
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._written: dict[str, int] = {}  # by policy: the version that was just written
        self._url = ""

    async def run(self) -> None:
        """Raises RouterEnded."""
        following = asyncio.create_task(self._follow())
        try:
            both: set[asyncio.Future[Any]] = {following, self._ended}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await following
            raise RouterEnded(f"the router ended with status {self._ended.result()}")
        finally:
            following.cancel()
            await asyncio.wait({following})
            for process in (self._worker, self._extensions, self._router):
                await process.stop()

    async def _follow(self) -> None:
        watch = FileWatch(self._directory)  # what is saved while the router starts is seen, too
        await self._start_all()
        await self._ask()
        while True:
            names = await watch.wait_for_change()
            self._print(
                "changed",
                ", ".join(names[:SHOWN])
                + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""),
            )
            await self._apply(names)
            await self._ask()

    async def _apply(self, names: Collection[str]) -> None:
        if SETTINGS in names:
            await self._start_all()
            return
        if any(name.startswith(f"{POLICIES}/") for name in names):
            await self._sync_policies()
        if any(name.endswith(".py") for name in names):
            await self._start_programs()

    async def _start_all(self) -> None:
        await self._worker.stop()
        await self._extensions.stop()
        options = ("--embedded", "--store", STORE, *self._serve_options, *self._find_settings())
        policies = ("--policies", POLICIES) if self._has(POLICIES) else ()
        ready = await self._router.start("serve", *options, *policies)
        if ready is None:
            raise RouterEnded("the router does not start")
        self._url = ready["nats_url"]
        self._print("router", f"{self._url}  {ready['http']}/readyz")
        await self._sync_policies()
        await self._start_programs()

    async def _start_programs(self) -> None:
        common = ("--nats-url", self._url, "--drain", "1", *self._find_settings())
        await asyncio.gather(self._start_extensions(common), self._start_worker(common))

    async def _start_extensions(self, common: Sequence[str]) -> None:
        if self._has(EXTENSIONS):
            ready = await self._extensions.start(
                "extension", "serve", EXTENSIONS, "--register", *common
            )
            if ready is not None:
                await wait_until_known(self._url, ready["ids"])
            self._print(
                "extensions", " ".join(ready["subjects"]) if ready is not None else NOT_STARTED
            )

    async def _start_worker(self, common: Sequence[str]) -> None:
        if self._has(WORKER):
            ready = await self._worker.start("worker", f"{Path(WORKER).stem}:answer", *common)
            self._print("worker", f"{WORKER}:answer" if ready is not None else NOT_STARTED)

    async def _sync_policies(self) -> None:
        """Keep which version each policy that was written has now."""
        self._written = {}
        if not self._has(POLICIES):
            return
        status, output = await run_command(
            self._directory,
            "policy",
            "sync",
            POLICIES,
            "--json",
            "--nats-url",
            self._url,
            *self._find_settings(),
        )
        if status != 0:  # standard error has said why
            self._print("policy", NOT_APPLIED)
            return
        for line in output.splitlines():
            step = json.loads(line)
            self._print(
                "policy",
                (
                    f"{step['action']} {step['tenant']}/{step['policy']}  "
                    f"{' '.join(step['changes'])}"
                ).rstrip(),
            )
            self._written[step["policy"]] = step.get("replaces", 0) + 1

    async def _ask(self) -> None:
        try:
            request = read_example(self._directory)
            self._print("ask", format_request(request))
            began = time.perf_counter()
            answer = await self._decide(request)
            self._print("answer", format_answer(answer, (time.perf_counter() - began) * 1000))
        except Misconfigured as exc:
            self._print("request", str(exc))
        except RouterError as exc:
            self._print("answer", f"none: {exc}")

    async def _decide(self, request: ExampleRequest) -> Answer:
        """Ask; again while the router has not yet followed the policies that were just written."""
        fields = {
            name: getattr(request, name)
            for name in ("tenant_id", "message_type", "payload", "policy_id", "context")
        }
        until = time.monotonic() + FOLLOWED_WITHIN_S
        async with Client(self._url) as client:
            answer = await client.decide(**fields)
            while not self._has_followed(answer) and time.monotonic() < until:
                await asyncio.sleep(0.05)
                answer = await client.decide(**fields)
            self._written = {}
            return await client.decide(**fields, push=True) if request.push_assignment else answer

    def _has_followed(self, answer: Answer) -> bool:
        metadata = answer.decision.metadata if answer.decision is not None else {}
        wanted = self._written.get(metadata.get("policy_id", ""))
        return wanted is None or metadata.get("policy_version") == str(wanted)

    def _has(self, name: str) -> bool:
        return (self._directory / name).exists()

    def _find_settings(self) -> tuple[str, ...]:
        return ("--config", SETTINGS) if self._has(SETTINGS) else ()

    def _build_process(self, name: str, environ: Mapping[str, str]) -> CommandProcess:
        return CommandProcess(
            self._directory,
            f"{name}.ready",
            partial(self._on_event, name),
            partial(self._on_ended, name),
            environ,
        )

    def _on_ended(self, process: str, status: int) -> None:
        self._print(process, f"ended with status {status}")
        if process == "router" and not self._ended.done():
            self._ended.set_result(status)

    def _on_event(self, process: str, event: Event) -> None:
        if process == "router" and event["event"] == "console.ready":
            self._print("console", event["http"])
        else:
            facts = " ".join(f"{name}={value}" for name, value in event.items() if name in HANDLED)
            self._print(process, facts)


# -- Extensions that were just registered: the router reads its bucket a moment after the write.

FOLLOWED_WITHIN_S = 3.0
HEALTH_PAUSE_S = 0.05


async def wait_until_known(nats_url: str, extension_ids: Collection[str]) -> None:
    """Return when the router knows these extensions; also when it does not tell, or not within
    FOLLOWED_WITHIN_S.
    """
    with suppress(RouterError, TimeoutError):
        connection = await open_connection(nats_url, "router-dev")
        try:
            async with asyncio.timeout(FOLLOWED_WITHIN_S):
                while not await _has_all(connection, extension_ids):  # noqa: ASYNC110 - the router only answers
                    await asyncio.sleep(HEALTH_PAUSE_S)
        finally:
            await connection.close()


async def _has_all(connection: Connection, extension_ids: Collection[str]) -> bool:
    answer = orjson.loads(
        (await request_one(connection, HEALTH_SUBJECT, b"{}", {}, is_router=True)).data
    )
    return "error" in answer or set(extension_ids) <= set(answer.get("health", ()))


# -- Which files were saved: their times and sizes are compared four times a second, which every
# system can do.

WATCHED_SUFFIXES = (".py", ".json", ".yaml", ".yml", ".toml")
# and whatever begins with a point
SKIPPED_DIRECTORIES = frozenset({"__pycache__", "node_modules", "venv", "tests"})
MAX_FILES = 2_000
INTERVAL_S = 0.25
MAX_READINGS = 8  # until files that go on changing are told as they are

Stamps = Mapping[str, tuple[int, int]]  # by name below the project: time in ns, size


class FileWatch:
    """Sees what is saved from the moment that it is made. A save that empties a file before it
    fills it is one change.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = read_stamps(root)

    async def wait_for_change(self) -> list[str]:
        """Return the names that were saved, made or removed since the last call, sorted."""
        while True:
            now = await self._read_unchanged()
            before, self._before = self._before, now
            if changed := sorted(
                name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
            ):
                return changed
            await asyncio.sleep(INTERVAL_S)

    async def _read_unchanged(self) -> Stamps:
        """Return stamps that are those of before, or stayed the same for one interval."""
        last, now = self._before, read_stamps(self._root)
        for _ in range(MAX_READINGS):
            if now == last:
                break
            await asyncio.sleep(INTERVAL_S)
            last, now = now, read_stamps(self._root)
        return now


def read_stamps(root: Path) -> Stamps:
    """Return the stamps of the first MAX_FILES files that are watched."""
    stamps = {}
    for path in islice(_list_files(root), MAX_FILES):
        try:
            status = path.stat()
        except OSError:  # it is being replaced
            continue
        stamps[path.relative_to(root).as_posix()] = (status.st_mtime_ns, status.st_size)
    return stamps


def _list_files(root: Path) -> Iterator[Path]:
    for directory, directories, files in os.walk(root):
        directories[:] = sorted(
            name
            for name in directories
            if not name.startswith(".") and name not in SKIPPED_DIRECTORIES
        )
        yield from (
            Path(directory) / name for name in sorted(files) if name.endswith(WATCHED_SUFFIXES)
        )


# -- The request of request.json, and its answer as a line.

FILE = "request.json"
MAX_REQUEST_BYTES = 1 << 20
PAYLOAD_SHOWN = 60


class ExampleRequest(Struct, forbid_unknown_fields=True):
    """What `Client.decide` takes."""

    tenant_id: str
    message_type: str
    payload: Any
    policy_id: str | None = None
    context: dict[str, Any] | None = None
    push_assignment: bool = False


DEFAULT = ExampleRequest("acme", "chat", "hello")


def read_example(directory: Path) -> ExampleRequest:
    """Read request.json; a plain request if there is none. Raises Misconfigured."""
    path = directory / FILE
    if not path.is_file():
        return DEFAULT
    if path.stat().st_size > MAX_REQUEST_BYTES:
        raise Misconfigured(FILE, f"has more than {MAX_REQUEST_BYTES} bytes")
    data = b""
    try:
        data = path.read_bytes()
        request = msgspec.json.decode(data, type=ExampleRequest)
        check_numbers(data, request)
    except (*UNREADABLE_ERRORS, OSError, ValueError) as exc:
        raise Misconfigured(FILE, describe_unreadable(data, exc)) from exc
    return request


def format_request(request: ExampleRequest) -> str:
    payload = msgspec.json.encode(request.payload).decode()
    return (
        f"{request.tenant_id} {request.message_type} "
        f"{payload if len(payload) <= PAYLOAD_SHOWN else payload[:PAYLOAD_SHOWN] + '…'}"
    )


def format_answer(answer: Answer, latency_ms: float) -> str:
    """Who does it and why, by which policy, which extensions were called; or what the refusal says."""
    if answer.decision is None:
        refusal = answer.error
        return f"refused: {refusal.code}: {refusal.message}" if refusal is not None else "refused"
    decision = answer.decision
    metadata: Mapping[str, str] = decision.metadata
    policy = f"policy {metadata.get('policy_id')} version {metadata.get('policy_version')}"
    return f"{decision.provider_id} ({decision.reason}), {policy}, {latency_ms:.1f} ms"
