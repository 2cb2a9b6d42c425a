"""The streams of the bus, as the specification has them and as a server takes them."""

from router.bus.settings import BusSettings
from router.bus.subjects import declare_streams
from router.delivery.wire.topology import apply, compare
from tests.support.bus import a_bus

DAY_NS = 86_400 * 10**9


def stream(name: str, settings: BusSettings | None = None) -> dict[str, object]:
    (spec,) = [
        spec for spec in declare_streams(settings or BusSettings()).streams if spec.name == name
    ]
    return spec.to_json()


def test_events_commands_and_queries_have_a_stream_each() -> None:
    """SR-13, SR-14 (with `>`: X3), SR-15 (which sends no PubAck: X4)."""
    assert stream("sr-events")["subjects"] == ["sr.events.*"]
    assert stream("sr-commands")["subjects"] == ["sr.commands.>"]
    assert stream("sr-queries")["subjects"] == ["sr.queries.*"]
    assert [stream(name)["no_ack"] for name in ("sr-events", "sr-commands", "sr-queries")] == [
        False,
        False,
        True,
    ]


def test_a_stream_is_configured_as_specified() -> None:
    """SR-16: the configuration, field by field; SR-33, SR-34, SR-35: the defaults."""
    specified = {
        "name": "sr-events",
        "subjects": ["sr.events.*"],
        "max_age": 604800000000000,
        "duplicate_window": 120000000000,
        "storage": "file",
        "retention": "limits",
        "max_msgs_per_subject": -1,
    }
    assert specified.items() <= stream("sr-events").items()


def test_dead_letters_stand_apart_and_are_never_dropped_for_newer_ones() -> None:
    """docs/reference/contracts.md#dead-letter-streams."""
    letters = stream("sr-dlq")
    assert (letters["subjects"], letters["discard"], letters["allow_direct"]) == (
        ["sr.dlq.>"],
        "new",
        True,
    )
    assert (letters["max_age"], letters["duplicate_window"]) == (30 * DAY_NS, 3600 * 10**9)


def test_a_prefix_moves_streams_and_subjects_alike() -> None:
    """SR-31, X7."""
    specs = declare_streams(BusSettings(stream_prefix="acme")).streams
    assert [(spec.name, spec.subjects[0]) for spec in specs[:4]] == [
        ("acme-events", "acme.events.*"),
        ("acme-commands", "acme.commands.>"),
        ("acme-queries", "acme.queries.*"),
        ("acme-dlq", "acme.dlq.>"),
    ]


async def test_a_server_takes_all_of_it_and_two_prefixes_share_it(
    nats_url: str, prefix: str
) -> None:
    """SR-13 to SR-17, on a server; SR-31, X7: with the prefix acme beside another."""
    for name in (prefix[:20], f"{prefix[:20]}-acme"):
        async with a_bus(
            nats_url,
            name,
            message_ttl_secs=3600,
            duplicate_window_secs=60,
            max_msgs_per_subject=1000,
        ) as bus:
            assert await compare(bus.jetstream, declare_streams(bus.settings)) == []
            info = await bus.jetstream.stream(f"{name}-events")
            assert info is not None
            config = info["config"]
            assert (
                config["max_age"],
                config["duplicate_window"],
                config["max_msgs_per_subject"],
            ) == (3600 * 10**9, 60 * 10**9, 1000)


async def test_other_settings_are_told_as_drift_and_applied_on_purpose(
    nats_url: str, prefix: str
) -> None:
    """SR-17, SR-33: nothing is changed silently."""
    async with a_bus(nats_url, prefix, message_ttl_secs=3600):
        pass
    async with a_bus(nats_url, prefix, message_ttl_secs=7200) as bus:
        drifted = await compare(bus.jetstream, declare_streams(bus.settings))
        assert {difference.name for difference in drifted} == {
            f"{prefix}-{name}" for name in ("events", "commands", "queries")
        }
        await apply(bus.jetstream, declare_streams(bus.settings))
        assert await compare(bus.jetstream, declare_streams(bus.settings)) == []
