"""The transactional outbox, as a service uses it: one transaction commits the event with the data
that it describes (SDS-047).

    from router import outbox

    async with connection.transaction():
        await connection.execute("UPDATE orders SET paid = true WHERE id = %s", (order,)) await
        outbox.add(connection, outbox.OutboxEvent(outbox.new_id(), "order", order, "order_paid",
        {"amount": 5}))

`router outbox relay` publishes it. `router.mailbox.outbox.add` says how events of one aggregate are
ordered, and how to add one without psycopg; nothing here imports a database driver.
"""

from __future__ import annotations

from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.add import add, new_id
from router.mailbox.policies import FutureEvent, InvalidEntity, PolicyViolated

__all__ = ["FutureEvent", "InvalidEntity", "OutboxEvent", "PolicyViolated", "add", "new_id"]
