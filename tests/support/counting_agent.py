"""The agent that counts how often each message was applied, in its state and in its messages.

`python -m tests.support.counting_agent --store FILE --max-deliver N`, the server's URL in
ROUTER_NATS__URL.

It imports little, for kill tables start it hundreds of times.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope
from router.core.errors import Poison

SUBJECT = "cmd.default.demo.witness.count"
COUNTED = "evt.default.demo.witness.counted"
KILLED = 137
# acknowledgements are waited for, and stranded messages looked for, no longer than this
SHORT_S = 0.5


class CountingAgent:
    """Counts in its state how often each message was applied, and says so in a message. A payload
    may ask for trouble:

    `fail: n` raises at the first n attempts, `poison` is refused, `kill` ends the process; a `note`
    is sent on.
    """

    name = "witness"

    def receive(self, envelope: Envelope) -> None:
        if envelope.payload.get("poison"):
            raise Poison("refused by the witness")

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        times = ctx.state.get(ctx.idempotency_key, 0) + 1
        ctx.state.put(ctx.idempotency_key, times)
        if envelope.payload.get("kill"):
            os._exit(KILLED)
        if envelope.payload.get("fail", 0) >= ctx.attempt:
            raise RuntimeError("the witness fails")
        note = {"note": envelope.payload["note"]} if "note" in envelope.payload else {}
        return [Outgoing(COUNTED, "counted", {"key": ctx.idempotency_key, "times": times, **note})]


async def serve(url: str, store: str, max_deliver: int) -> None:
    from router.agents.agent import AgentRuntime
    from router.agents.topology import AgentTopology
    from router.delivery.wire.api import JetStream
    from router.delivery.wire.first_connection import connect

    connection = await connect({"servers": [url]})
    runtime = AgentRuntime(
        CountingAgent(),
        Path(store),
        AgentTopology(ack_wait=SHORT_S, sweep=SHORT_S, max_deliver=max_deliver),
    )
    await runtime.run(
        JetStream(connection), lambda: print(json.dumps({"event": "agent.ready"}), flush=True)
    )


if __name__ == "__main__":
    from router.process.observability import configure

    configure("error")
    asyncio.run(serve(os.environ["ROUTER_NATS__URL"], sys.argv[2], int(sys.argv[4])))
