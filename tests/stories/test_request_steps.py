"""`router request`: one request from its coming to its bill, read from what is kept; another
tenant's is no part of it.
"""

import orjson
from nats.aio.client import Client

from router.config import Settings
from router.decide.request_steps import RequestSearch, find_request_steps
from router.delivery.wire.api import JetStream, StoredMessage
from tests.support.cli import call_command_async
from tests.support.delivery import connected
from tests.support.router_streams import a_result, headers_of, publish_result, results_are_settled
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, is_settled
from tests.support.waiting import until


def environ_of(settings: Settings) -> dict[str, str]:
    """For a command: the names of this test's own streams and bucket."""
    streams, bucket = settings.streams, settings.buckets.assignments_known
    named = {
        name: getattr(streams, name).name for name in ("decide", "acks", "results", "usage", "dlq")
    }
    return {
        **{f"ROUTER_STREAMS__{name.upper()}__NAME": stream for name, stream in named.items()},
        "ROUTER_BUCKETS__ASSIGNMENTS_KNOWN__NAME": bucket.name,
    }


async def test_a_pushed_request_is_shown_from_its_coming_to_its_bill(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, acks__enabled=True)
    async with a_router(settings), connected(nats_url) as connection:
        for tenant in ("acme", "globex"):
            await ask(nc, settings, a_request(7, tenant_id=tenant, push_assignment=True))
        await until(lambda: is_settled(nc, settings))
        jetstream = JetStream(connection)
        pushed = (await find_request_steps(jetstream, settings, "acme", "r-7", look=100)).steps
        assignment_id = next(
            step.facts["assignment_id"] for step in pushed if step.what == "assignment"
        )
        for tenant, taken in (("acme", assignment_id), ("globex", "a-of-globex")):
            ack = {
                "assignment_id": taken,
                "request_id": "r-7",
                "tenant_id": tenant,
                "status": "accepted",
            }
            await nc.jetstream().publish(settings.acks.subject, orjson.dumps(ack))
        good = a_result(7, assignment_id=assignment_id, request_id="r-7", tenant_id="acme")
        await publish_result(nc, settings, good, headers_of("good"))
        await publish_result(
            nc, settings, orjson.dumps({**orjson.loads(good), "status": "done"}), headers_of("bad")
        )
        await until(lambda: results_are_settled(nc, settings))
        found = await find_request_steps(jetstream, settings, "acme", "r-7", look=100)
        shorter = await find_request_steps(jetstream, settings, "acme", "r-7", look=1)
        absent = await find_request_steps(jetstream, settings, "acme", "r-unknown", look=100)
        told = await call_command_async(
            "request",
            "r-7",
            "--tenant",
            "acme",
            "--json",
            "--nats-url",
            nats_url,
            environ=environ_of(settings),
        )
        unknown = await call_command_async(
            "request",
            "r-7",
            "--tenant",
            "initech",
            "--nats-url",
            nats_url,
            environ=environ_of(settings),
        )

    whats = [step.what for step in found.steps]
    assert whats[:4] == ["request", "decision", "assignment", "acknowledgement"]
    assert sorted(whats[4:]) == ["dead letter", "result", "result", "usage event"]
    assert found.steps[3].facts["status"] == "accepted"
    assert not [step for step in found.steps if "payload" in step.facts]
    assert any("the newest 1 messages were read" in gap for gap in shorter.gaps)
    assert (told.status, [step["what"] for step in told.json["steps"]]) == (0, whats)
    assert unknown.status == 1
    assert unknown.out.startswith("nothing was found of request r-7 of tenant initech")
    assert absent.steps == []
    assert any("kept by no stream" in gap for gap in absent.gaps)


def test_another_tenants_message_is_no_step_whatever_it_names() -> None:
    search = RequestSearch("acme", "r-1", "a-of-acme")

    def stored(headers: dict[str, str] | None = None, **body: object) -> StoredMessage:
        return StoredMessage("s", 1, orjson.dumps(body), headers or {}, "")

    assert search.matches(stored(tenant_id="acme", request_id="r-1"))
    assert search.matches(stored(message={"tenant_id": "acme"}, request_id="r-1"))
    assert search.matches(stored({"Nats-Msg-Id": "r-1", "tenant_id": "acme"}))
    assert search.matches(stored(assignment_id="a-of-acme"))
    assert not search.matches(stored(tenant_id="globex", request_id="r-1"))
    assert not search.matches(stored(request_id="r-1")), (
        "no tenant, and an id that every tenant may use"
    )
    assert not search.matches(
        stored(tenant_id="acme", message={"tenant_id": "globex"}, request_id="r-1")
    )
    assert search.matches(StoredMessage("s", 1, b"\x0a\x04acme\x12\x03r-1", {}, ""))
    assert not search.matches(StoredMessage("s", 1, b"\x0a\x06globex\x12\x03r-1", {}, ""))
