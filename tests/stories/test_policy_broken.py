"""A policy file is broken while the router runs: the last good version keeps deciding, and an operator hears of it."""

import json
import shutil
from pathlib import Path

from nats.aio.client import Client

from router.config import Settings
from tests.support.observability import captured
from tests.support.requests import a_body
from tests.support.service import POLICIES, a_router, settings_for
from tests.support.stories import Json, ask
from tests.support.waiting import until

BROKEN = {
    "half-written": '{"version": "1.0", "providers": [',
    "empty": "",
    "negative": '{"version": "1.0", "providers": [{"name": "other", "weight": -5}]}',
    "no-object": "[]",
}


async def test_the_last_good_version_keeps_deciding(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> None:
    """Story 10: half written, empty, not a policy: decided as before, with a loud error each; mended, it is in force."""
    policies = shutil.copytree(POLICIES, tmp_path / "policies") / "acme"
    settings = settings_for(nats_url, prefix)
    for name in BROKEN:
        _write(policies, name, "first")
    with captured("info") as lines:
        async with a_router(settings, policies.parent):
            assert await _deciding(nc, settings) == dict.fromkeys(BROKEN, "first")
            for name, text in BROKEN.items():
                (policies / f"{name}.json").write_text(text)
            _write(policies, "beacon", "seen")  # written last: once this one is in force, the others have been read
            await until(lambda: _is_there(nc, settings, "beacon"))

            assert await _deciding(nc, settings) == dict.fromkeys(BROKEN, "first")
            errors = {line["path"]: line["level"] for line in lines.all() if line["event"] == "policy.broken"}
            assert errors == {f"acme/{name}.json": "error" for name in BROKEN}

            for name in BROKEN:
                _write(policies, name, "second")
            _write(policies, "second-beacon", "seen")
            await until(lambda: _is_there(nc, settings, "second-beacon"))
            assert await _deciding(nc, settings) == dict.fromkeys(BROKEN, "second")


def _write(folder: Path, name: str, provider: str) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"version": "1.0", "providers": [{"name": provider, "weight": 1}]}))


async def _deciding(nc: Client, settings: Settings) -> dict[str, str]:
    """Which provider each policy decides for, now."""
    return {name: (await _decide(nc, settings, name))["decision"]["provider_id"] for name in BROKEN}


async def _is_there(nc: Client, settings: Settings, name: str) -> bool:
    return bool((await _decide(nc, settings, name))["ok"])


async def _decide(nc: Client, settings: Settings, policy: str) -> Json:
    return await ask(nc, settings, json.dumps({**a_body(), "policy_id": policy}).encode())  # without an id: each time a new request
