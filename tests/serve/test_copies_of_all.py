"""One setting, `replicas`, gives every stream and every bucket its copies, whichever process makes
it.
"""

import pytest

from router.agents.commands import make_places
from router.bus.build_settings import build_bus_settings
from router.bus.subjects import declare_streams
from router.config import Settings, load
from router.delivery.wire.topology import StreamSpec
from router.mailbox.inbox_process import InboxService
from router.operate.topology.declared_topology import declare_topology


def _settings() -> Settings:
    given = {
        "replicas": 3,
        "acks.enabled": True,
        "mailbox.dsn": "postgresql://nowhere/x",
        "decide.partition": "p1",
    }
    given |= {"inbox.source": "sea", "inbox.handler.url": "http://127.0.0.1:1/"}
    return load(
        None,
        {},
        {f"ROUTER_{name.upper().replace('.', '__')}": str(value) for name, value in given.items()},
    ).settings


def _declared(process: str) -> tuple[StreamSpec, ...]:
    settings = _settings()
    match process:
        case "router":
            return declare_topology(settings).streams
        case "bus":
            return declare_streams(build_bus_settings(settings)).streams
        case "inbox":
            return InboxService(settings)._streams.streams
        case _:
            return make_places(settings).streams()


@pytest.mark.parametrize("process", ["router", "bus", "inbox", "agent"])
def test_every_stream_and_bucket_of_a_process_has_the_copies_of_the_setting(process: str) -> None:
    assert {
        stream.name: stream.replicas for stream in _declared(process) if stream.replicas != 3
    } == {}
