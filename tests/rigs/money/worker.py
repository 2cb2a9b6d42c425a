"""The worker: `python -m tests.rigs.money.worker URL KEYS LEDGER`. It is killed and started again
by the run.

It takes assignments by the durable of all workers, does them, writes down what is owed, and
reports. What a hostile worker reports goes out by a key of its own: the broker gives both the same
rights.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from tests.rigs.money.ledger import Ledger
from tests.rigs.money.moves import report_of
from tests.rigs.money.wire import Login, store

STREAM, DURABLE = "ROUTER_ASSIGNMENTS", "caf-worker"
RESULTS = "caf.exec.result.v1"
READY = "worker.ready"
BATCH = 64


async def serve(login: Login, ledger: Ledger) -> None:
    """Until this process is killed."""
    honest, hostile = (
        await login.connect("worker", "_INBOX_worker.one"),
        await login.connect("worker.two"),
    )
    pulling = await honest.jetstream().pull_subscribe_bind(consumer=DURABLE, stream=STREAM)
    print(json.dumps({"event": READY}), flush=True)
    while True:
        try:
            messages = await pulling.fetch(BATCH, timeout=1.0)
        except (TimeoutError, Error):
            await asyncio.sleep(0.02)
            continue
        await asyncio.gather(*(_work(honest, hostile, ledger, message) for message in messages))


async def _work(honest: Client, hostile: Client, ledger: Ledger, message: Msg) -> None:
    assignment = json.loads(message.data)
    report = report_of(assignment)
    ledger.write_job(assignment["tenant_id"], assignment["assignment_id"], report.owed)
    teller = honest if str(assignment["tenant_id"]).startswith("good") else hostile
    for number, told in enumerate(report.told):
        await tell(teller, told, f"{assignment['assignment_id']}.{number}")
    for number, told in enumerate(report.forged):
        await tell(hostile, told, f"{assignment['assignment_id']}.f{number}")
    await message.ack()


async def tell(client: Client, result: dict[str, Any], message_id: str) -> None:
    await store(client, RESULTS, json.dumps(result).encode(), {"Nats-Msg-Id": message_id})


if __name__ == "__main__":
    asyncio.run(serve(Login(sys.argv[1], sys.argv[2]), Ledger(Path(sys.argv[3]))))
