"""Moments as operators write them."""

from datetime import UTC, datetime, timedelta

import pytest

from router.core.clock import (
    delay_after,
    format_day,
    format_moment,
    format_second,
    now_ms,
    read_end,
    read_instant,
)


@pytest.mark.parametrize(
    ("text", "ago"),
    [("30s", timedelta(seconds=30)), ("2h", timedelta(hours=2)), ("7d", timedelta(days=7))],
)
def test_a_moment_is_so_long_ago(text: str, ago: timedelta) -> None:
    assert abs(datetime.now(UTC) - ago - read_instant(text)) < timedelta(minutes=1)
    assert abs(datetime.now(UTC) + ago - read_end(text)) < timedelta(minutes=1)


def test_an_end_is_an_iso_time_too_and_never_beyond_the_calendar() -> None:
    assert read_end("2090-01-01T00:00:00Z") == datetime(2090, 1, 1, tzinfo=UTC)
    for text in ("soon", "-1d", "9999999d", "1w"):
        with pytest.raises(ValueError, match="neither like 10m"):
            read_end(text)


def test_a_moment_is_written_with_its_milliseconds_a_second_and_a_day_without() -> None:
    assert format_moment(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert format_second(1_700_000_000) == "2023-11-14T22:13:20Z"
    assert format_day(1_700_006_399_999) == "2023-11-14"
    assert format_day(1_700_006_400_000) == "2023-11-15"


def test_now_is_in_milliseconds_since_the_epoch() -> None:
    assert abs(now_ms() - datetime.now(UTC).timestamp() * 1000) < 600_000


def test_the_last_step_of_a_schedule_of_pauses_repeats() -> None:
    assert [delay_after(attempt, (1, 2, 4)) for attempt in range(1, 6)] == [1, 2, 4, 4, 4]


def test_a_moment_is_an_iso_time_in_utc() -> None:
    assert read_instant("2026-11-23T13:00:00+01:00") == datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "5w", "-3m", "999999d", "0001-01-01T00:00:00+23:59", "٣m", "1" * 50 + "s"],
)
def test_what_is_no_moment_says_what_is_legal(text: str) -> None:
    with pytest.raises(ValueError, match="10m, 2h, 7d nor an ISO time"):
        read_instant(text)
