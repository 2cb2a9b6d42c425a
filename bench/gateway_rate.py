"""How many HTTP requests does a gateway answer, and how many in a second of processor time?

A closed loop of 64, whole answers and then streams. Our side checks a key, decides by a policy,
reserves of a budget and stores a usage event for each, and its processor time is that of the
gateway, the router, the provider service and the broker together. In the end each request has one
usage event, or there is no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from bench.gateway import (
    Asking,
    Place,
    ask,
    check_usage,
    open_gateway,
    open_pass_through,
    open_peer,
    open_stand_in,
)
from bench.question import Figure, Measured, Question, Side, at_least, sized

Open = Callable[[Place], AbstractAsyncContextManager[Place]]

IN_FLIGHT = 64
WARM, WHOLE, STREAMS = 400, 6_000, 3_000
FLOOR, PEER = "pass-through", "LiteLLM"
PARTS = ("gateway", "router", "provider", "server")


async def measure(open_place: Open, scale: float) -> Measured:
    warm, whole, streams = (sized(count, scale) for count in (WARM, WHOLE, STREAMS))
    async with open_stand_in() as stand_in, open_place(stand_in) as place:
        await ask(place, Asking(warm, in_flight=IN_FLIGHT))
        of_whole = await ask(place, Asking(whole, in_flight=IN_FLIGHT))
        await ask(place, Asking(warm, is_stream=True, in_flight=IN_FLIGHT))
        of_streams = await ask(place, Asking(streams, is_stream=True, in_flight=IN_FLIGHT))
        if place.broker:
            await check_usage(place, 2 * warm + whole + streams)
    return {
        **_tell(of_whole),
        **{f"stream_{name}": value for name, value in _tell(of_streams).items()},
    }


def _tell(found: Measured) -> dict[str, float]:
    return {**found, "per_cpu_s": 1e6 / found["cpu_us"]}


QUESTION = Question(
    name="gateway_rate",
    asks="How many HTTP requests does a gateway answer, and in a second of processor time?",
    sides=(
        Side("gateway", partial(measure, open_gateway)),
        Side(FLOOR, partial(measure, open_pass_through)),
        Side(PEER, partial(measure, open_peer)),
    ),
    figures=(
        Figure("rate", "requests/s", against=FLOOR),
        Figure("rate", "requests/s", against=PEER),
        Figure("stream_rate", "streams/s", against=FLOOR),
        Figure("stream_rate", "streams/s", against=PEER),
        Figure("per_cpu_s", "requests per CPU second", against=FLOOR),
        Figure("per_cpu_s", "requests per CPU second", against=PEER, target=at_least(5)),
        Figure("stream_per_cpu_s", "streams per CPU second", against=FLOOR),
        Figure("stream_per_cpu_s", "streams per CPU second", against=PEER, target=at_least(5)),
        *(Figure(f"{part}_us", f"CPU µs of the {part} a request") for part in PARTS),
        *(Figure(f"stream_{part}_us", f"CPU µs of the {part} a stream") for part in PARTS),
    ),
    lasts=(50.0, 120.0),
    most_rounds=3,
    unaffected="no stream that waits for the disk",
)
