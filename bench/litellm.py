"""LiteLLM's proxy as a side: installed from the package index into a virtual environment of its
own, which is thrown away when the run ends.

`BENCH_LITELLM` may name a program `litellm` that is there already. The proxy runs as it comes: one
worker, a master key, one model. It has no database, so it checks that key alone and keeps neither
budgets nor spend: that is less than our side does.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import orjson
from msgspec import Struct

from bench.question import Absent, Broken

# a version that was looked at: the index may have another one today
PACKAGE = "litellm[proxy]==1.108.7"
GIVEN = "BENCH_LITELLM"
KEY = "sk-bench"
INSTALL_S, START_S = 900.0, 180.0
ENVIRONMENT = {
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
}


class RunningProxy(Struct, frozen=True):
    url: str
    pid: int
    key: str = KEY


class Installation:
    """Made once in a run, when it is first needed."""

    def __init__(self) -> None:
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._why = ""

    async def find(self) -> Path:
        """The program. Raises Absent."""
        if given := os.environ.get(GIVEN):
            return Path(given)
        if self._why:
            raise Absent(self._why)
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="router-bench-litellm-")
            await self._install(Path(self._home.name))
        return Path(self._home.name) / "bin" / "litellm"

    async def _install(self, home: Path) -> None:
        for command in (
            (sys.executable, "-m", "venv", str(home)),
            (str(home / "bin" / "pip"), "install", "--quiet", PACKAGE),
        ):
            process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
            try:
                async with asyncio.timeout(INSTALL_S):
                    said, _ = await process.communicate()
            except TimeoutError:
                process.kill()
                await process.wait()
                said = b"it took too long"
            if process.returncode:
                self._why = f"{PACKAGE} cannot be installed: {_last_line(said)}"
                raise Absent(self._why)


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it says nothing"


INSTALLATION = Installation()


@asynccontextmanager
async def open_litellm(upstream: str, model: str) -> AsyncIterator[RunningProxy]:
    """Before an address, until the block ends. Raises Absent, Broken."""
    program = await INSTALLATION.find()
    with tempfile.TemporaryDirectory(prefix="router-bench-") as directory:
        config = Path(directory) / "config.yaml"
        # JSON is YAML
        config.write_bytes(orjson.dumps(_write_config(upstream, model)))
        port = _find_port()
        process = await asyncio.create_subprocess_exec(
            *(str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            *("--num_workers", "1", "--telemetry", "False"),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            env=_make_environment(),
            cwd=directory,
        )
        try:
            await _wait_until_ready(process, f"http://127.0.0.1:{port}/health/liveliness")
            yield RunningProxy(f"http://127.0.0.1:{port}/v1", process.pid)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _write_config(upstream: str, model: str) -> Mapping[str, object]:
    called = {"model": f"openai/{model}", "api_base": upstream, "api_key": "none"}
    return {
        "model_list": [{"model_name": model, "litellm_params": called}],
        "general_settings": {"master_key": KEY},
    }


def _make_environment() -> dict[str, str]:
    """Ours without what leads Python to our packages."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**own, **ENVIRONMENT}


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def _wait_until_ready(process: Process, url: str) -> None:
    async with httpx2.AsyncClient(timeout=5) as client, asyncio.timeout(START_S):
        while True:
            if process.returncode is not None:
                raise Broken("LiteLLM's proxy ended at its start")
            with suppress(httpx2.HTTPError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(0.2)
