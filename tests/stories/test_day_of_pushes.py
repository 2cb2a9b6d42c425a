"""24 hours of pushes at 100 a second, by size: what one push, its result and its usage leave in
each stream, times a day.

The sizes are measured on a real server, with payloads as requests usually have; the limits are the
defaults.
"""

import json
from typing import Any

from nats.aio.client import Client

from router.config import Settings
from router.operate.topology.declared_topology import declare_topology
from tests.support.router_streams import a_result, headers_of, publish_result, results_are_settled
from tests.support.service import a_router
from tests.support.stories import a_request, ask, is_settled
from tests.support.waiting import until

COUNT = 50
A_SECOND = 100
A_DAY = 24 * 3600 * A_SECOND
PAYLOAD = (
    "Summarise this ticket for the next shift: "
    + "the customer says that the export stops halfway. " * 4
)


async def test_a_day_of_a_hundred_pushes_a_second_fills_no_stream(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        for number in range(COUNT):
            await _push_and_report(nc, settings, number)
        await until(lambda: is_settled(nc, settings))
        await until(lambda: results_are_settled(nc, settings))
        a_push = {
            stream.name: (await nc.jsm().stream_info(stream.name)).state.bytes / COUNT
            for stream in declare_topology(settings).streams
        }

    streams, known = settings.streams, f"KV_{settings.buckets.assignments_known.name}"
    stays_s = (
        streams.assignments.duplicate_window_ms + settings.assignment.removal_every_ms
    ) / 1000
    assert (
        0
        < a_push[streams.assignments.name] * A_SECOND * stays_s
        < streams.assignments.max_bytes / 2
    ), "done, and gone after the window"
    assert 0 < a_push[streams.usage.name] * A_DAY < streams.usage.max_bytes
    assert a_push[streams.dlq.name] == 0
    assert settings.buckets.assignments_known.max_bytes == -1, (
        "a record is kept a day, and the disk is its limit"
    )
    assert a_push[known] * A_DAY < 16 * 1024**3, "what the disk must have"
    rates = f"KV_{settings.buckets.rate_limits.name}"
    assert a_push[rates] * COUNT < 1_024, (
        "a key for each limit that is in use, and the known tenants, whatever is pushed"
    )
    answers = f"KV_{settings.buckets.gateway_answers.name}"
    assert a_push[answers] == 0, "only the gateway keeps answers there, and no push is its request"
    fills = {
        stream.name
        for stream in declare_topology(settings).streams
        if stream.discard == "new" and stream.max_bytes > 0
    }
    looked_at = {streams.assignments.name, streams.usage.name, streams.dlq.name, rates, answers}
    assert fills == looked_at, "each of those that can fill is looked at here"
    for reads in (streams.decide, streams.results):
        assert a_push[reads.name] * A_SECOND * 3600 < reads.max_bytes, (
            "an hour of what is not read yet"
        )


async def _push_and_report(nc: Client, settings: Settings, number: int) -> None:
    body: dict[str, Any] = json.loads(
        a_request(f"0191f3a4-77c2-7c3e-9d2b-{number:012d}", push_assignment=True)
    )
    body["message"]["payload"] = PAYLOAD
    headers = {**headers_of(number), "trace_id": f"4bf92f3577b34da6a3ce929d0e0e{number:04d}"}
    answer = await ask(nc, settings, json.dumps(body).encode(), headers)
    assert answer["ok"], answer
    stored = await nc.jsm().get_msg(settings.streams.assignments.name, number + 1)
    done = json.loads(stored.data or b"")
    ids = {name: done[name] for name in ("assignment_id", "request_id")}
    await publish_result(nc, settings, a_result(number, **ids), headers_of(f"result-{number}"))
