"""When a connection sends a PING: seldom while nothing waits, at each tick while a server that
should speak is silent.
"""

import pytest

from router.delivery.wire.ping_schedule import (
    DEAF_TICKS,
    HEARING_TICKS,
    IDLE_TICKS,
    PingSchedule,
    TransportProgress,
)

MOST = 2
NOTHING = TransportProgress(False, False, False, False)
HEARD = TransportProgress(True, False, False, False)
PONG = TransportProgress(True, False, False, True)
WRITTEN = TransportProgress(False, False, True, False)
DRAINED = TransportProgress(False, True, True, False)


def run(*ticks: TransportProgress) -> tuple[list[bool], PingSchedule]:
    schedule = PingSchedule(MOST)
    return [schedule.is_due(tick) for tick in ticks], schedule


def test_an_idle_connection_pings_every_few_ticks() -> None:
    due, schedule = run(*[NOTHING] * IDLE_TICKS, *[PONG, *[NOTHING] * (IDLE_TICKS - 1)] * 5)
    assert due == [*[False] * (IDLE_TICKS - 1), True] * 6
    assert not schedule.is_gone


def test_a_connection_where_messages_come_pings_now_and_then_to_see_that_the_server_reads() -> None:
    due, _ = run(*[HEARD] * 3 * HEARING_TICKS)
    assert due == [*[False] * (HEARING_TICKS - 1), True] * 3


@pytest.mark.parametrize("ticks", [(HEARD, NOTHING, NOTHING, NOTHING), (WRITTEN, NOTHING, NOTHING)])
def test_silence_where_messages_came_or_after_a_write_is_asked_about_at_each_tick(
    ticks: tuple[TransportProgress, ...],
) -> None:
    due, schedule = run(*ticks[:-1])
    assert due[-2:] == [True, True]
    assert not schedule.is_gone
    schedule.is_due(ticks[-1])
    assert schedule.is_gone


def test_a_pong_ends_the_doubt() -> None:
    due, schedule = run(HEARD, NOTHING, PONG, NOTHING, NOTHING)
    assert due == [False, True, False, False, False]
    assert not schedule.is_gone


def test_a_full_socket_that_takes_bytes_shows_a_server_that_is_alive() -> None:
    _, schedule = run(*[DRAINED] * 2 * DEAF_TICKS)
    assert not schedule.is_gone


def test_a_server_that_sends_and_answers_no_ping_is_gone_in_the_end() -> None:
    _, schedule = run(*[HEARD] * DEAF_TICKS)
    assert not schedule.is_gone
    for _ in range(HEARING_TICKS):
        schedule.is_due(HEARD)
    assert schedule.is_gone
