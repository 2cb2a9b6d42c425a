"""Options: names in any case, values checked, and no login where one could read it."""

import pytest

from router.core.errors import Misconfigured
from router.lake.source.options import SourceOptions, read_options


def options(**given: str) -> SourceOptions:
    return read_options({"url": "nats://127.0.0.1:4222", "stream": "S", **given})


def test_names_are_read_in_any_case() -> None:
    """UL-14."""
    assert (
        options(MAXOFFSETSPERTRIGGER="7").max_rows
        == options(maxOffsetsPerTrigger="7").max_rows
        == 7
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "0"),
        ("maxBytesPerTrigger", "much"),
        ("failOnDataLoss", "yes"),
        ("startingOffsets", "yesterday"),
        ("startingOffsets", "0"),
        ("endingOffsets", "earliest"),
        ("timeoutMs", "-1"),
        ("stream", "a.b"),
        ("stream", " "),
        ("url", ""),
    ],
)
def test_a_wrong_value_is_refused_by_the_options_name(name: str, value: str) -> None:
    """UL-14."""
    with pytest.raises(Misconfigured) as refused:
        options(**{name: value})
    assert refused.value.setting == name


def test_an_unknown_option_is_refused_instead_of_ignored() -> None:
    """UL-14."""
    with pytest.raises(Misconfigured, match="startingoffset:"):
        options(startingOffset="latest")


def test_two_limits_are_one_too_many() -> None:
    with pytest.raises(Misconfigured, match="one of them"):
        options(maxOffsetsPerTrigger="1", maxBytesPerTrigger="1")


def test_a_login_is_not_shown_with_the_options() -> None:
    shown = repr(
        read_options({"url": "nats://me:hidden-1@host", "stream": "S", "password": "hidden-2"})
    )
    assert "hidden" not in shown
