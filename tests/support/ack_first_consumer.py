"""The control of the results' kill story: a consumer that acks a result, and only then stores its
effects.

`python -m tests.support.ack_first_consumer`, settings from the environment; the crash point
`before_publish` lies between the two.
"""

import asyncio
import json

from nats.aio.msg import Msg
from nats.js.client import JetStreamContext
from nats.js.errors import FetchTimeoutError

from router.config import Settings, load
from router.contracts.usage import USAGE_SUBJECT
from router.core.crashpoints import crashpoint
from tests.support.patient_client import connect_patiently


async def serve(settings: Settings) -> None:
    client = await connect_patiently(list(settings.nats.url))
    js = client.jetstream()
    durable, stream = settings.results.durable, settings.streams.results.name
    results = await js.pull_subscribe_bind(durable, stream)
    print(json.dumps({"event": "router.ready"}), flush=True)
    while True:
        try:
            (message,) = await results.fetch(1, timeout=5)
        except FetchTimeoutError:
            continue
        await _meter(js, message)


async def _meter(js: JetStreamContext, message: Msg) -> None:
    await message.ack_sync(timeout=60)
    crashpoint("before_publish")
    await js.publish(USAGE_SUBJECT, message.data)


if __name__ == "__main__":
    asyncio.run(serve(load().settings))
