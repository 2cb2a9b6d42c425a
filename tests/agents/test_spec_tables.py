"""Every field that the specification of the runtime asks for is in every message that an agent
sends, and in its dead letters.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from nats.aio.client import Client

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope
from router.core.errors import Poison
from router.delivery.wire.api import JetStream
from tests.support.agents import an_agent, publish_until_stored, read_sent
from tests.support.broker import Broker
from tests.support.counting_agent import COUNTED, SUBJECT
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently
from tests.support.spec_tables import find_faults_in
from tests.support.waiting import until

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
COMMANDS: tuple[tuple[dict[str, object], dict[str, str]], ...] = (
    ({"type": "count"}, {}),
    ({"type": "count", "idempotency_key": "k-1", "payload": {"n": 1}}, {}),
    ({"type": "count", "payload": [1]}, {"Nats-Msg-Id": "m-1", "traceparent": PARENT}),
    (
        {"type": "count", "ts": 12.5, "trace_id": "t", "span_id": "s", "causation_id": "c"},
        {"Nats-Msg-Id": "m-2"},
    ),
    ({"type": "count", "ts": "2026-01-01T00:00:00Z", "trace_id": "t"}, {}),
)
HOPELESS: tuple[bytes, ...] = (b"nonsense", b"{}", b'{"type": "poison", "trace_id": "t-1"}')


class Answering:
    """It answers each message twice: with a payload, and with none."""

    name = "witness"  # whose filter takes SUBJECT

    def receive(self, envelope: Envelope) -> None:
        if envelope.type == "poison":
            raise Poison("refused")

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        return [
            Outgoing(COUNTED, "counted", {"of": envelope.payload}),
            Outgoing(COUNTED, "empty", None),
        ]


async def test_everything_that_an_agent_sends_has_the_fields_of_its_table(tmp_path: Path) -> None:
    """MF-8, MF-9, MF-10."""
    with Broker() as broker:
        nc = await connect_patiently(broker.url)
        async with (
            an_agent(broker.url, tmp_path / "store", Answering()),
            connected(broker.url) as connection,
        ):
            await _publish_all(nc)
            jetstream = JetStream(connection)

            async def has_answered() -> bool:
                sent, letters = await _read_both(jetstream)
                return len(sent) >= 2 * len(COMMANDS) and len(letters) >= len(HOPELESS)

            await until(has_answered)
            sent, letters = await _read_both(jetstream)
        await nc.close()
    assert find_faults_in("agent_envelope", sent, least=2 * len(COMMANDS)) == []
    assert all(len({one["trace_id"], one["span_id"], one["causation_id"]}) == 3 for one in sent)
    assert find_faults_in("dead_letter", letters, least=len(HOPELESS)) == []
    assert find_faults_in("dead_letter_legacy", letters, least=len(HOPELESS)) == []


async def _publish_all(nc: Client) -> None:
    jetstream = nc.jetstream()
    for body, headers in COMMANDS:
        await jetstream.publish(SUBJECT, json.dumps(body).encode(), headers=headers or None)
    for data in HOPELESS:
        await publish_until_stored(jetstream, data, SUBJECT)


async def _read_both(
    jetstream: JetStream,
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    return await read_sent(jetstream, COUNTED, "MESHFORGE_EVENTS"), await read_sent(
        jetstream, "meshforge.failed.>", "MESHFORGE_FAILED"
    )
