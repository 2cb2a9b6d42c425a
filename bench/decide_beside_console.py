"""Does a console that is open slow live requests down? It reads metrics and broker; three browsers follow its page Now."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from msgspec.structs import asdict

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.load import Load
from bench.process import a_child, figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least

LOAD = Load(warm=4_000, count=120_000, in_flight=256)  # longer than two samples of the console
FOLLOWERS = 3


async def measure(scale: float, *, has_console: bool) -> Measured:
    load = LOAD.at(scale)
    async with a_broker() as url, a_child("bench.sides.router", "decide", url=url, first=load.warm, last=load.all) as router:
        metrics = (await router.ready())["http"]
        async with contextlib.AsyncExitStack() as beside:
            if has_console:
                arguments = {"url": url, "metrics": metrics, "followers": FOLLOWERS}
                console = await beside.enter_async_context(a_child("bench.sides.console", "show", **arguments))
                await console.ready()
            subject = decide_subscription(url)["subject"]
            asking = figures_of("bench.sides.asker", "ask", url=url, subject=subject, **asdict(load))
            asked, served = await asyncio.gather(asking, router.figures())
        if asked["wrong"]:
            raise Broken(f"{asked['wrong']:.0f} of {load.count} answers were wrong")
        await nothing_is_left(url, load.all)
    return {**served, **asked}


QUESTION = Question(
    name="decide_beside_console",
    asks="Does a console that is open and live slow requests down, 256 in flight?",
    sides=(Side("beside a console", partial(measure, has_console=True)), Side("alone", partial(measure, has_console=False))),
    figures=(
        Figure("rate", "requests/s", against="alone", target=at_least(0.99)),
        Figure("p50_ms", "ms, p50", against="alone"),
        Figure("p99_ms", "ms, p99", against="alone"),
    ),
    lasts=(6.0, 16.0),
    needs=("jinja2", "sse_starlette", "argon2"),
)
