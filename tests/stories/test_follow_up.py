"""A request that follows up one that failed: the same provider while the rule's retries last, then
the rule's other one.
"""

from pathlib import Path

import orjson
from nats.aio.client import Client

from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask

POLICY = {
    "version": "1.0",
    "providers": [
        {"name": "a", "weight": 100, "priority": 90},
        {"name": "b", "weight": 100, "priority": 10},
    ],
    "fallbacks": [{"when": {"status": "timeout"}, "retry": 2, "to": "b"}],
}


async def test_retries_are_counted_over_requests_and_instances_and_end(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "default.json").write_bytes(orjson.dumps(POLICY))
    settings = settings_for(nats_url, prefix)
    told = []
    for number in range(4):
        after = {"status": "timeout", "previous_request_id": f"r-{number - 1}"} if number else {}
        async with a_router(settings, tmp_path):  # each time a new process's memory
            answer = await ask(nc, settings, a_request(number, push_assignment=True, context=after))
            decision = answer["decision"]
            told.append(
                (decision["provider_id"], decision["reason"], decision["metadata"].get("attempts"))
            )
    assert told == [
        ("a", "weighted", None),
        ("a", "retry", "2"),
        ("a", "retry", "3"),
        ("b", "fallback", None),
    ]


async def test_no_tenant_follows_up_another_tenants_request(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    for tenant in ("acme", "globex"):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "default.json").write_bytes(orjson.dumps(POLICY))
    settings = settings_for(nats_url, prefix)
    async with a_router(settings, tmp_path):
        await ask(nc, settings, a_request(1, push_assignment=True))
        after = {"status": "timeout", "previous_request_id": "r-1"}
        foreign = a_request(2, tenant_id="globex", push_assignment=True, context=after)
        assert (await ask(nc, settings, foreign))["decision"]["reason"] == "fallback"
