"""What does the whole circle cost: decide, assign, work, result, usage? A backlog of pushed
requests, one router, one worker.

The worker's function returns at once, so what is measured is the way, until every usage event is
stored and acknowledged.
"""

from __future__ import annotations

from bench.broker import Counts, a_broker, check_counts, settings
from bench.family import servers_cpu_s
from bench.process import a_child, figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized
from router.delivery.wire.api import JetStream

CIRCLES = 10_000


async def measure(scale: float) -> Measured:
    """CPU µs of router, worker and servers a circle; circles/s from the first result to the last."""
    count = sized(CIRCLES, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count, is_pushed=True)
        before = servers_cpu_s()
        span = {"url": url, "first": 1, "last": count}
        async with (
            a_child("bench.sides.working", "work", **span) as worker,
            a_child("bench.sides.metering", "router", **span) as router,
        ):
            working, routing = await worker.figures(), await router.figures()
        servers_us = (servers_cpu_s() - before) / count * 1e6
        await check_usage(url, count)
    cpu = {
        "cpu_us": routing["cpu_us"],
        "worker_cpu_us": working["cpu_us"],
        "servers_cpu_us": servers_us,
    }
    return {**routing, **cpu, "router_and_worker_cpu_us": routing["cpu_us"] + working["cpu_us"]}


async def check_usage(url: str, count: int) -> None:
    """Broken unless every request has its usage event, once."""
    config = settings(url)

    async def find(jetstream: JetStream) -> Counts:
        return {
            "usage events": (await jetstream.stream(config.streams.usage.name) or {})["state"][
                "last_seq"
            ]
        }

    await check_counts(url, find, {"usage events": count})


QUESTION = Question(
    name="circle",
    asks="What does a circle cost: decide, assign, work, result, usage?",
    sides=(Side("router", measure),),
    figures=(
        Figure("rate", "circles/s"),
        Figure(
            "router_and_worker_cpu_us", "CPU µs of router and worker a circle", target=at_most(150)
        ),
        Figure("worker_cpu_us", "CPU µs of the worker a circle"),
        Figure("servers_cpu_us", "CPU µs of the broker a circle"),
    ),
    lasts=(10.0, 20.0),
)
