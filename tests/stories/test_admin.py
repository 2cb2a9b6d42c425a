"""Operators ask a live router over NATS, with nothing but a NATS client."""

import asyncio
import json
import time

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import Settings
from router.config.connect import connect_by
from router.delivery.wire.api import JetStream
from router.operate.audit import AuditReader
from tests.support.admin import GET_DECISION, Json, call, code
from tests.support.breakers import end_opening
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, read_last_sequence, read_metric
from tests.support.waiting import slack, until

GOOD = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}
SECOND = {"version": "1.0", "providers": [{"name": "second", "weight": 1}], "pre": [{"id": "norm"}]}
BAD = {"version": "1.0", "providers": [{"name": "first", "weight": -5}]}
ENTRY = {"id": "norm", "type": "pre", "subject": "beamline.ext.pre.norm.v1"}
TABLE = (
    *(
        "get_extension_health",
        "get_circuit_breaker_states",
        "dry_run_pipeline",
        "get_pipeline_complexity",
    ),
    *(
        "list_policies",
        "get_policy",
        "put_policy",
        "delete_policy",
        "list_extensions",
        "put_extension",
        "delete_extension",
    ),
)


async def test_every_service_is_found_by_the_service_protocol(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix)):
        info = json.loads((await nc.request("$SRV.INFO.router-admin")).data)
        pinged = json.loads((await nc.request("$SRV.PING")).data)
    subjects = {end["subject"]: end for end in info["endpoints"]}
    assert {f"beamline.router.v1.admin.{name}" for name in TABLE} | {GET_DECISION} <= set(subjects)
    assert {subjects[GET_DECISION]["queue_group"]} == {"router-decide-group"}
    assert all(
        end["metadata"]["request"] and end["metadata"]["response"] for end in info["endpoints"]
    )
    schemas = [
        json.loads(end["metadata"][f"{side}_schema"])
        for end in info["endpoints"]
        for side in ("request", "response")
    ]
    assert all(schema.get("properties") is not None or schema["oneOf"] for schema in schemas)
    assert len(json.dumps(info)) < 65_536
    assert (pinged["name"], info["version"].count(".")) == ("router-admin", 2)


async def test_a_server_that_takes_small_messages_gets_a_small_description(prefix: str) -> None:
    """A larger one would cost the router its connection, at each question of any client."""
    with Broker(max_payload=14_000) as small:
        settings = settings_for(small.url, prefix, max_payload_bytes=8_192)
        async with await connect_patiently(small.url) as nc, a_router(settings):
            info = json.loads((await nc.request("$SRV.INFO.router-admin", timeout=30)).data)
            assert not small.logged("maximum payload exceeded")
    assert all(end["metadata"]["request"] for end in info["endpoints"])


async def test_a_policy_is_put_decides_is_replaced_and_deleted(
    nc: Client, settings: Settings
) -> None:
    names = {"tenant_id": "acme", "policy_id": "live"}

    async def decides() -> object:
        answer = await ask(
            nc,
            settings,
            json.dumps(
                {**json.loads(a_request(0)), "request_id": None, "policy_id": "live"}
            ).encode(),
        )
        return answer["decision"]["provider_id"] if answer["ok"] else answer["error"]["code"]

    async def is_decided(by: str) -> bool:
        return await decides() == by

    async with a_router(settings):
        assert await call(nc, "put_policy", **names, policy=GOOD) == {
            "ok": True,
            **names,
            "version": 1,
        }
        await until(lambda: is_decided("first"))
        assert (await call(nc, "put_policy", **names, policy=SECOND, replaces=1, author="olga"))[
            "version"
        ] == 2
        await until(lambda: is_decided("second"))
        stood = await call(nc, "get_policy", **names)
        assert (stood["policy"], stood["version"], stood["author"]) == (SECOND, 2, "olga")
        assert (await call(nc, "delete_policy", **names, replaces=2))["ok"] is True
        await until(lambda: is_decided("policy_not_found"))
        assert code(await call(nc, "get_policy", **names)) == "policy_not_found"


async def test_what_was_written_by_a_request_stands_in_the_audit(
    nc: Client, settings: Settings
) -> None:
    names = {"tenant_id": "acme", "policy_id": "audited"}
    router = await connect_by(settings.nats)
    async with a_router(settings):
        await call(nc, "put_policy", **names, policy=GOOD, author="olga")
        # nothing was written
        assert code(await call(nc, "put_policy", **names, policy=SECOND)) == "conflict"
        await call(nc, "delete_policy", **names)
        await call(nc, "put_extension", **ENTRY, author="olga")
        await call(nc, "put_extension", **ENTRY)  # nothing is new
        await call(nc, "delete_extension", id="norm", author="olga")
        found = [
            one.event
            async for one in AuditReader(JetStream(router), settings.streams.audit.name).read()
        ]
    await router.close()
    assert [(one.command, one.target, one.by, one.via) for one in found] == [
        ("policy put", "acme/audited", "olga", "admin"),
        ("policy delete", "acme/audited", "admin service", "admin"),
        ("extension register", "norm", "olga", "admin"),
        ("extension remove", "norm", "olga", "admin"),
    ]
    assert found[0].after is not None
    assert found[0].after["version"] == 1
    assert {one.router_node_id for one in found} == {settings.node_id}


async def test_a_bad_policy_is_refused_with_the_path_of_its_mistake_and_the_old_one_keeps_deciding(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 5, by service."""
    names = {"tenant_id": "acme", "policy_id": "live"}
    async with a_router(settings_for(nats_url, prefix)):
        await call(nc, "put_policy", **names, policy=GOOD)
        refused = await call(nc, "put_policy", **names, policy=BAD, replaces=1)
        assert (code(refused), refused["error"]["details"]["field"]) == (
            "invalid_request",
            "providers[0].weight",
        )
        assert (await call(nc, "get_policy", **names))["policy"] == GOOD


async def test_of_two_writers_at_once_one_wins_and_the_other_is_told(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 5."""
    names = {"tenant_id": "acme", "policy_id": "live"}
    async with a_router(settings_for(nats_url, prefix)), a_router(settings_for(nats_url, prefix)):
        await call(nc, "put_policy", **names, policy=GOOD)
        answers = await asyncio.gather(
            *(call(nc, "put_policy", **names, policy=SECOND, replaces=1) for _ in range(2))
        )
    assert sorted(map(code, answers)) == ["", "conflict"]
    assert next(answer for answer in answers if code(answer))["error"]["details"] == {"version": 2}


async def test_a_bad_entry_is_refused_with_its_field_and_a_good_one_is_listed_with_its_health(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 5, of the registry."""

    async def is_healthy() -> bool:
        return bool(
            (await call(nc, "get_extension_health"))["health"].get("norm", {}).get("status")
            == "healthy"
        )

    async with a_router(settings_for(nats_url, prefix)):
        refused = await call(nc, "put_extension", **{**ENTRY, "timeout_ms": 5})
        assert (code(refused), refused["error"]["details"]["field"]) == (
            "invalid_request",
            "timeout_ms",
        )
        assert (await call(nc, "put_extension", **ENTRY))["version"] == 1
        assert [one["entry"] for one in (await call(nc, "list_extensions"))["extensions"]] == [
            ENTRY
        ]
        await until(is_healthy)
        line = (await call(nc, "get_extension_health"))["health"]["norm"]
        assert (line["latency_samples"], line["circuit_breaker_state"]) == (0, "closed")
        assert (await call(nc, "delete_extension", id="norm"))["ok"] is True
        assert code(await call(nc, "delete_extension", id="norm")) == "extension_not_found"


async def test_a_dry_run_shows_the_decision_its_trace_and_every_extension_as_skipped(
    nc: Client, nats_url: str, prefix: str
) -> None:
    names = {"tenant_id": "acme", "policy_id": "live"}

    async def complexity() -> Json:
        return await call(nc, "get_pipeline_complexity", **names)

    async def is_there() -> bool:
        return (await complexity())["ok"] is True

    async with a_router(settings_for(nats_url, prefix)):
        assert code(await call(nc, "dry_run_pipeline", **names, payload="hi")) == "policy_not_found"
        await call(nc, "put_policy", **names, policy=SECOND)
        await until(is_there)
        result = (await call(nc, "dry_run_pipeline", **names, payload={"text": "hi"}))["result"]
        assert (await complexity())["complexity_score"] == 15
    assert result["decision"]["provider_id"] == "second"
    assert result["executed_extensions"] == [
        {"type": "pre", "id": "norm", "status": "skipped", "latency_ms": 0}
    ]
    assert (result["final_payload"], result["trace"][-1]["verdict"]) == ({"text": "hi"}, "chosen")


async def test_a_dry_run_without_a_decision_says_why_and_nothing_is_null(
    nc: Client, nats_url: str, prefix: str
) -> None:
    names = {"tenant_id": "acme", "policy_id": "live"}
    all_disabled = {**GOOD, "providers": [{"name": "first", "weight": 1, "enabled": False}]}

    async def tried() -> Json:
        return await call(nc, "dry_run_pipeline", **names, payload="hi")

    async def is_there() -> bool:
        return (await tried())["ok"] is True

    async with a_router(settings_for(nats_url, prefix)):
        await call(nc, "put_policy", **names, policy=all_disabled)
        await until(is_there)
        result = (await tried())["result"]
    assert result["error"]["code"] == "decision_failed"
    assert "decision" not in result


async def test_a_dry_run_that_invokes_calls_the_extensions_and_leaves_no_trace_behind(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """The pre-processor's payload is the final one; nothing is stored, counted or remembered of it."""
    settings, names = settings_for(nats_url, prefix), {"tenant_id": "acme", "policy_id": "live"}

    async def shout(message: Msg) -> None:
        said = json.loads(message.data)["payload"]
        await message.respond(
            json.dumps({"payload": {**said, "payload": said["payload"].upper()}}).encode()
        )

    async def dry_run() -> Json:
        answer = await call(nc, "dry_run_pipeline", **names, payload="hi", invoke=True)
        return answer["result"] if answer["ok"] else {"final_payload": None}

    async def is_shouted() -> bool:
        return bool((await dry_run())["final_payload"] == "HI")

    await nc.subscribe(ENTRY["subject"], cb=shout)
    async with a_router(settings):
        await call(nc, "put_extension", **ENTRY, timeout_ms=20_000)
        await call(nc, "put_policy", **names, policy=SECOND)
        await until(is_shouted)
        (executed,) = (await dry_run())["executed_extensions"]
        assert (executed["id"], executed["status"]) == ("norm", "ok")
        assert (await call(nc, "get_extension_health"))["health"]["norm"]["latency_samples"] == 0
        uncalled = {
            "extension_id": "norm",
            "state": "closed",
            "failure_count": 0,
            "error_rate": 0,
            "nodes": {},
        }
        assert (await call(nc, "get_circuit_breaker_states"))["states"] == {"norm": uncalled}
        assert await read_last_sequence(nc, settings) == 0


async def test_each_step_of_a_breaker_is_told_with_the_time_of_its_opening(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 2, as an operator sees it; a provider's breaker stands beside the extensions'."""
    settings = settings_for(nats_url, prefix, extension_breaker__timeout_ms=50_000)
    names, answers = (
        {"tenant_id": "acme", "policy_id": "live"},
        {"Nats-Service-Error-Code": "503", "Nats-Service-Error": "down"},
    )
    policy = {**SECOND, "pre": [{"id": "norm", "mode": "required"}]}

    async def answer(message: Msg) -> None:
        await nc.publish(
            message.reply,
            json.dumps({"payload": json.loads(message.data)["payload"]}).encode(),
            headers=answers,
        )

    async def told() -> Json:
        states: dict[str, Json] = (await call(nc, "get_circuit_breaker_states"))["states"]
        return states.get("norm", {"state": "unknown", "failure_count": 0})

    async def is_told(state: str) -> bool:
        return bool((await told())["state"] == state)

    async def decide(name: str) -> str:
        return code(await ask(nc, settings, a_request(name, policy_id="live")))

    async def is_failing() -> bool:
        return (
            await decide("first") == "pre_processor_failed" and (await told())["failure_count"] >= 1
        )

    await nc.subscribe(ENTRY["subject"], cb=answer)
    async with a_router(settings) as router:
        began = time.time() * 1000
        await call(nc, "put_extension", **ENTRY, timeout_ms=20_000)
        await call(nc, "put_policy", **names, policy=policy)
        await until(is_failing)
        assert ((await told())["state"], "opened_at_ms" in await told()) == ("closed", False)
        for number in range(4):
            await decide(f"bad-{number}")
        opened = await told()
        assert (opened["state"], opened["failure_count"] >= 5) == ("open", True)
        assert began <= opened["opened_at_ms"] <= time.time() * 1000
        answers.clear()
        context = router.service._context
        assert context is not None
        assert end_opening(context.breakers.extensions.get("norm", "acme")) == pytest.approx(50.0)
        assert await is_told("half_open")
        assert (await told())["opened_at_ms"] == opened["opened_at_ms"]
        assert [await decide(f"good-{number}") for number in range(2)] == ["", ""]
        assert await is_told("closed")


async def test_with_a_key_no_request_is_served_without_it(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, admin__api_key="sesame")
    async with a_router(settings):
        for name in TABLE:
            assert code(await call(nc, name)) == "unauthorized"
            assert code(await call(nc, name, {"api_key": "wrong"})) == "unauthorized"
        assert (await call(nc, "list_policies", api_key="sesame"))["ok"] is True
        assert (await call(nc, "list_policies", {"api_key": "sesame"}))["ok"] is True


async def test_operators_are_served_again_when_the_server_comes_back(
    broker: Broker, nc: Client, nats_url: str, prefix: str
) -> None:
    async def is_served() -> bool:
        try:
            async with asyncio.timeout(0.5 * slack()):  # the test's own client is coming back, too
                return (await call(nc, "list_policies"))["ok"] is True
        except (TimeoutError, nats.errors.Error):
            return False

    async with a_router(settings_for(nats_url, prefix)):
        await until(is_served)
        broker.kill()
        broker.start()
        await until(is_served)


async def test_an_answer_goes_to_an_inbox_and_nowhere_else(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix)) as router:
        victim = await nc.subscribe("beamline.victim")
        await nc.publish("beamline.router.v1.admin.list_policies", b"{}", reply="beamline.victim")
        assert (await call(nc, "list_policies"))["ok"] is True
        assert victim.pending_msgs == 0
        assert await read_metric(router.ready.http, "router_reply_refused_total") == 1
