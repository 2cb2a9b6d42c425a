"""SOLVER-Ralph's six variables: they bind the bus, and nothing else."""

import pytest

from router.bus.build_settings import build_bus_settings
from router.config import Settings
from tests.support.config import load_settings, read_refusal


def test_the_defaults_are_the_specifications() -> None:
    """SR-30, SR-31, SR-32, SR-33, SR-34, SR-35."""
    settings = load_settings().settings
    bus = build_bus_settings(settings)
    assert settings.nats.url == ("nats://localhost:4222",)
    assert (bus.stream_prefix, bus.consumer_prefix) == ("sr", "sr-consumer")
    assert (bus.message_ttl_secs, bus.max_msgs_per_subject, bus.duplicate_window_secs) == (
        604_800,
        -1,
        120,
    )


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("NATS_STREAM_PREFIX", "acme", "stream_prefix", "acme"),
        ("NATS_CONSUMER_PREFIX", "acme-consumer", "consumer_prefix", "acme-consumer"),
        ("NATS_MESSAGE_TTL_SECS", "3600", "message_ttl_secs", 3600),
        ("NATS_MAX_MSGS_PER_SUBJECT", "1000", "max_msgs_per_subject", 1000),
        ("NATS_DUPLICATE_WINDOW_SECS", "60", "duplicate_window_secs", 60),
    ],
)
def test_each_variable_sets_its_own_field_of_the_bus_alone(
    variable: str, text: str, field: str, value: object
) -> None:
    """SR-31, SR-32, SR-33, SR-34, SR-35, SR-17."""
    settings = load_settings(**{variable: text}).settings
    assert getattr(build_bus_settings(settings), field) == value
    assert settings.model_copy(update={"bus": Settings().bus, "node_id": "n"}) == Settings(
        node_id="n"
    )


def test_nats_url_is_everyones() -> None:
    """SR-30."""
    assert load_settings(NATS_URL="nats://elsewhere:4222").settings.nats.url == (
        "nats://elsewhere:4222",
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NATS_STREAM_PREFIX", "a.b"),
        ("NATS_STREAM_PREFIX", "sr.>"),
        ("NATS_CONSUMER_PREFIX", "two words"),
        ("NATS_MESSAGE_TTL_SECS", "0"),
        ("NATS_MAX_MSGS_PER_SUBJECT", "0"),
        ("NATS_MAX_MSGS_PER_SUBJECT", "-2"),
        ("NATS_DUPLICATE_WINDOW_SECS", "a while"),
        ("NATS_DUPLICATE_WINDOW_SECS", "604801"),
    ],
)
def test_what_a_server_would_refuse_is_refused_at_the_start(variable: str, value: str) -> None:
    """SR-17, SR-31, SR-32: the window is at most the age."""
    field = variable.removeprefix("NATS_").lower()
    assert read_refusal(**{variable: value}).startswith(f"bus.{field}: ")
