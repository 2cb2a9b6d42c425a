"""One tenant's extension answers after many seconds; every other tenant's requests are answered as
if it were not there.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import Settings
from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline, passes
from tests.support.policy import a_document
from tests.support.stories import Inboxes, a_request, ask
from tests.support.waiting import until

ENTRIES = {
    "slow": {"kind": "validator", "timeout_ms": 30_000},
    "quick": {"kind": "validator", "timeout_ms": 30_000},
}
SLOW = {"default": {"validators": [{"id": "slow"}]}}
BURST = 3_000  # above the slots, their queue and the prefetch together


@pytest.fixture
def at(nats_url: str, prefix: str, tmp_path: Path) -> PipelinePlace:
    for tenant, sections in (("plain", {}), ("piped", {"validators": [{"id": "quick"}]})):
        shelf = tmp_path / "policies" / tenant
        shelf.mkdir(parents=True)
        (shelf / "default.json").write_text(json.dumps(a_document(**sections)))
    return PipelinePlace(nats_url, prefix, tmp_path)


async def _publish_burst(nc: Client, settings: Settings) -> Inboxes:
    inboxes = await Inboxes.under(nc, "slow")
    for number in range(BURST):
        await inboxes.publish(nc, settings, number, a_request(number, tenant_id="acme"))
    await nc.flush()
    return inboxes


async def test_a_tenant_whose_extension_takes_long_holds_up_no_other_tenant(
    nc: Client, at: PipelinePlace
) -> None:
    """The slow tenant has a share of the slots and of their queue; what is above it is answered
    `overloaded` at once.
    """
    held: list[Msg] = []
    is_released = asyncio.Event()

    async def holds(message: Msg) -> None:
        held.append(message)
        if is_released.is_set():
            await passes(message)

    await Extension(nc, "validator", "slow", holds).start()
    await Extension(nc, "validator", "quick", passes).start()
    async with a_pipeline(at, ENTRIES, SLOW) as (_, settings):
        slow = await _publish_burst(nc, settings)
        await until(lambda: bool(held))
        for number in range(20):
            for tenant in ("plain", "piped"):
                answer = await ask(nc, settings, a_request(f"{tenant}-{number}", tenant_id=tenant))
                assert answer["ok"], answer
        refused = [json.loads(data)["error"] for answers in slow.heard.values() for data in answers]
        assert {error["code"] for error in refused} == {"overloaded"}
        assert all(error["details"]["retry_after_ms"] > 0 for error in refused)
        is_released.set()
        for message in held:
            await passes(message)
        await until(lambda: len(slow) == BURST, within_s=20)
        assert Counter(len(answers) for answers in slow.heard.values()) == {1: BURST}
        # a share, and half of all when the others want none
        assert len(held) >= settings.decide.pipeline_slots / 2
