import pytest
from msgspec.structs import replace

from router.delivery.consume.in_flight import InFlight, MessageState
from tests.support.delivery import FakeConnection, a_delivery, token_of


class At:
    now = 100.0


@pytest.fixture
async def connection() -> FakeConnection:
    return FakeConnection()


@pytest.fixture
async def in_flight(connection: FakeConnection) -> InFlight:
    """InFlight with an ack wait of 30 s at a time that stands still."""
    in_flight = InFlight(connection, 30.0)  # type: ignore[arg-type]
    At.now = 100.0
    in_flight._now = lambda: At.now
    return in_flight


async def test_what_is_held_is_signalled_at_each_quarter_of_the_ack_wait(
    in_flight: InFlight, connection: FakeConnection
) -> None:
    in_flight.enter(a_delivery(), MessageState.HANDLING)
    for At.now in (107.0, 107.5, 108.0, 114.0, 115.0):
        in_flight.signal()
    assert connection.posted(token_of(1)) == [b"+WPI"] * 2


async def test_what_is_due_before_the_next_look_is_signalled_now(
    in_flight: InFlight, connection: FakeConnection
) -> None:
    """Else the time between two looks would be added to a silence."""
    in_flight.enter(a_delivery(), MessageState.HANDLING)
    for At.now in (107.0, 107.25, 107.5):
        in_flight.signal(next_in_s=0.25)
    assert connection.posted(token_of(1)) == [b"+WPI"]
    for At.now in (114.5, 114.75):
        in_flight.signal(next_in_s=0.25)
    assert connection.posted(token_of(1)) == [b"+WPI"] * 2


async def test_what_was_let_go_is_not_signalled(
    in_flight: InFlight, connection: FakeConnection
) -> None:
    in_flight.enter(a_delivery(), MessageState.HANDLING)
    in_flight.pop(a_delivery())
    At.now = 200.0
    in_flight.signal()
    assert (connection.posts, len(in_flight)) == ([], 0)


async def test_the_newest_token_is_signalled_and_settles(
    in_flight: InFlight, connection: FakeConnection
) -> None:
    in_flight.enter(a_delivery(), MessageState.HANDLING).ack_subject = token_of(1, 2)
    At.now = 111.0
    in_flight.signal()
    assert connection.posted(token_of(1, 2)) == [b"+WPI"]
    assert in_flight.pop(a_delivery()) == token_of(1, 2)


async def test_holding_again_changes_nothing(in_flight: InFlight) -> None:
    first = in_flight.enter(a_delivery(), MessageState.HANDLING)
    assert in_flight.enter(a_delivery(deliveries=2), MessageState.HANDLING) is first
    assert first.ack_subject == token_of(1)


async def test_what_is_not_held_is_settled_by_its_own_token(in_flight: InFlight) -> None:
    assert in_flight.pop(a_delivery(7)) == token_of(7)


async def test_the_same_sequence_of_a_stream_made_anew_is_another_message(
    in_flight: InFlight,
) -> None:
    in_flight.enter(a_delivery(), MessageState.HANDLING)
    assert replace(a_delivery(), stored_ns=1) not in in_flight
    assert a_delivery(deliveries=3) in in_flight


async def test_nothing_is_signalled_while_the_broker_is_away(
    in_flight: InFlight, connection: FakeConnection
) -> None:
    in_flight.enter(a_delivery(), MessageState.HANDLING)
    connection.is_connected = False
    At.now = 200.0
    in_flight.signal()
    assert connection.posts == []
    connection.is_connected = True
    in_flight.signal()
    assert connection.posted(token_of(1)) == [b"+WPI"]
