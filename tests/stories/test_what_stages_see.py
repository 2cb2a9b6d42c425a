"""What each stage of a pipeline sees and can change, row by row as the authors' page has it
(how-to/write-an-extension.md).
"""

import json
from contextlib import AsyncExitStack
from pathlib import Path

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline, passes
from tests.support.router_streams import read_assignments, read_stream
from tests.support.stories import Json, a_request, ask

CAME = {
    "message_id": "m-1",
    "message_type": "chat",
    "payload": {"text": "4111 1111 1111 1111"},
    "metadata": {"from": "a@b.example"},
}
LEFT = {
    **CAME,
    "message_type": "masked",
    "payload": {"text": "[credit_card]"},
    "metadata": {"from": "[email]"},
}
KINDS = {"mask": "pre", "look": "pre", "guard": "validator", "late": "post"}
ENTRIES = {name: {"kind": kind, "timeout_ms": 20_000} for name, kind in KINDS.items()}
STAGES = {
    "pre": [{"id": "mask", "mode": "required"}, {"id": "look"}],
    "validators": [{"id": "guard"}],
    "post": [{"id": "late"}],
}


async def masks(message: Msg) -> None:
    await message.respond(json.dumps({"payload": LEFT, "metadata": {"masked": "yes"}}).encode())


async def would_change_the_payload(message: Msg) -> None:
    await message.respond(
        json.dumps(
            {"payload": {**LEFT, "payload": "too late"}, "metadata": {"looked": "yes"}}
        ).encode()
    )


async def test_every_stage_sees_and_changes_what_the_page_says(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    place, message = PipelinePlace(nats_url, prefix, tmp_path), {"tenant_id": "acme", **CAME}
    answers = {"mask": masks, "look": passes, "guard": passes, "late": would_change_the_payload}
    async with AsyncExitStack() as stack:
        services = {
            name: await Extension(nc, KINDS[name], name, answer).start()
            for name, answer in answers.items()
        }
        for service in services.values():
            stack.push_async_callback(service.stop)
        _, settings = await stack.enter_async_context(
            a_pipeline(place, ENTRIES, {"masked": STAGES})
        )
        answer = await ask(
            nc, settings, a_request(1, message=message, policy_id="masked", push_assignment=True)
        )
        (assigned,) = await read_assignments(nc, settings)
        ((_, stored, _),) = await read_stream(nc, settings.streams.decide.name)

    asked: dict[str, Json] = {
        name: json.loads(service.asked[0].data) for name, service in services.items()
    }
    assert {name: body["payload"] for name, body in asked.items()} == {
        "mask": CAME,
        "look": LEFT,
        "guard": LEFT,
        "late": LEFT,
    }
    assert asked["late"]["metadata"]["decision"]["provider_id"] == answer["decision"]["provider_id"]
    assert answer["decision"]["metadata"]["looked"] == "yes"
    assert assigned["job"] == {"type": "masked", "payload": LEFT["payload"]}
    assert (assigned["metadata"], assigned["decision"]["metadata"]["looked"]) == (
        LEFT["metadata"],
        "yes",
    )
    assert json.loads(stored)["message"] == message
