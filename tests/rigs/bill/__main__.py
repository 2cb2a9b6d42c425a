"""`python -m tests.rigs.bill`: HTTP clients through two gateways while processes are killed, and
whether each provider call is billed once. `make bill` runs it.

Exit status: 0 it holds, 1 not, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from bench.machine import facts
from tests.rigs.bill.figures import BillFigures, compare, render_page
from tests.rigs.bill.stage import TENANTS, BillStage, on_bill_stage
from tests.rigs.bill.upstream import WORDS, plan_faults, serve_upstream
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.support.cli import call_command_async
from tests.support.patient_client import connect_patiently
from tests.support.router_streams import read_stream

AT_ONCE = 32
LEAVING, FAILING = 0.1, 0.2  # shares of requests
PATIENCE_S = 60.0  # of a client
QUIET_S, LATEST_S = 20.0, 240.0
PATH = "/v1/chat/completions"


async def run(requests: int, every_s: float, seed: int) -> BillFigures:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="router-bill-") as home:
        async with (
            serve_upstream(plan_faults(requests, FAILING, seed)) as upstream,
            on_bill_stage(upstream.url, Path(home)) as stage,
        ):
            answers = await _ask_all(stage, requests, every_s, seed)
            _tell(begun, f"asked {requests}: {dict(stage.kills)}")
            events = await _read_events(stage)
            settled = await _read_settled(stage)
            return compare(
                answers,
                upstream.calls,
                events,
                kills=stage.kills,
                settled=settled,
                seconds=time.monotonic() - begun,
            )


async def _ask_all(stage: BillStage, requests: int, every_s: float, seed: int) -> list[str]:
    answers, numbers = [""] * requests, iter(range(requests))
    killing = asyncio.create_task(stage.kill_in_turn(every_s, seed)) if every_s else None
    begun = time.monotonic()

    async def work() -> None:
        for number in numbers:
            # One for each: a pool keeps the connections of requests that were cancelled.
            async with httpx2.AsyncClient(timeout=PATIENCE_S, verify=False) as client:
                answers[number] = await _ask(client, stage, number, seed)
            if number % 500 == 499:
                _tell(begun, f"{number + 1} asked, killed {dict(stage.kills)}")

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    if killing is not None:
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
    return answers


async def _ask(client: httpx2.AsyncClient, stage: BillStage, number: int, seed: int) -> str:
    """How it ended: a status, `broken` (no end of the stream), `left`, `closed`, `unanswered`."""
    dice = Random(seed * 1_000_003 + number)
    is_stream, leaves = dice.random() < 0.5, dice.random() < LEAVING
    tenant_id = TENANTS[number % len(TENANTS)]
    headers = {
        "authorization": f"Bearer {stage.keys[tenant_id]}",
        "x-router-request-id": f"bill-{number}",
    }
    message = {"role": "user", "content": f"bill {number}"}
    body = {"model": "auto", "messages": [message], "stream": is_stream}
    request = client.build_request(
        "POST", dice.choice(stage.urls) + PATH, content=json.dumps(body), headers=headers
    )
    try:
        if leaves and not is_stream:
            return await _leave_soon(client, request, dice.uniform(0.0, 0.2))
        response = await client.send(request, stream=is_stream)
        if not is_stream or response.status_code != 200:
            return str(response.status_code)
        return await _read(response, dice.randint(1, WORDS) if leaves else None)
    except httpx2.TimeoutException:
        return "unanswered"
    except httpx2.HTTPError:
        return "closed"


async def _leave_soon(client: httpx2.AsyncClient, request: httpx2.Request, after_s: float) -> str:
    try:
        async with asyncio.timeout(after_s):
            return str((await client.send(request)).status_code)
    except TimeoutError:
        return "left"


async def _read(response: httpx2.Response, leave_after: int | None) -> str:
    count, has_end = 0, False
    try:
        async for line in response.aiter_lines():
            has_end = has_end or line == "data: [DONE]"
            count += line.startswith("data: ")
            if leave_after is not None and count >= leave_after:
                return "left"
    finally:
        await response.aclose()
    return "200" if has_end else "broken"


async def _read_events(stage: BillStage) -> list[dict[str, Any]]:
    """Once nothing more is stored."""
    name, latest = stage.settings.streams.usage.name, time.monotonic() + LATEST_S
    async with await connect_patiently(stage.broker.url) as nc:
        count, since = -1, time.monotonic()
        while time.monotonic() < min(latest, since + QUIET_S):
            await asyncio.sleep(1)
            stored = await read_stream(nc, name)
            if len(stored) != count:
                count, since = len(stored), time.monotonic()
    return [json.loads(data) for _, data, _ in stored]


async def _read_settled(stage: BillStage) -> Decimal:
    """What the budgets of all tenants say is spent."""
    environ = {"ROUTER_BUCKETS__BUDGETS__NAME": stage.settings.buckets.budgets.name}
    spent = stage.settings.buckets.budgets_spent.name
    environ |= {"ROUTER_BUCKETS__BUDGETS_SPENT__NAME": spent, "NATS_URL": stage.broker.url}
    listed = await call_command_async("budget", "list", "--json", environ=environ)
    lines = [json.loads(line) for line in listed.out.splitlines()]
    return sum((Decimal(str(line["settled"])) for line in lines), Decimal(0))


def _tell(begun: float, what: str) -> None:
    print(f"[{time.monotonic() - begun:5.0f} s] {what}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.bill", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument(
        "--every", type=float, default=4.0, help="seconds between two kills; 0: none"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    given = parser.parse_args()
    machine = facts(" ".join(sys.argv[1:]))
    found = run_until_told(run(given.requests, given.every, given.seed))
    if found is None:
        return INTERRUPTED
    page = render_page(found, machine)
    print(page)
    if given.write is not None:
        given.write.write_text(page)
    return 0 if found.is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
