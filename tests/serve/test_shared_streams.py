"""A stream that several kinds of processes make is the same by each of them, and has the limits of
its settings.
"""

from router.agents.commands import make_places
from router.config import load
from router.delivery.wire.topology import StreamSpec
from router.mailbox.inbox.rules import recovery_consumer_of
from router.mailbox.inbox_process import InboxService
from router.operate.topology.declared_topology import declare_topology

GIVEN = {
    "streams.advisories.name": "ADVICE",
    "streams.advisories.max_age_ms": 86_400_000,
    "streams.advisories.max_bytes": 1024 * 1024,
}
GIVEN |= {
    "buckets.attempts.name": "TRIES",
    "buckets.attempts.ttl_ms": 7_200_000,
    "agents.replicas": 3,
}
GIVEN |= {
    "mailbox.dsn": "postgresql://nowhere/x",
    "inbox.source": "sea",
    "inbox.handler.url": "http://127.0.0.1:1/",
}
SETTINGS = load(None, GIVEN, {}).settings


def test_the_advisories_have_the_limits_of_their_settings() -> None:
    """Two of three settings were not read: the stream had the default limits whatever they said."""
    inbox, agent = (
        _by_name(InboxService(SETTINGS)._streams.streams)["ADVICE"],
        _by_name(make_places(SETTINGS).streams())["ADVICE"],
    )
    assert (inbox.max_age, inbox.max_bytes, inbox.replicas) == (86_400.0, 1024 * 1024, 1)
    assert inbox == agent


def test_an_inbox_recovers_from_the_stream_that_the_settings_name() -> None:
    assert recovery_consumer_of(InboxService(SETTINGS).rules).stream == "ADVICE"


def test_the_attempts_of_agents_are_kept_as_those_of_the_others() -> None:
    router = _by_name(declare_topology(SETTINGS).streams)["KV_TRIES"]
    assert router.max_age == 7_200.0
    assert router == _by_name(InboxService(SETTINGS)._streams.streams)["KV_TRIES"]
    assert router == _by_name(make_places(SETTINGS).streams())["KV_TRIES"]


def _by_name(streams: tuple[StreamSpec, ...]) -> dict[str, StreamSpec]:
    return {stream.name: stream for stream in streams}
