"""What a real worker says of its provider is what breakers and rate limits hear: the tutorial's
worker, and `--providers`.
"""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client, Worker
from router.sdk.provider_handler import ProviderHandler
from router.sdk.step import Handler
from router.work.commands.workers import make_places
from tests.docs.pages import TOP
from tests.docs.tutorial import Tutorial
from tests.support.policy import a_document, a_provider
from tests.support.providers import an_entry, register, serve_provider
from tests.support.sdk import run_workers
from tests.support.service import Running, a_router, settings_for
from tests.support.waiting import until

SUBJECT = "beamline.provider.openai.v1"
BREAKER = {"enabled": True, "failure_threshold": 3, "timeout_ms": 300_000}
LONG_S = 300


class Model(BaseHTTPRequestHandler):
    """A provider that answers each call with one status."""

    status, headers_sent = 503, {"Retry-After": str(LONG_S)}

    def do_POST(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Model]]:
    class Own(Model):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {
        "MODEL": "any",
        "MODEL_KEY": "none",
        "MODEL_URL": f"http://127.0.0.1:{server.server_address[1]}",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield Own
    server.shutdown()
    server.server_close()


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """The function of the tutorial's worker, as it stands on the page."""
    text = Tutorial.read(TOP / "docs" / "tutorials" / "first-worker.md").files["model.py"]
    (tmp_path / "tutorial_model.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    handler: Handler = import_module("tutorial_model").answer
    return handler


class Circle:
    """A router, a worker, and what became of openai."""

    def __init__(self, router: Running, nats_url: str) -> None:
        self.router = router
        self.settings = router.settings
        self._url = nats_url
        self._asked = 0

    def client(self) -> Client:
        return Client(self._url, subject=self.settings.decide.subject)

    def worker(self, handler: Handler) -> Worker:
        subject, places = self.settings.assignment.subjects[0], make_places(self.settings)
        return Worker(self._url, handler, worker_id="w-1", subject=subject, topology=places)

    async def push(self, client: Client, times: int) -> None:
        for _ in range(times):
            self._asked += 1
            await client.decide(
                tenant_id="acme",
                message_type="chat",
                payload="hi",
                request_id=f"r-{self._asked}",
                push=True,
            )

    def find_blocks(self) -> Mapping[str, bool]:
        """Whether openai's breaker is open, and whether it limits the tenant."""
        context = self.router.service._context
        assert context is not None
        shut = context.breakers.providers.find_not_closed("acme")
        return {
            "breaker": shut is not None and "openai" in shut.breakers,
            "limit": shut is not None and "openai" in shut.limits,
        }

    def count_errors(self) -> tuple[int, int, int]:
        """Of the provider, of the request, and rate limits."""
        context = self.router.service._context
        assert context is not None
        context.measurements._tenants["acme"].expire()
        context.measurements.figures_of("acme")
        known = context.measurements.errors_of("acme")["openai"]
        return known.provider, known.request, known.rate_limit


@pytest.fixture
async def circle(nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[Circle]:
    (tmp_path / "acme").mkdir()
    document = a_document(a_provider("openai"), circuit_breaker=BREAKER)
    (tmp_path / "acme" / "default.json").write_text(json.dumps(document))
    async with a_router(settings_for(nats_url, prefix), tmp_path) as router:
        yield Circle(router, nats_url)


OPEN, LIMITED, WELL = (
    {"breaker": True, "limit": False},
    {"breaker": False, "limit": True},
    {"breaker": False, "limit": False},
)


@pytest.mark.parametrize(
    ("status", "pushed", "blocks", "errors"),
    [
        (503, 3, OPEN, (3, 0, 0)),
        (401, 3, OPEN, (3, 0, 0)),
        (429, 1, LIMITED, (0, 0, 1)),
        (400, 5, WELL, (0, 5, 0)),
    ],
)
async def test_the_tutorials_worker_trips_the_breaker_of_a_provider_that_fails(
    circle: Circle,
    *,
    model: type[Model],
    tutorial: Handler,
    status: int,
    pushed: int,
    blocks: Mapping[str, bool],
    errors: tuple[int, int, int],
) -> None:
    model.status = status
    async with circle.client() as client, run_workers(circle.worker(tutorial)):
        await circle.push(client, pushed)
        await until(lambda: circle.count_errors() == errors, within_s=60, what=f"{errors}")
    assert circle.find_blocks() == blocks


async def test_a_provider_that_nothing_listens_for_trips_its_breaker(circle: Circle) -> None:
    await register(circle.router, an_entry("openai"))
    async with circle.client() as client, run_workers(circle.worker(ProviderHandler(client))):
        await circle.push(client, 3)
        await until(lambda: circle.find_blocks() == OPEN, within_s=60, what="its breaker is open")


@pytest.mark.parametrize(
    ("headers", "blocks"),
    [
        ({"Nats-Service-Error-Code": "429", "Router-Retry-After-Ms": str(LONG_S * 1000)}, LIMITED),
        ({"Nats-Service-Error-Code": "422"}, WELL),
        ({"Nats-Service-Error-Code": "403"}, OPEN),
        ({"Nats-Service-Error-Code": "403", "Router-Fault": "request"}, WELL),
    ],
)
async def test_a_worker_passes_on_what_a_provider_said(
    nc: Nats, circle: Circle, headers: dict[str, str], blocks: Mapping[str, bool]
) -> None:
    async def refuse(message: Msg) -> None:
        await message._client.publish(message.reply, b"", headers=headers)

    await register(circle.router, an_entry("openai"))
    pushed = 1 if blocks is LIMITED else 3
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(circle.client())
        await stack.enter_async_context(run_workers(circle.worker(ProviderHandler(client))))
        await stack.enter_async_context(serve_provider(nc, refuse, SUBJECT))
        await circle.push(client, pushed)
        await until(
            lambda: sum(circle.count_errors()) == pushed, within_s=60, what=f"{pushed} results"
        )
    assert circle.find_blocks() == blocks
