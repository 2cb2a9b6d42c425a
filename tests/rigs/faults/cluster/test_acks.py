"""Who has lost a message: the publish ack that its sender got tells."""

import json

from nats.aio.client import Client

from router.config import load
from router.contracts.usage import USAGE_SUBJECT
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.cluster.acks import AckWatch
from tests.rigs.faults.job import HEALTHY
from tests.rigs.faults.ledger import Ledger, Row
from tests.rigs.faults.load import Asked

LOST = Asked("f-1", HEALTHY, "acme", b"", 0.0, 0.0)


async def test_a_loss_tells_what_was_acknowledged_and_what_is_there_now(nc: Client) -> None:
    """Of two messages the first is deleted, as if the servers had lost it; of the third nothing was
    ever published.
    """
    js = nc.jetstream()
    await js.add_stream(name="USAGE_WATCHED", subjects=[USAGE_SUBJECT])
    watch = AckWatch(load(None, {}, {}).settings)
    await watch.start(Clients([nc]))
    for name in ("f-1", "f-2"):
        event = {"assignment_id": Asked(name, HEALTHY, "acme", b"", 0.0, 0.0).assignment_id}
        await js.publish(USAGE_SUBJECT, json.dumps(event).encode(), headers={"Nats-Msg-Id": name})
    await nc.flush()
    await js.delete_msg("USAGE_WATCHED", 1)

    rows = (Row("metered", 2, 0, ("f-1",), (), ()), Row("assigned", 1, 0, ("f-1",), (), ()))
    metered, assigned = await watch.explain(nc, Ledger(rows, (), {}, 2), {"f-1": LOST})
    assert (metered.sequences, metered.holds, len(metered.published_s)) == ([1], ["nothing"], 1)
    assert (assigned.sequences, assigned.published_s) == ([], [])
