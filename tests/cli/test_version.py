"""`router version --check-store`: what is stored is read by the readers of this version, and what
it cannot read is named.
"""

import json
from collections.abc import AsyncIterator

import pytest

from router import __version__
from router.config import Settings
from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment_record import (
    acknowledgement_key,
    reported_key,
    unmarked_key,
    write_acknowledgement,
)
from router.core.errors import Poison
from router.delivery.wire.api import JetStream
from router.operate.topology.declared_topology import declare_topology
from router.serve import store_check
from router.serve.store_check import (
    FORMATS,
    StoreReport,
    find_version_before,
    is_readable_before,
    list_readers,
)
from tests.support.cli import call_command, call_command_async
from tests.support.stories import a_topology

POLICIES = "KV_ROUTER_POLICIES"


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with a_topology(nats_url) as jetstream:
        yield jetstream


async def test_what_this_version_wrote_it_reads_and_what_it_cannot_read_is_named(
    nats_url: str, jetstream: JetStream, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("policies") / "one.json"
    file.write_text(json.dumps({"version": "1.0", "providers": [{"name": "first", "weight": 1}]}))
    for command in (
        ("put", "acme", "one", str(file)),
        ("delete", "acme", "one"),
        ("put", "acme", "two", str(file)),
    ):
        ended = await call_command_async("policy", *command, "--nats-url", nats_url)
        assert ended.status == 0, ended.err
    check = ("version", "--check-store", "--nats-url", nats_url)
    ended = await call_command_async(*check, "--json")
    assert (
        ended.status,
        ended.json["readable"],
        ended.json["before"],
        ended.json["readable_before"],
    ) == (0, True, None, None)
    reports = {one["stream"]: one for one in ended.json["streams"]}
    assert reports[POLICIES]["examined"] >= 2
    assert reports["ROUTER_AUDIT"]["examined"] == 3

    await jetstream.publish("$KV.ROUTER_POLICIES.acme.three", b'{"format": "of another"}', {})
    await jetstream.ask("STREAM.DELETE.ROUTER_VIOLATIONS")
    ended = await call_command_async(*check)
    assert ended.status == 1
    assert "missing" in ended.out
    assert f"{__version__} reads not all of it; there is no version before" in ended.out
    assert f"router: {POLICIES}, sequence " in ended.err


def test_a_bucket_of_two_kinds_of_records_is_read_by_key() -> None:
    read = list_readers(Settings())["KV_ROUTER_ASSIGNMENTS_KNOWN"]
    ack = ExecAssignmentAck(assignment_id="a-1", status="accepted", acknowledged_at=1)
    assert read(acknowledgement_key("a-1"), write_acknowledgement(ack))
    assert read(reported_key("a-1"), b"reported") == "reported"
    assert read(unmarked_key("acme", "openai"), b"1") == "1"
    with pytest.raises(Poison):
        read("a-1", write_acknowledgement(ack))


def test_what_is_spent_of_budgets_is_read_beside_the_record_of_the_settlement() -> None:
    read = list_readers(Settings())["KV_ROUTER_BUDGETS_SPENT"]
    assert read("settlement", b'{"life": "one", "timeline": "then", "through": 3, "stored_ns": 4}')
    assert read(
        "acme.day.1.2", b'{"is_counted": true, "timeline": "then", "through": 3, "stored_ns": 4}'
    )
    for key, data in (
        ("settlement", b'{"life": "one", "through": 3}'),
        ("acme.day.1.2", b'{"is_counted": true, "through": 3}'),
    ):
        with pytest.raises(Poison):
            read(key, data)


def test_the_version_before_reads_it_if_its_format_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fine, broken = StoreReport("one", 1, 1), StoreReport("one", 1, 1, 1)
    monkeypatch.setattr(store_check, "FORMATS", {"1.0.0": 1, "1.1.0": 1, "2.0.0": 2})
    assert [find_version_before(one) for one in ("1.0.0", "1.1.0", "2.0.0")] == [
        None,
        "1.0.0",
        "1.1.0",
    ]
    assert [is_readable_before(one, [fine]) for one in ("1.0.0", "1.1.0", "2.0.0")] == [
        None,
        True,
        False,
    ]
    assert is_readable_before("1.1.0", [broken]) is False


def test_a_release_says_which_format_it_writes() -> None:
    assert [*FORMATS][-1] == __version__
    assert [*FORMATS.values()] == sorted(FORMATS.values())


def test_each_stream_that_is_read_is_declared() -> None:
    assert set(list_readers(Settings())) <= {
        one.name for one in declare_topology(Settings()).streams
    }


def test_the_versions_are_printed_without_a_server() -> None:
    for arguments in (("version",), ("--version",)):
        ended = call_command(*arguments)
        assert (ended.status, ended.out.split()[:2]) == (0, ["router", __version__])
