import pytest
from msgspec.structs import replace

from router.delivery.in_flight import InFlight
from tests.support.delivery import FakeConnection, a_delivery, token_of


class At:
    now = 100.0


@pytest.fixture
async def connection() -> FakeConnection:
    return FakeConnection()


@pytest.fixture
async def hands(connection: FakeConnection) -> InFlight:
    """InFlight with an ack wait of 30 s at a time that stands still."""
    hands = InFlight(connection, 30.0)  # type: ignore[arg-type]
    At.now = 100.0
    hands._now = lambda: At.now
    return hands


async def test_what_is_held_is_signalled_at_each_quarter_of_the_ack_wait(hands: InFlight, connection: FakeConnection) -> None:
    hands.hold(a_delivery())
    for At.now in (107.0, 107.5, 108.0, 114.0, 115.0):
        hands.signal()
    assert connection.posted(token_of(1)) == [b"+WPI"] * 2


async def test_what_is_due_before_the_next_look_is_signalled_now(hands: InFlight, connection: FakeConnection) -> None:
    """Else the time between two looks would be added to a silence."""
    hands.hold(a_delivery())
    for At.now in (107.0, 107.25, 107.5):
        hands.signal(next_in_s=0.25)
    assert connection.posted(token_of(1)) == [b"+WPI"]
    for At.now in (114.5, 114.75):
        hands.signal(next_in_s=0.25)
    assert connection.posted(token_of(1)) == [b"+WPI"] * 2


async def test_what_was_let_go_is_not_signalled(hands: InFlight, connection: FakeConnection) -> None:
    hands.hold(a_delivery())
    hands.let_go(a_delivery())
    At.now = 200.0
    hands.signal()
    assert (connection.posts, len(hands)) == ([], 0)


async def test_the_newest_token_is_signalled_and_settles(hands: InFlight, connection: FakeConnection) -> None:
    hands.hold(a_delivery()).token = token_of(1, 2)
    At.now = 111.0
    hands.signal()
    assert connection.posted(token_of(1, 2)) == [b"+WPI"]
    assert hands.let_go(a_delivery()) == token_of(1, 2)


async def test_holding_again_changes_nothing(hands: InFlight) -> None:
    first = hands.hold(a_delivery())
    assert hands.hold(a_delivery(deliveries=2)) is first
    assert first.token == token_of(1)


async def test_what_is_not_held_is_settled_by_its_own_token(hands: InFlight) -> None:
    assert hands.let_go(a_delivery(7)) == token_of(7)


async def test_the_same_sequence_of_a_stream_made_anew_is_another_message(hands: InFlight) -> None:
    hands.hold(a_delivery())
    assert replace(a_delivery(), stored_ns=1) not in hands
    assert a_delivery(deliveries=3) in hands


async def test_nothing_is_signalled_while_the_broker_is_away(hands: InFlight, connection: FakeConnection) -> None:
    hands.hold(a_delivery())
    connection.is_connected = False
    At.now = 200.0
    hands.signal()
    assert connection.posts == []
    connection.is_connected = True
    hands.signal()
    assert connection.posted(token_of(1)) == [b"+WPI"]
