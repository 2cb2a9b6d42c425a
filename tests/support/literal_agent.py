"""The control of the agents' kill story: the specification's steps in their literal order, which do
lose.

    receive -> found in the store? ack, stop -> append, commit -> apply -> publish -> ack

`python -m tests.support.literal_agent --store FILE`; the crash point `agent_persisted` lies between
append and apply.
"""

import asyncio
import json
import os
import sqlite3
import sys

from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import FetchTimeoutError

from router.core.crashpoints import crashpoint
from tests.support.counting_agent import COUNTED, SUBJECT
from tests.support.patient_client import connect_patiently

ACK_WAIT_S = 0.5


async def serve(store: str) -> None:
    client = await connect_patiently(os.environ["ROUTER_NATS__URL"])
    js = client.jetstream()
    await js.add_stream(
        StreamConfig("MESHFORGE_COMMANDS", subjects=["cmd.>"], retention=RetentionPolicy.WORK_QUEUE)
    )
    await js.add_stream(StreamConfig("MESHFORGE_EVENTS", subjects=["evt.>"]))
    config = ConsumerConfig(durable_name="hasty", ack_wait=ACK_WAIT_S, max_deliver=20)
    commands = await js.pull_subscribe(SUBJECT, "hasty", stream="MESHFORGE_COMMANDS", config=config)
    db = sqlite3.connect(store, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS events (key TEXT PRIMARY KEY)")
    db.execute("CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, value INTEGER)")
    print(json.dumps({"event": "agent.ready"}), flush=True)
    while True:
        try:
            (message,) = await commands.fetch(1, timeout=5)
        except FetchTimeoutError:
            continue
        await _work(js, db, message)


async def _work(js: JetStreamContext, db: sqlite3.Connection, message: Msg) -> None:
    key = json.loads(message.data)["idempotency_key"]
    if not db.execute("SELECT 1 FROM events WHERE key = ?", (key,)).fetchone():
        db.execute("INSERT INTO events VALUES (?)", (key,))
        crashpoint("agent_persisted")
        db.execute(
            "INSERT INTO memory VALUES (?, 1) ON CONFLICT DO UPDATE SET value = value + 1", (key,)
        )
        await js.publish(
            COUNTED,
            json.dumps({"payload": {"key": key}}).encode(),
            headers={"Nats-Msg-Id": f"out-{key}"},
        )
    await message.ack_sync(timeout=60)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[2]))
