"""The HTTP gateway and a provider service, each with its own key, on the server that is shipped: a
client's stream passes through both, and the server refuses nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from router.gateway.server import GatewayService
from router.providers.service import ProviderService, serve_provider
from tests.support.beside import beside
from tests.support.cli import call_command_async
from tests.support.deployed import Deployed
from tests.support.gateway import Gateway, read_events, wait_for_models
from tests.support.provider_services import options_for
from tests.support.service import a_router
from tests.support.waiting import slack

POLICY = {"version": "1.0", "providers": [{"name": "openai", "weight": 1}]}
ENTRY = {
    "id": "openai",
    "type": "provider",
    "subject": "beamline.provider.openai.v1",
    "timeout_ms": 20_000,
    "metadata": {"apis": ["chat.completions"], "models": ["echo-1"]},
}
QUESTION = {
    "model": "router/chat",
    "stream": True,
    "messages": [{"role": "user", "content": "one two three"}],
}


@asynccontextmanager
async def a_deployed_gateway(deployed: Deployed) -> AsyncIterator[Gateway]:
    """With its own key for NATS, and a client's that the operator made."""
    settings = deployed.settings("http_gateway", gateway__port=0, gateway__pages_port=0)
    made = await _operate(deployed, "key", "create", "acme", "--json")
    service, ready = GatewayService(settings), asyncio.Event()
    async with (
        beside(service.run(lambda *_: ready.set())),
        httpx2.AsyncClient(timeout=60 * slack()) as client,
    ):
        await asyncio.wait_for(ready.wait(), 60 * slack())
        yield Gateway(service, json.loads(made)["key"], client)


async def test_a_client_s_stream_passes_through_both_roles(
    deployed: Deployed, tmp_path: Path
) -> None:
    for name, document in (("policy", POLICY), ("entry", ENTRY)):
        (tmp_path / name).write_text(json.dumps(document))
    await _operate(deployed, "policy", "put", "acme", "chat", str(tmp_path / "policy"))
    await _operate(deployed, "extension", "register", str(tmp_path / "entry"))
    provider = ProviderService(options_for("echo", name="openai", is_registered=False))
    answers = serve_provider(provider, deployed.settings("provider"), lambda **_: None)
    async with (
        a_router(deployed.settings("router", http__port=0)),
        beside(answers),
        a_deployed_gateway(deployed) as gateway,
    ):
        await wait_for_models(gateway, "router/chat")
        async with gateway.stream("/v1/chat/completions", QUESTION) as response:
            events = read_events((await response.aread()).decode())
            assert response.headers["x-router-provider"] == "openai"
    texts = [json.loads(event)["choices"][0]["delta"].get("content") for event in events[:-1]]
    assert "".join(filter(None, texts)) == "one two three"
    assert events[-1] == "[DONE]"
    assert deployed.violations() == []


async def _operate(deployed: Deployed, *command: str) -> str:
    ended = await call_command_async(*command, environ=deployed.environ("operator"))
    assert ended.status == 0, ended.err
    return ended.out
