"""The matrix of refusals, each kind of process with one store and each store with one refusal;
`make refusals` plays all of them.
"""

from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.rigs.refusals.matrix import Cell, play
from tests.rigs.refusals.router_stage import a_partition_stage, a_router_stage
from tests.rigs.refusals.stages import a_bus_stage, an_agent_stage, an_inbox_stage
from tests.rigs.refusals.work_stages import a_relay_stage, a_worker_stage
from tests.support.broker import Broker
from tests.support.postgres import Postgres
from tests.support.refusals import REFUSALS

BY_NAME = {refusal.name: refusal for refusal in REFUSALS}


def explain(cell: Cell) -> str:
    return (
        f"others failed {cell.others_failed}; {cell.told}, then {cell.end}, expected "
        f"{cell.expected}; ready {cell.is_well}"
    )


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("assignments", "full"),
        ("known assignments", "subject taken off"),
        ("usage", "max_msg_size"),
        ("dead letters", "sealed"),
        ("invocations", "deleted"),
        ("requests", "deleted"),
        ("results", "republish"),
        ("policies", "sealed"),
    ],
)
async def test_a_router_goes_on(own_broker: Broker, own_nc: Client, store: str, name: str) -> None:
    async with a_router_stage(own_nc, own_broker.url, "t") as stage:
        cell = await play("router", stage, store, BY_NAME[name], own_broker.url)
    assert cell.holds, explain(cell)


@pytest.mark.parametrize(("store", "name"), [("dead letters", "sealed"), ("attempts", "deleted")])
async def test_a_consumer_of_the_bus_goes_on(
    own_broker: Broker, own_nc: Client, store: str, name: str
) -> None:
    async with a_bus_stage(own_nc, own_broker.url, "t") as stage:
        cell = await play("bus", stage, store, BY_NAME[name], own_broker.url)
    assert cell.holds, explain(cell)


@pytest.mark.parametrize(
    ("store", "name"), [("outgoing messages", "max_msg_size"), ("dead letters", "deleted")]
)
async def test_an_agent_goes_on(
    tmp_path: Path, store: str, name: str, own_broker: Broker, own_nc: Client
) -> None:
    async with an_agent_stage(own_nc, own_broker.url, tmp_path) as stage:
        cell = await play("agent", stage, store, BY_NAME[name], own_broker.url)
    assert cell.holds, explain(cell)


async def test_an_inbox_goes_on(postgres: Postgres, own_broker: Broker, own_nc: Client) -> None:
    async with an_inbox_stage(own_nc, own_broker.url, await postgres.database()) as stage:
        cell = await play(
            "inbox", stage, "dead letters", BY_NAME["subject taken off"], own_broker.url
        )
    assert cell.holds, explain(cell)


@pytest.mark.parametrize(("store", "name"), [("results", "sealed"), ("assignments", "deleted")])
async def test_a_worker_loses_and_repeats_nothing(
    own_broker: Broker, own_nc: Client, store: str, name: str
) -> None:
    async with a_worker_stage(own_nc, own_broker.url) as stage:
        cell = await play("worker", stage, store, BY_NAME[name], own_broker.url)
    assert cell.holds, explain(cell)


@pytest.mark.parametrize("name", ["max_msg_size", "discard_new_per_subject"])
async def test_a_relay_loses_nothing(postgres: Postgres, own_broker: Broker, name: str) -> None:
    async with a_relay_stage(own_broker.url, await postgres.database()) as stage:
        cell = await play("relay", stage, "events", BY_NAME[name], own_broker.url)
    assert cell.holds, explain(cell)


async def test_the_router_of_a_partition_needs_no_lease_of_its_own(
    own_broker: Broker, own_nc: Client
) -> None:
    async with a_partition_stage(own_nc, own_broker.url) as stage:
        cell = await play("partition", stage, "leases", BY_NAME["deleted"], own_broker.url)
    assert cell.holds, explain(cell)
