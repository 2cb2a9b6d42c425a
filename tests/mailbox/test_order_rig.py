"""The rig of the order in small: interleavings on each version and level, and a control that it
must see.
"""

import pytest

from tests.mailbox.order.run import LEVELS, OrderKind, try_order
from tests.support.broker import Broker
from tests.support.postgres import Postgres

SEED = 3


@pytest.mark.both_majors
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("writers", [2, 3])
async def test_the_order_of_the_lock_is_the_order_published(
    postgres: Postgres, broker: Broker, level: str, writers: int
) -> None:
    tally = await try_order(OrderKind(postgres.major, level, writers), 40, SEED, postgres, broker)
    assert tally.is_exact, tally
    assert tally.crossed > 0, "transactions overlapped"


async def test_relays_that_read_by_time_and_id_are_seen_to_be_wrong(
    postgres: Postgres, broker: Broker
) -> None:
    tally = await try_order(
        OrderKind(postgres.major, LEVELS[0], 3, is_control=True), 20, SEED, postgres, broker
    )
    assert (tally.lost, tally.double) == (0, 0)
    assert tally.wrong > 0, tally
