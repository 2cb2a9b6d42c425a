import asyncio

import orjson
import pytest

from router.delivery.consume.pull import SPREAD_BYTES, Puller, PullLimits
from tests.support.delivery import FakeConnection

NEXT = "$JS.API.CONSUMER.MSG.NEXT.S.C"
INBOX = "_INBOX.fake"
BYTES = 1000  # of one request


async def turn() -> None:
    await asyncio.sleep(0)


class Pulling:
    """A puller at work: what arrives, what it asks for, and when it sees trouble."""

    def __init__(self, prefetch: int = 8, expires: float = 30) -> None:
        self.connection = FakeConnection()
        self.arrived: list[dict[str, str] | None] = []
        self.is_known = True
        self.places = prefetch
        self.trouble = 0
        self.puller = Puller(
            self.connection,  # type: ignore[arg-type]
            NEXT,
            PullLimits(prefetch=prefetch, prefetch_bytes=2 * BYTES, expires=expires, heartbeat=1),
            on_delivery=lambda _subject, _reply, _data, headers: (
                self.arrived.append(headers) or self.is_known
            ),
            free_capacity=lambda: self.places,
            on_trouble=self._in_trouble,
        )

    def _in_trouble(self) -> None:
        self.trouble += 1

    @property
    def batches(self) -> list[int]:
        return [orjson.loads(data)["batch"] for data in self.connection.posted(NEXT)]

    @property
    def heartbeats_s(self) -> list[float]:
        return [orjson.loads(data)["idle_heartbeat"] / 1e9 for data in self.connection.posted(NEXT)]

    async def message(self, times: int = 1, headers: dict[str, str] | None = None) -> None:
        for _ in range(times):
            self.connection.say("work", b"", headers)
            await turn()  # what comes free in one turn of the loop is asked for at its end

    def status(self, code: str, generation: int = 0, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.say(f"{INBOX}.{generation}", b"", {"Status": code, **named})


@pytest.fixture
async def pulling() -> Pulling:
    """A puller that has asked for its first message."""
    pulling = Pulling()
    await pulling.puller.open()
    pulling.puller.refill()
    return pulling


async def test_it_asks_for_nothing_before_it_is_told_to() -> None:
    pulling = Pulling()
    pulling.puller.refill()
    await pulling.puller.open()
    assert (pulling.batches, pulling.puller.is_pulling) == ([], True)


async def test_it_asks_for_one_with_an_end_and_a_heartbeat(pulling: Pulling) -> None:
    (post,) = pulling.connection.posts
    assert orjson.loads(post.data) == {
        "batch": 1,
        "expires": 30_000_000_000,
        "idle_heartbeat": 1_000_000_000,
    }
    assert post.reply == f"{INBOX}.0"


async def test_the_window_doubles_with_first_deliveries_up_to_the_prefetch(
    pulling: Pulling,
) -> None:
    seen = []
    for _ in range(12):
        seen.append(pulling.puller.window)
        await pulling.message()
    assert sorted(set(seen)) == [1, 2, 4, 8]


async def test_no_more_is_outstanding_than_the_prefetch(pulling: Pulling) -> None:
    for _ in range(100):
        await pulling.message()
        assert pulling.puller.outstanding <= 8


async def test_it_asks_again_when_half_of_the_window_has_come(pulling: Pulling) -> None:
    await pulling.message(30)
    pulling.connection.posts.clear()
    while not pulling.batches:
        await pulling.message()
    assert (pulling.batches, pulling.puller.outstanding) == ([4], 8)
    await pulling.message(3)
    assert pulling.batches == [4]
    await pulling.message()
    assert pulling.batches == [4, 4]


async def test_a_large_window_is_asked_for_while_the_chunk_that_brings_it_is_handled() -> None:
    """The server would wait for the end of the chunk, which may hold the whole window: here its
    messages come in one turn of the loop.
    """
    pulling = Pulling(prefetch=128)
    await pulling.puller.open()
    pulling.puller.refill()
    await pulling.message(1_000)
    pulling.connection.posts.clear()
    for _ in range(pulling.puller.outstanding):
        pulling.connection.say("work")
    assert set(pulling.batches) == {64}
    assert pulling.connection.early_writes >= len(pulling.batches)


async def test_without_room_it_asks_at_the_end_of_the_turn() -> None:
    pulling = Pulling(prefetch=128)
    await pulling.puller.open()
    pulling.puller.refill()
    await pulling.message(1_000)
    pulling.places = 0
    pulling.connection.posts.clear()
    for _ in range(pulling.puller.outstanding):
        pulling.connection.say("work")
    pulling.places = 128
    assert pulling.batches == []
    await turn()
    assert pulling.batches == [128]


async def test_an_unexplained_redelivery_makes_the_window_one(pulling: Pulling) -> None:
    await pulling.message(30)
    pulling.is_known = False
    await pulling.message()
    left = pulling.puller.outstanding
    pulling.connection.posts.clear()
    await pulling.message(left)
    assert pulling.batches == [1]


async def test_it_never_asks_for_more_than_there_is_room_for(pulling: Pulling) -> None:
    await pulling.message(30)
    pulling.places = 0
    pulling.connection.posts.clear()
    await pulling.message(pulling.puller.outstanding)
    assert pulling.batches == []
    pulling.places = 3
    pulling.puller.refill()
    assert pulling.batches == [3]


async def test_while_disconnected_it_asks_for_nothing(pulling: Pulling) -> None:
    pulling.connection.is_connected = False
    await pulling.message()
    pulling.puller.reset()
    pulling.puller.resume()
    assert pulling.batches == [1]


async def test_while_paused_it_asks_for_nothing_and_what_was_asked_for_still_arrives(
    pulling: Pulling,
) -> None:
    pulling.puller.pause()
    await pulling.message()
    assert (pulling.batches, len(pulling.arrived)) == ([1], 1)
    pulling.puller.resume()
    assert pulling.batches == [1, 2]


async def test_a_message_with_a_status_header_of_its_own_is_a_message(pulling: Pulling) -> None:
    await pulling.message(headers={"Status": "404"})
    assert (pulling.arrived, pulling.trouble) == ([{"Status": "404"}], 0)


async def test_a_heartbeat_ends_nothing(pulling: Pulling) -> None:
    pulling.status("100")
    assert (pulling.puller.outstanding, pulling.batches, pulling.trouble) == (1, [1], 0)


@pytest.mark.parametrize("code", ["404", "408"])
async def test_an_expired_or_empty_request_is_asked_again(pulling: Pulling, code: str) -> None:
    pulling.status(code, Nats_Pending_Messages="1")
    assert (len(pulling.batches), pulling.trouble) == (2, 0)


async def test_while_no_message_comes_heartbeats_are_fewer(pulling: Pulling) -> None:
    """The first request after one that brought nothing has them, and the first one after a message
    has not.
    """
    pulling.status("408", Nats_Pending_Messages="1")
    pulling.status("408", Nats_Pending_Messages="1")
    assert (pulling.heartbeats_s, pulling.puller.heartbeat_s) == ([1.0, 2.5, 2.5], 2.5)
    await pulling.message()
    assert (pulling.heartbeats_s[3:], pulling.puller.heartbeat_s) == ([1.0], 1.0)


async def test_two_heartbeats_come_before_a_request_expires() -> None:
    pulling = Pulling(expires=4)
    await pulling.puller.open()
    pulling.puller.refill()
    pulling.status("408", Nats_Pending_Messages="1")
    assert pulling.heartbeats_s == [1.0, 2.0]
    pulling.puller.reset()
    assert pulling.heartbeats_s[2:] == [1.0], "what was idle is forgotten, too"


async def test_a_request_that_no_frame_came_just_before_is_in_doubt_until_the_next(
    pulling: Pulling,
) -> None:
    now = [100.0]
    pulling.puller._now = lambda: now[0]
    pulling.puller.reset()
    assert pulling.puller.is_doubtful
    seen = []
    for silence_s in (1.0, 1.1):
        now[0] += 10.0
        pulling.places = 0
        await pulling.message(pulling.puller.outstanding)
        now[0] += silence_s
        pulling.places = 1
        pulling.puller.refill()
        seen.append(pulling.puller.is_doubtful)
    assert (seen, pulling.puller.state.requests) == ([False, True], len(pulling.batches))
    now[0] += 0.1
    pulling.status("100")
    assert not pulling.puller.is_doubtful


async def test_heartbeats_are_fewer_still_where_a_lost_request_is_told_otherwise(
    pulling: Pulling,
) -> None:
    pulling.puller.lost_is_told = True
    pulling.status("408", Nats_Pending_Messages="1")
    assert (pulling.heartbeats_s, pulling.puller.heartbeat_s) == ([1.0, 7.5], 7.5)
    pulling.puller.lost_is_told = False
    pulling.status("408", Nats_Pending_Messages="1")
    assert pulling.heartbeats_s[2:] == [2.5]


async def test_a_request_that_brought_a_message_before_it_ended_was_not_idle(
    pulling: Pulling,
) -> None:
    await pulling.message(3)
    pulling.status("408", Nats_Pending_Messages="1")
    assert set(pulling.heartbeats_s) == {1.0}


async def test_an_ended_request_takes_only_what_it_still_owed_off_the_count(
    pulling: Pulling,
) -> None:
    await pulling.message(30)
    before = pulling.puller.outstanding
    pulling.puller.pause()
    pulling.status("408", Nats_Pending_Messages="2")
    assert pulling.puller.outstanding == before - 2


@pytest.mark.parametrize("code", ["409", "412", "423", "503"])
async def test_any_other_end_is_trouble_and_is_not_asked_again_blindly(
    pulling: Pulling, code: str
) -> None:
    pulling.status(code)
    assert (pulling.trouble, pulling.batches, pulling.puller.outstanding) == (1, [1], 0)


async def test_the_end_of_a_forgotten_request_means_nothing(pulling: Pulling) -> None:
    pulling.puller.reset()
    pulling.status("409", generation=0)
    pulling.status("408", generation=0)
    assert (pulling.trouble, pulling.puller.outstanding, pulling.batches) == (0, 1, [1, 1])


async def test_a_reset_forgets_what_is_outstanding_and_starts_from_one(pulling: Pulling) -> None:
    await pulling.message(30)
    pulling.connection.posts.clear()
    pulling.puller.reset()
    assert (pulling.batches, pulling.puller.state.resets) == ([1], 1)
    assert pulling.connection.posts[0].reply == f"{INBOX}.1"


@pytest.mark.parametrize("odd", ["", "many", "-3"])
async def test_a_count_that_is_no_number_ends_the_whole_request(pulling: Pulling, odd: str) -> None:
    pulling.puller.pause()
    pulling.status("408", Nats_Pending_Messages=odd)
    assert pulling.puller.outstanding == 0


def requests(pulling: Pulling) -> list[tuple[int, bool]]:
    """What was asked for: how many, and whether with a limit in bytes."""
    asked = [orjson.loads(data) for data in pulling.connection.posted(NEXT)]
    assert all(
        BYTES <= one["max_bytes"] < BYTES + SPREAD_BYTES for one in asked if "max_bytes" in one
    )
    return [(one["batch"], "max_bytes" in one) for one in asked]


async def test_a_request_for_several_has_a_limit_in_bytes_that_cannot_be_guessed(
    pulling: Pulling,
) -> None:
    await pulling.message(500)
    assert set(requests(pulling)) >= {(1, False), (4, True)}
    limits = {orjson.loads(data).get("max_bytes") for data in pulling.connection.posted(NEXT)}
    assert len(limits) > 10


async def test_a_request_that_the_bytes_end_is_made_again_at_once_and_is_no_trouble(
    pulling: Pulling,
) -> None:
    await pulling.message(30)
    await pulling.message(1)
    missing = pulling.puller.outstanding
    pulling.connection.posts.clear()
    pulling.status(
        "409",
        Description="Message Size Exceeds MaxBytes",
        Nats_Pending_Messages=str(missing),
        Nats_Pending_Bytes="10",
    )
    await turn()
    assert (requests(pulling), pulling.trouble) == ([(8, True)], 0)


async def test_a_message_larger_than_the_limit_is_asked_for_alone_and_without_one(
    pulling: Pulling,
) -> None:
    await pulling.message(30)
    missing = pulling.puller.outstanding
    pulling.connection.posts.clear()
    pulling.status(
        "409",
        Description="Message Size Exceeds MaxBytes",
        Nats_Pending_Messages=str(missing),
        Nats_Pending_Bytes=str(BYTES),
    )
    await turn()
    assert requests(pulling) == [(1, False)]
    await pulling.message(1)
    assert requests(pulling)[1] == (8, True)


async def test_a_request_that_is_complete_is_no_trouble(pulling: Pulling) -> None:
    await pulling.message(30)
    outstanding = pulling.puller.outstanding
    pulling.status(
        "409", Description="Batch Completed", Nats_Pending_Messages="0", Nats_Pending_Bytes="70000"
    )
    await turn()
    assert (pulling.puller.outstanding, pulling.trouble) == (outstanding, 0)


async def test_any_other_conflict_is_looked_at_whatever_it_says_of_bytes(pulling: Pulling) -> None:
    pulling.status(
        "409", Description="Server Shutdown", Nats_Pending_Messages="5", Nats_Pending_Bytes="5000"
    )
    assert pulling.trouble == 1
