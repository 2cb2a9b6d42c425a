"""What does an open console cost the router? The load of `decide_live`, longer, with a console
whose page Now is live, and without.

The console is a process of its own: it reads /metrics of the router and the backlog of the broker
every two seconds, and sends each sample to the page. On a machine of two cores it takes its share
of them beside router, broker and asker. Rates of two rounds differ by more than the console takes,
so its own processor time is a figure, too: ten milliseconds of a second are a two-hundredth of two
cores.
"""

from __future__ import annotations

import asyncio
import os
import time

from msgspec.structs import asdict

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.family import member, used_alone
from bench.load import Load
from bench.process import a_child, figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, at_most

LOAD = Load(warm=4_000, count=200_000, in_flight=256)  # as long as several samples of the console
WITH_CONSOLE = "router, console open"


async def with_console(scale: float) -> Measured:
    load = LOAD.at(scale)
    async with (
        a_broker() as url,
        a_child("bench.sides.router", "decide", url=url, first=load.warm, last=load.all) as router,
    ):
        address = (await router.ready())["http"]
        async with a_child(
            "bench.sides.live_console", "follow", url=url, address=address
        ) as console:
            await console.ready()
            subject = decide_subscription(url)["subject"]
            asking = figures_of(
                "bench.sides.asker", "ask", url=url, subject=subject, **asdict(load)
            )
            pid, begin = member(os.getpid(), "bench.sides.live_console"), time.perf_counter()
            before = used_alone(pid).cpu_s
            asked, served = await asyncio.gather(asking, router.figures())
            console_ms = (used_alone(pid).cpu_s - before) * 1_000 / (time.perf_counter() - begin)
        await nothing_is_left(url, load.all)
    if asked["wrong"]:
        raise Broken(f"{asked['wrong']:.0f} of {load.count} answers were wrong")
    return {**served, **asked, "console_ms": console_ms}


QUESTION = Question(
    name="decide_console",
    asks="What does an open console, live, cost the router's live requests?",
    sides=(Side(WITH_CONSOLE, with_console), LOAD.side("router", "router.decide")),
    figures=(
        Figure("rate", "requests/s", against="router", target=at_least(0.99)),
        Figure("p50_ms", "ms, p50", against="router"),
        Figure("p99_ms", "ms, p99", against="router"),
        Figure("console_ms", "ms of the console's CPU a second", target=at_most(10.0)),
    ),
    lasts=(8.0, 40.0),
    needs=("starlette", "jinja2", "sse_starlette"),
)
