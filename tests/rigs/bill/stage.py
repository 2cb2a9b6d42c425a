"""The processes of the rig: a broker, two routers, two gateways, three provider services; and who
kills them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from router.budgets.model import parse_budget
from router.budgets.model.prices import parse_price
from router.budgets.prices.store import PriceStore
from router.budgets.store import BudgetStore
from router.config import Settings
from router.core.clock import now_ms
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.gateway.keys.model.api_key import make_key
from router.gateway.keys.store import KeyStore
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.forking import fork_server
from tests.support.ports import free_port
from tests.support.service import RouterProcess, names_for, settings_for

TENANTS = ("acme", "globex")
PROVIDERS = ("one", "two", "three")
PREFIX = "bill"
BUDGET = "1000000"
# what is left open by a kill is metered soon after its deadline
PATIENT = {
    "gateway.timeout_ms": 15_000,
    "gateway.stream_timeout_ms": 15_000,
    "providers.unfinished_after_ms": 1_000,
}


class GatewayProcess(RouterProcess):
    """On a port that it keeps over its deaths."""

    command = ("router", "gateway")
    announces = "gateway.ready"


class ProviderProcess(RouterProcess):
    announces = "provider.ready"

    def __init__(self, settings: dict[str, object], name: str, base_url: str) -> None:
        super().__init__(settings, policies=None)
        self._options = ("--base-url", base_url, "--read-timeout", "2", "--first-byte-timeout", "3")
        self._name = name

    def _arguments(self) -> Sequence[str]:
        return ("router", "provider", "run", self._name, "--kind", "openai", *self._options)


class BillStage:
    """`keys`: one for each tenant; `urls`: of the gateways."""

    def __init__(self, upstream_url: str, home: Path) -> None:
        self.broker = Broker()
        self._upstream_url = upstream_url
        self._home = home
        self.keys: dict[str, str] = {}
        self.urls: list[str] = []
        self.kills: Counter[str] = Counter()
        self.routers: list[RouterProcess] = []
        self.gateways: list[RouterProcess] = []
        self.providers: list[RouterProcess] = []

    @property
    def settings(self) -> Settings:
        named = {name.replace(".", "__"): value for name, value in PATIENT.items()}
        return settings_for(self.broker.url, PREFIX, **named)

    async def start(self, held: ExitStack) -> None:

        async def begin(process: RouterProcess) -> RouterProcess:
            # A provider asks the upstream for its models, and that is served by this loop.
            return await asyncio.to_thread(held.enter_context, process)

        held.enter_context(self.broker)
        names = {**names_for(self.broker.url, PREFIX), **PATIENT, "http.port": 0}
        self._write_policy()
        for _ in range(2):
            self.routers.append(await begin(RouterProcess(names, self._home)))
        await self._put_documents()
        for name in PROVIDERS:
            url = f"{self._upstream_url}/{name}"
            self.providers.append(await begin(ProviderProcess(names, name, url)))
        for _ in range(2):
            port = free_port()
            given = {**names, "gateway.port": port, "gateway.pages_port": 0}
            self.gateways.append(await begin(GatewayProcess(given, policies=None)))
            self.urls.append(f"http://127.0.0.1:{port}")

    def _write_policy(self) -> None:
        document = {
            "version": "1.0",
            "providers": [{"name": name, "weight": 30} for name in PROVIDERS],
        }
        folder = self._home / "_shared"
        folder.mkdir()
        (folder / "default.json").write_text(json.dumps(document))

    async def _put_documents(self) -> None:
        """A price of each provider, a budget and a key of each tenant."""
        settings = self.settings
        async with connected(self.broker.url) as connection:
            jetstream = JetStream(connection, timeout_s=60)

            def open_bucket(name: str) -> DocumentBucket:
                return DocumentBucket(jetstream, name)

            prices = PriceStore(open_bucket(settings.buckets.prices.name))
            for name in PROVIDERS:
                price = {"provider": name, "input": "1000", "output": "3000", "currency": "USD"}
                await prices.put(parse_price(price), author="rig")
            budgets = BudgetStore(open_bucket(settings.buckets.budgets.name))
            keys = KeyStore(open_bucket(settings.buckets.keys.name))
            for tenant_id in TENANTS:
                budget = parse_budget({"amount": BUDGET, "window": "month"}, tenant_id)
                await budgets.put(budget, author="rig")
                made = make_key(tenant_id, now_ms())
                await keys.put(made.key, author="rig", replaces=0)
                self.keys[tenant_id] = made.text

    async def kill_in_turn(self, every_s: float, seed: int) -> None:
        """Until cancelled: one process after the other dies, and is started again at once."""
        dice = Random(seed)
        kinds = {
            "router": self.routers,
            "gateway": self.gateways,
            "provider": self.providers,
            "broker": [self.broker],
        }
        while True:
            await asyncio.sleep(every_s)
            kind = dice.choice([*kinds])
            victim = dice.choice(kinds[kind])  # type: ignore[arg-type]
            await asyncio.to_thread(_kill_and_start, victim)
            self.kills[kind] += 1


def _kill_and_start(victim: Broker | RouterProcess) -> None:
    victim.kill()
    victim.start()


@asynccontextmanager
async def on_bill_stage(upstream_url: str, home: Path) -> AsyncIterator[BillStage]:
    os.environ.setdefault("ROUTER_LOG__LEVEL", "error")
    fork_server()
    with ExitStack() as held:
        stage = BillStage(upstream_url, home)
        await stage.start(held)
        yield stage
