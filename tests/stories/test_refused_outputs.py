"""An agent's messages that a stream refuses: its cause has a dead letter or waits, the agent works
on, and starts.
"""

from pathlib import Path

import pytest
from nats.aio.client import Client

from router.delivery.wire.api import JetStream
from tests.rigs.refusals.stages import QuietAgent
from tests.support.agents import (
    a_command,
    an_agent,
    count_unsent,
    is_empty,
    publish_until_stored,
    read_sent,
)
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.observability import capture_log
from tests.support.refusals import REFUSALS, TAKEN, make_too_small, mend
from tests.support.waiting import until

OUTPUTS = "MESHFORGE_EVENTS"
# The others take the first message of a subject, as any other.
EACH_MESSAGE = [
    one for one in REFUSALS if one.fault != TAKEN and one.name != "discard_new_per_subject"
]


async def test_an_output_that_is_too_large_is_a_dead_letter_once_and_is_sent_when_that_is_replayed(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """The event is applied; only what it sends is missing, and the message comes no second time."""
    store = tmp_path / "w.db"
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, store, QuietAgent(), ack_wait=30.0):
            config = dict((await jetstream.stream(OUTPUTS) or {})["config"])
            await make_too_small(jetstream, OUTPUTS)
            await publish_until_stored(nc.jetstream(), a_command("k-1", sends=True))
            await until(lambda: is_empty(jetstream))
            [letter] = await read_sent(jetstream, "meshforge.failed.>", "MESHFORGE_FAILED")
            assert (letter["reason"], letter["last_error"]["code"]) == (
                "processing_error",
                "too_large",
            )
            assert count_unsent(store) == 1
            await mend(jetstream, config)
            await publish_until_stored(
                nc.jetstream(), a_command("k-1", sends=True), headers={"x-replay-count": "1"}
            )
            await until(lambda: is_empty(jetstream))
        assert [sent["payload"]["key"] for sent in await read_sent(jetstream)] == ["k-1"]
        assert count_unsent(store) == 0


@pytest.mark.parametrize("refusal", EACH_MESSAGE, ids=lambda refusal: refusal.name)
async def test_an_agent_starts_and_works_while_a_stream_refuses_what_an_earlier_run_left(
    broker: Broker, nc: Client, tmp_path: Path, refusal: object
) -> None:
    """It published them for ever before it fetched anything."""
    store, agent = tmp_path / "w.db", QuietAgent()
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, store, QuietAgent(), ack_wait=30.0) as first:
            config = dict((await jetstream.stream(OUTPUTS) or {})["config"])
            await refusal.spoil(jetstream, OUTPUTS)  # type: ignore[attr-defined]
            await publish_until_stored(nc.jetstream(), a_command("k-1", sends=True))
            await until(lambda: first.stats.waiting or first.stats.dead)
        with capture_log() as logged:
            async with an_agent(broker.url, store, agent, ack_wait=30.0):
                await publish_until_stored(nc.jetstream(), a_command("k-2"))
                await until(lambda: "k-2" in agent.taken)
        if await jetstream.stream(OUTPUTS) is not None and refusal.name != "deleted":  # type: ignore[attr-defined]
            assert [line["count"] for line in logged.all() if line["event"] == "agent.unsent"] == [
                1
            ]
        await mend(jetstream, config)
        async with an_agent(broker.url, store, QuietAgent(), ack_wait=0.5):
            await until(lambda: count_unsent(store) == 0)
            await until(lambda: is_empty(jetstream))
        assert [sent["payload"]["key"] for sent in await read_sent(jetstream)] == ["k-1"]
