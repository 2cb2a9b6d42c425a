"""The consumers of an agent's supervision tree."""

from types import SimpleNamespace
from typing import Any, cast

from router.agents.agent import AgentTree
from router.agents.observer import AgentAlerts, AgentStats
from router.agents.topology import AgentSubscription, AgentTopology, topology_of
from router.delivery.consume.consumer import Consumer

COMMANDS = AgentSubscription(
    "MESHFORGE_COMMANDS", "ledger_consumer", ("cmd.default.demo.ledger.>",)
)


def test_each_consumer_goes_by_the_ack_wait_that_its_own_durable_has_on_the_server() -> None:
    """Its in-progress signals go out at a quarter of it: by the agent's own ack wait, those of an
    advisory came too late.
    """
    topology = AgentTopology(ack_wait=300.0)
    declared = topology_of([COMMANDS], topology, "s-1")
    jetstream: Any = SimpleNamespace(
        connection=SimpleNamespace(reconnect_count=0, max_payload=2**20)
    )
    work: Any = SimpleNamespace(handle=None, publish_acks=None)
    alerts = AgentAlerts(AgentStats(), lambda _: None)
    tree = AgentTree(
        "ledger", jetstream, declared, topology, work=work, alerts=alerts, drain_s=1.0
    ).tree([COMMANDS])
    consumers: Any = tree.children[-1]
    messages, advisories = (
        cast("Consumer", child.run.__self__).subscription for child in consumers.children[:2]
    )
    assert {one.durable: one.options.ack_wait for one in (messages, advisories)} == {
        spec.durable: spec.ack_wait for spec in declared.consumers
    }
    assert (messages.options.ack_wait, advisories.options.ack_wait) == (300.0, 30.0)
