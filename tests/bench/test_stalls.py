"""What holds an event loop, named."""

import asyncio
import gc
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench.stalls import LoopTracer, Stall, draw_table, tracing

HOLD_S = 0.02


def hold(seconds: float) -> None:
    time.sleep(seconds)


async def work() -> None:
    until = time.thread_time() + HOLD_S
    while time.thread_time() < until:
        pass


async def collect() -> None:
    gc.collect()


async def test_a_callback_and_a_task_that_hold_the_loop_are_named() -> None:
    with LoopTracer(HOLD_S) as tracer:
        asyncio.get_running_loop().call_soon(partial(hold, HOLD_S))
        await asyncio.create_task(work())
    slept, worked = tracer.stalls
    assert (slept.callback, worked.callback) == (f"{__name__}.hold", "work")
    assert slept.took_s >= HOLD_S > slept.processor_s
    assert worked.processor_s >= HOLD_S


async def test_the_time_of_the_collector_stands_apart() -> None:
    with LoopTracer(0.0) as tracer:
        await asyncio.create_task(collect())
    (stall,) = (stall for stall in tracer.stalls if stall.callback == "collect")
    assert 0.0 < stall.collector_s <= stall.took_s


async def test_what_is_shorter_than_the_bound_is_no_stall_and_afterwards_nothing_is_timed() -> None:
    with LoopTracer(3600.0) as tracer:
        await asyncio.create_task(work())
    assert tracer.stalls == []
    run = asyncio.Handle._run  # type: ignore[attr-defined]
    with LoopTracer():
        assert asyncio.Handle._run is not run  # type: ignore[attr-defined]
    assert asyncio.Handle._run is run  # type: ignore[attr-defined]


def test_the_table_begins_with_what_held_it_longest() -> None:
    stalls = [
        Stall(1.0, 0.030, 0.030, 0.0, "work"),
        Stall(2.0, 0.020, 0.001, 0.0, "hold"),
        Stall(3.0, 0.020, 0.001, 0.015, "hold"),
    ]
    lines = draw_table(stalls).splitlines()
    assert lines[2:4] == [
        "| hold | 2 | 40.0 | 20.0 | 2.0 | 15.0 |",
        "| work | 1 | 30.0 | 30.0 | 30.0 | 0.0 |",
    ]
    assert lines[-1] == "| 3.000 | 20.0 | 1.0 | 15.0 | hold |"


def test_a_child_that_is_started_meanwhile_writes_its_table(tmp_path: Path) -> None:
    with tracing(tmp_path / "held"):
        run_block("meanwhile")
    run_block("afterwards")
    (written,) = tmp_path.iterdir()
    assert written.name == "held.meanwhile.md"
    assert written.read_text().startswith("| callback | stalls |")


def run_block(process: str) -> None:
    """In a child."""
    program = f"from bench.stalls import traced\nwith traced({process!r}):\n    pass\n"
    subprocess.run([sys.executable, "-c", program], check=True)
