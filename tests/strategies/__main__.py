"""`python -m tests.strategies`: runs the course of each strategy on a server of its own, and prints or writes the page."""

import argparse
import asyncio
import sys
from pathlib import Path

from bench.machine import facts
from tests.strategies.course import Course, run_cheapest, run_least_latency
from tests.strategies.page import write_page
from tests.support.broker import Broker


async def run(rate: float) -> list[Course]:
    broker = Broker().start()
    try:
        return [await run_least_latency(broker.url, rate), await run_cheapest(broker.url, rate)]
    finally:
        broker.remove()


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.strategies", description=__doc__)
    options.add_argument("--rate", type=float, default=100.0, help="requests a second")
    options.add_argument("--write", type=Path, help="the page; else it is printed")
    chosen = options.parse_args()
    courses = asyncio.run(run(chosen.rate))
    page = write_page(facts(" ".join(["python -m tests.strategies", *sys.argv[1:]])), chosen.rate, courses)
    if chosen.write is None:
        print(page, end="")
    else:
        chosen.write.write_text(page)


if __name__ == "__main__":
    main()
