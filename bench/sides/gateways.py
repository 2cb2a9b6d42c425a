"""The gateway and what it needs, each a process of its own as its command starts it: a router, a
provider service, the gateway. Each ends by SIGTERM, so that a profile of it is written.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from bench.broker import NOTHING, POLICIES, Given, settings
from bench.child import Ready
from bench.question import Measured
from bench.stretch import MIB, peak_bytes
from router.config import Settings
from router.gateway.server import GatewayService
from router.process.observability import configure
from router.providers.options import OPENAI, ProviderOptions
from router.providers.service import ProviderService, serve_provider
from router.serve.service import RouterService

PROVIDER = "stand-in"
AT_ONCE = 512  # more than the most that are asked at once


async def route(ready: Ready, *, url: str) -> Measured:
    """A router."""
    service = RouterService(_settings(url), policies_dir=POLICIES)
    return await _serve(service.run(lambda _: ready()))


async def provide(ready: Ready, *, url: str, upstream: str) -> Measured:
    """The provider service before an address."""
    options = ProviderOptions(
        name=PROVIDER, kind=OPENAI, base_url=upstream, concurrency=AT_ONCE, timeout_ms=60_000
    )
    work = serve_provider(ProviderService(options), _settings(url), lambda **_: ready())
    return await _serve(work)


async def open_gateway(ready: Ready, *, url: str) -> Measured:
    """A gateway; it tells its address."""
    service = GatewayService(_settings(url, {"gateway.port": 0, "gateway.pages_port": 0}))
    return await _serve(service.run(lambda address, _: ready(url=f"{address}/v1")))


def _settings(url: str, given: Given = NOTHING) -> Settings:
    configure("warning")
    return settings(url, given)


async def _serve(work: Coroutine[Any, Any, object]) -> Measured:
    """Until this process is told to end, or the work ends by itself."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    return {"peak_mib": peak_bytes() / MIB}
