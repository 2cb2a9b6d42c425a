"""How much longer does an answer take by way of a gateway than from the provider alone?

At 1, 32 and 256 in flight, and in an open loop at 30 % of the rate that the bare pass-through has
shown in the same round. Each load asks the provider first and then the side, whole answers and then
streams; a figure is the difference of the two percentiles. Of a stream it is the time to its first
byte. `over the pass-through` is the difference to it at the same rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.gateway import Asking, Place, ask, open_gateway, open_pass_through, open_peer
from bench.gateway import open_stand_in as open_provider
from bench.gateway_rate import FLOOR, PARTS, PEER, Open
from bench.question import Figure, Measured, Question, Side, at_most, sized

IN_FLIGHT = (1, 32, 256)
COUNTS = {1: 300, 32: 1_500, 256: 2_000}
OPEN, OPEN_COUNT, SHARE = "open", 2_000, 0.3
WARM, FLOOR_COUNT = 200, 2_000
TOLD = {
    "p50": "ms, p50",
    "p99": "ms, p99",
    "first_p50": "ms, p50 to a stream's first byte",
    "first_p99": "ms, p99 to a stream's first byte",
}
LOADS = {**{str(at_once): f"{at_once} in flight" for at_once in IN_FLIGHT}, OPEN: "open loop"}


async def measure(open_place: Open, scale: float) -> Measured:
    async with (
        open_provider() as alone,
        open_pass_through(alone) as floor,
        open_place(alone) as place,
    ):
        for warmed in (alone, floor, place):
            await ask(warmed, Asking(WARM, in_flight=32))
            await ask(warmed, Asking(WARM, is_stream=True, in_flight=32))
        figures: dict[str, float] = {}
        for at_once in IN_FLIGHT:
            asking = Asking(sized(COUNTS[at_once], scale, 50), in_flight=at_once)
            _, more = await _compare(asking, str(at_once), alone, place)
            figures |= more
        capacity = await ask(floor, Asking(sized(FLOOR_COUNT, scale), in_flight=32))
        asking = Asking(sized(OPEN_COUNT, scale), rate=capacity["rate"] * SHARE)
        return figures | await _pace(asking, alone, floor, place)


async def _pace(asking: Asking, alone: Place, floor: Place, place: Place) -> dict[str, float]:
    """The open loop: over the provider alone, over the pass-through, and each process' CPU."""
    found, more = await _compare(asking, OPEN, alone, place)
    _, over = await _compare(asking, "floor", floor, place)
    spent = {name: value for name, value in found.items() if name.endswith("_us")}
    late = {"late_ms": found["late_ms"], "asked_rate": asking.rate}
    return {**more, **over, **spent, **late}


async def _compare(
    asking: Asking, load: str, before: Place, place: Place
) -> tuple[dict[str, float], dict[str, float]]:
    """What the place took for whole answers, and how much longer than the one before it: `p50_32`,
    `first_p99_open`.
    """
    streamed = Asking(asking.count, True, asking.in_flight, asking.rate)
    base, own = await ask(before, asking), await ask(place, asking)
    base_stream, own_stream = await ask(before, streamed), await ask(place, streamed)
    return own, {
        **{f"{name}_{load}": own[f"{name}_ms"] - base[f"{name}_ms"] for name in ("p50", "p99")},
        **{
            f"{name}_{load}": own_stream[f"{name}_ms"] - base_stream[f"{name}_ms"]
            for name in ("first_p50", "first_p99")
        },
    }


def _list_figures() -> Iterator[Figure]:
    for load, words in LOADS.items():
        for name, unit in TOLD.items():
            yield Figure(f"{name}_{load}", f"{unit}, {words}", against=FLOOR)
            yield Figure(f"{name}_{load}", f"{unit}, {words}", against=PEER)
    for name, unit in TOLD.items():
        bound = at_most(10 if name.endswith("p99") else 3)
        yield Figure(f"{name}_floor", f"{unit}, open loop, over the {FLOOR}", target=bound)
    yield Figure("asked_rate", "requests/s of the open loop")
    yield Figure("late_ms", "ms that the asker sent late, p99")
    for part in PARTS:
        yield Figure(f"{part}_us", f"CPU µs of the {part} a request, open loop")


QUESTION = Question(
    name="gateway_overhead",
    asks="How much longer does an answer take by way of a gateway than from the provider alone?",
    sides=(
        Side("gateway", partial(measure, open_gateway)),
        Side(FLOOR, partial(measure, open_pass_through)),
        Side(PEER, partial(measure, open_peer)),
    ),
    figures=tuple(_list_figures()),
    lasts=(60.0, 150.0),
    most_rounds=3,
    unaffected="no stream that waits for the disk",
)
