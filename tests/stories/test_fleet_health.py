"""Whichever instance an operator asks, it tells of all of them, with the node of each."""

import asyncio
import json
from itertools import count

from nats.aio.client import Client

from tests.support.admin import Json, call
from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline, breaks, passes
from tests.support.service import a_router
from tests.support.stories import MessageRecorder, a_request, ask
from tests.support.waiting import until

GUARD = {"guard": {"kind": "validator", "timeout_ms": 20_000}}
POLICIES = {"default": {"validators": [{"id": "guard"}]}}
NODES = {"one", "two"}


async def test_an_answer_adds_up_what_every_instance_counted(nc: Client, at: PipelinePlace) -> None:
    """Two routers share one durable, so each decides some of the requests, and the queue group
    gives an asking to either.
    """
    names = count()
    guard = await Extension(nc, "validator", "guard", passes).start()
    async with (
        a_pipeline(at, GUARD, POLICIES, node_id="one") as (_, settings),
        a_router(settings.model_copy(update={"node_id": "two"}), at.home / "policies"),
    ):

        async def decide(requests: int) -> None:
            await asyncio.gather(
                *(ask(nc, settings, a_request(next(names))) for _ in range(requests))
            )

        async def told(service: str, table: str) -> Json:
            answer = await call(nc, service)
            return answer[table]["guard"] if set(answer.get("router_node_ids", ())) == NODES else {}

        async def is_added_up() -> bool:
            line = await told("get_extension_health", "health")
            return (
                line.get("success_count"),
                sum(one["success_count"] for one in line.get("nodes", {}).values()),
            ) == (60, 60)

        async def is_open() -> bool:
            await decide(20)
            line = await told("get_circuit_breaker_states", "states")
            return line.get("state") == "open" and {
                one["state"] for one in line["nodes"].values()
            } == {"open"}

        stats = await MessageRecorder.on(nc, "_INBOX.stats")
        await nc.publish("$SRV.STATS.router-admin", reply="_INBOX.stats")
        await until(lambda: len(stats) == 2)
        assert {
            json.loads(data)["metadata"]["node_id"] for data in stats.heard["_INBOX.stats"]
        } == NODES

        await decide(60)
        await until(is_added_up, within_s=5)
        guard.answer = breaks
        await until(is_open)
        line = (await call(nc, "get_extension_health"))["health"]["guard"]
        assert (line["circuit_breaker_state"], line["failure_count"] >= 5) == ("open", True)
