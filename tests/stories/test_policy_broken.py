"""Files that are no policies in the directory that seeds a router: each is told at the start, and
takes no other along.
"""

import json
from pathlib import Path

from nats.aio.client import Client

from router.config import Settings
from tests.support.observability import capture_log
from tests.support.policy_buckets import a_policy_of, store_of
from tests.support.requests import a_body
from tests.support.service import a_router
from tests.support.stories import Json, ask

BROKEN = {
    "half-written": '{"version": "1.0", "providers": [',
    "empty": "",
    "negative": '{"version": "1.0", "providers": [{"name": "other", "weight": -5}]}',
    "no-object": "[]",
}


async def test_a_broken_file_is_refused_with_its_path_and_the_others_serve(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "acme").mkdir()
    for name, text in BROKEN.items():
        (tmp_path / "acme" / f"{name}.json").write_text(text)
    (tmp_path / "acme" / "good.json").write_bytes(a_policy_of("good"))
    with capture_log("info") as lines:
        async with a_router(settings, tmp_path):
            assert (await _decide(nc, settings, "good"))["decision"]["provider_id"] == "good"
            for name in BROKEN:
                assert (await _decide(nc, settings, name))["error"]["code"] == "policy_not_found"
    errors = {
        line["path"]: line["level"] for line in lines.all() if line["event"] == "policy.broken"
    }
    assert errors == {f"acme/{name}.json": "error" for name in BROKEN}


async def test_the_last_good_version_outlives_a_file_that_broke(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    """Story 10: started again on a half-written directory, a router decides as before; the bucket
    remembers.
    """
    (tmp_path / "acme").mkdir()
    for name in BROKEN:
        (tmp_path / "acme" / f"{name}.json").write_bytes(a_policy_of("first"))
    async with a_router(settings, tmp_path):
        assert (await _decide(nc, settings, "empty"))["decision"]["provider_id"] == "first"
    for name, text in BROKEN.items():
        (tmp_path / "acme" / f"{name}.json").write_text(text)
    async with a_router(settings, tmp_path), store_of(settings) as store:
        for name in BROKEN:
            assert (await _decide(nc, settings, name))["decision"]["provider_id"] == "first"
        assert {one.record.version for one in await store.list()} == {1}


async def _decide(nc: Client, settings: Settings, policy: str) -> Json:
    # without an id: each time a new request
    return await ask(nc, settings, json.dumps({**a_body(), "policy_id": policy}).encode())
