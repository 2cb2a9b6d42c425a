"""What plays: a server with deploy/nats and a key for each role, routers of a tree, a worker, the
providers; and what an operator does.

gateway.one, gateway.two ──┐                      ┌── worker (worker.one, worker.two)
                           ├──── nats-server ─────┤
router-1, router-2 ────────┘                      └── providers (author.good, author.sly)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests.rigs.faults.child import Child
from tests.rigs.money import provider, worker
from tests.rigs.money.moves import DEAR, EXPECTED
from tests.rigs.money.prices import ENDLESS, FLAKY, GOOD, PRICES, SLY, TALKER
from tests.rigs.money.wire import Login
from tests.rigs.neighbours.part import ROOT, Broken
from tests.rigs.neighbours.tree import Tree
from tests.support.deployed import Deployed

Json = dict[str, Any]

USERS = ("gateway.two", "worker.two", "author.good", "author.sly")
SERVES = {"author.good": (GOOD, FLAKY, TALKER), "author.sly": (SLY, ENDLESS)}
RETRIES = {FLAKY: 2}
POLICIES = {"default": EXPECTED, "dear": DEAR}
STOP_S = 40.0
CALL_MS = 5_000  # a provider has so long for an answer, and between two pieces


class Shop(Deployed):
    """With authors as accounts.conf says: one user each, its own subjects, and as many answers as a
    stream has pieces.
    """

    def _accounts(self, is_partitioned: bool) -> str:
        text = super()._accounts(is_partitioned)
        for user, providers in SERVES.items():
            text = _with_author(text, user, providers)
        return text


class Stoppable(Child):
    """A child that can be told to stop, as its supervisor tells it."""

    def stop(self) -> None:
        """Returns when it has ended; SIGKILL where it does not."""
        self._should_run = False
        if self._process is not None and self.is_running:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        self.kill()


class Town:
    """Everything that runs."""

    def __init__(
        self, tree: Tree, home: Path, routers: int, settings: Mapping[str, object]
    ) -> None:
        self.tree = tree
        self.home = home
        self._settings = settings
        accounts = (Path(tree.path) / "deploy" / "nats" / "accounts.conf").read_text()
        self.deployed = Shop(users=USERS, change=lambda _: accounts)
        self.broker = self.deployed.broker
        self.routers = [self._router(f"router-{number}") for number in range(1, routers + 1)]
        self.worker = self._part(worker, "worker", worker.READY)
        self.providers = self._part(provider, "providers", provider.READY)

    @property
    def ledgers(self) -> tuple[Path, ...]:
        return tuple(self.home / f"{name}.ledger" for name in ("worker", "providers"))

    @property
    def login(self) -> Login:
        return Login(self.broker.url, str(self.deployed.keys))

    @property
    def children(self) -> list[Child]:
        return [*self.routers, self.worker, self.providers]

    async def start(self) -> None:
        await asyncio.to_thread(self.broker.start)
        self._write_documents()
        (made,) = await self.operate(("topology", "apply", "--worker", worker.DURABLE))
        if made["status"]:
            raise Broken(f"router topology apply: {made['err']}")
        for child in self.children:
            child.spawn()
        for child in self.children:
            await child.ready()

    async def end(self) -> None:
        for child in self.children:
            child.kill()
        await asyncio.to_thread(self.deployed.remove)

    async def witness(self) -> Client:
        """Looks at what is stored, and may do everything."""
        return await self.login.connect("witness")

    async def operate(self, *commands: Sequence[str]) -> list[Json]:
        """What an operator's commands of this tree say: {status, out, err} of each."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "tests" / "rigs" / "money" / "operate.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environ("operator"),
            start_new_session=True,
        )
        said, complaints = await process.communicate(json.dumps(commands).encode())
        if process.returncode:
            raise Broken(f"an operator's command: {complaints.decode()[-2000:]}")
        found: list[Json] = json.loads(said.splitlines()[-1])
        return found

    async def put_prices(self) -> bool:
        """Whether this tree knows prices."""
        files = []
        for name, price in PRICES.items():
            file = self.home / f"price-{name}.json"
            file.write_text(json.dumps(price.document(name)))
            files.append(("price", "put", str(file)))
        said = await self.operate(*files)
        return not any(one["status"] for one in said)

    def _router(self, name: str) -> Stoppable:
        more = {
            "ROUTER_POLICIES__DIR": self.home / "policies",
            "ROUTER_EXTENSIONS__DIR": self.home / "extensions",
        }
        environ = {
            **self._environ("router"),
            **{key: str(value) for key, value in more.items()},
            "ROUTER_HTTP__PORT": "0",
        }
        return Stoppable(
            name,
            ("router.cli", "serve"),
            "router.ready",
            {**environ, "ROUTER_LOG__LEVEL": "warning"},
            self.home,
        )

    def _part(self, module: Any, name: str, announces: str) -> Child:
        arguments = (self.broker.url, str(self.deployed.keys), str(self.home / f"{name}.ledger"))
        environ = {"PYTHONPATH": str(ROOT)}
        return Child(name, (module.__name__, *arguments), announces, environ, self.home)

    def _environ(self, role: str) -> dict[str, str]:
        """The code is this tree's wherever the process is started."""
        own = {
            f"ROUTER_{name.upper().replace('.', '__')}": str(value)
            for name, value in self._settings.items()
        }
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ROUTER_", "NATS_"))
        }
        toml = str(Path(self.tree.path) / "deploy" / "router.toml")
        code = {"PYTHONPATH": self.tree.path, "PYTHONSAFEPATH": "1"}
        return {
            **kept,
            **self.deployed.environ(role),
            **own,
            **code,
            "ROUTER_CONFIG_FILE": toml,
            "ROUTER_NATS__CONNECT_TIMEOUT_MS": "30000",
        }

    def _write_documents(self) -> None:
        for name, expected in POLICIES.items():
            one = {
                "name": GOOD,
                "weight": 100,
                "expected_latency_ms": 500,
                "expected_cost": float(expected),
            }
            _write(
                self.home / "policies" / "_shared" / f"{name}.json",
                {"version": "1.0", "providers": [one]},
            )
        for name in PRICES:
            entry = {
                "id": name,
                "type": "provider",
                "subject": f"beamline.provider.{name}.v1",
                "timeout_ms": CALL_MS,
            }
            _write(
                self.home / "extensions" / f"{name}.json", {**entry, "retry": RETRIES.get(name, 0)}
            )


@contextlib.asynccontextmanager
async def on_stage(
    tree: Tree, *, routers: int = 2, settings: Mapping[str, object] | None = None
) -> AsyncIterator[Town]:
    """All of it, gone in the end, whatever happens meanwhile."""
    home = Path(tempfile.mkdtemp(prefix="router-money-"))
    town = Town(tree, home, routers, settings or {})
    try:
        await town.start()
        keeping = asyncio.create_task(_keep_alive(town))
        try:
            yield town
        finally:
            keeping.cancel()
    finally:
        await town.end()
        shutil.rmtree(home, ignore_errors=True)


async def _keep_alive(town: Town) -> None:
    """What ends by itself is started again, as its supervisor would."""
    while True:
        await asyncio.sleep(0.2)
        for child in town.children:
            child.look()
            if (words := child.revive()) is not None:
                print(f"{child.name} ended by itself: {words}", file=sys.stderr, flush=True)


def _with_author(text: str, user: str, providers: Sequence[str]) -> str:
    key = f"{{ nkey: ${user.upper().replace('.', '_')}_KEY"
    at = text.index(key)
    end = text.index("allow_responses", at)
    end = text.index("}", end)
    block = text[at:end]
    subjects = "\n            ".join(f'"beamline.provider.{name}.>"' for name in providers)
    changed = block.replace('"beamline.ext.validate.pii_guard.>"', subjects)
    return text[:at] + re.sub(r"max: 1\b", "max: 100000", changed) + text[end:]


def _write(file: Path, document: Json) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
