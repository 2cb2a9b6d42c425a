"""Backup and restore on real servers: nothing lost, nothing twice, nothing overwritten
(docs/how-to/two-places.md#backup).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.operate.recovery import read_manifest, restore, save_backup
from router.operate.recovery.recovery_order import list_effect_streams, list_in_order
from tests.support.broker import Broker
from tests.support.cli import CommandResult, call_command_async
from tests.support.cluster import started_cluster, wait_for_cluster
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    read_stream,
    read_usage,
    results_are_settled,
)
from tests.support.service import a_router, names_for, settings_for
from tests.support.stories import a_request, ask, read_dead_letters
from tests.support.waiting import until

COUNT = 5
ALL = {f"r-{number}": 1 for number in range(COUNT)}


async def test_a_message_that_is_handled_between_two_snapshots_has_its_effect_once(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """The results are saved first, then they are metered, then the usage events are saved."""
    settings = await _save_around_the_work(servers, tmp_path, results_first=True)
    _start_again(servers[1])
    assert await _handle_the_rest(settings) == ALL


async def test_the_other_order_loses_the_effect(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """The control of the order: the usage events are saved first."""
    settings = await _save_around_the_work(servers, tmp_path, results_first=False)
    _start_again(servers[1])
    assert await _handle_the_rest(settings) == {}


def test_what_is_spent_is_saved_before_the_events_that_are_settled_in_it() -> None:
    """Otherwise an event would be settled that the restored stream does not hold, and again when it
    is metered again.
    """
    settings = Settings()
    names = [spec.name for spec in list_in_order(settings)]
    assert names.index(f"KV_{settings.buckets.budgets_spent.name}") < names.index(
        settings.streams.usage.name
    )


async def test_without_a_restart_of_the_server_the_effect_is_stored_again(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """The control of the restart: a server knows no ids of what it restored until it starts again."""
    settings = await _save_around_the_work(servers, tmp_path, results_first=True)
    assert await _handle_the_rest(settings) == dict.fromkeys(ALL, 2)


async def test_all_that_a_router_stores_is_saved_under_load_and_restored(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """By the commands: every result that was stored before or after is metered once, and the rest
    of the place is there.
    """
    one, other = servers
    before, after = (settings_for(broker.url, results__ack_wait_ms=500) for broker in servers)
    async with await connect_patiently(one.url) as nc:
        async with a_router(before):
            first = await ask(nc, before, a_request("push", push_assignment=True))
            await publish_result(nc, before, b"{", headers_of("broken"))
            await until(lambda: read_dead_letters(nc, before))
            load = asyncio.create_task(_publish_for_ever(nc, before))
            await until(lambda: read_usage(nc, before))
            saved = await _run("backup", tmp_path / "b", one)
            load.cancel()
        assert saved.status == 0, saved.err
        names = {stream["name"] for stream in saved.lines}
        assert names == {spec.name for spec in list_in_order(before)}
    restored = await _run("restore", tmp_path / "b", other)
    assert (restored.status, {stream["name"] for stream in restored.lines}) == (0, names)
    _start_again(other)
    async with await connect_patiently(other.url) as nc, a_router(after):
        await until(lambda: results_are_settled(nc, after))
        stored = {
            json.loads(data)["request_id"]
            for _, data, _ in await read_stream(nc, after.streams.results.name)
            if data != b"{"
        }
        metered = Counter(event["request_id"] for event in await read_usage(nc, after))
        assert set(metered.values()) == {1}
        assert len(metered) >= len(stored) == len(metered.keys() & stored)
        assert len(await read_dead_letters(nc, after)) == 1
        again = await ask(nc, after, a_request("push", push_assignment=True))
        assert again["decision"] == first["decision"]
        assert (await nc.jsm().stream_info(after.streams.assignments.name)).state.messages == 1


async def test_partitions_and_streams_that_are_named_are_saved_before_what_comes_of_their_messages(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """By an operator's settings, which name no partition; the streams of two partitions are there,
    and none of the whole subject.
    """
    one, other = servers
    parts = [settings_for(one.url, decide__partition=part) for part in "01"]
    async with await connect_patiently(one.url) as nc, a_router(parts[0]), a_router(parts[1]):
        await nc.jsm().add_stream(StreamConfig(name="EVENTS", subjects=["events"]))
        saved = await _run(
            "backup",
            tmp_path / "b",
            one,
            "--stream",
            "EVENTS",
            "--stream",
            parts[0].streams.usage.name,
        )
        assert saved.status == 0, saved.err
    names = [stream["name"] for stream in saved.lines]
    streams = parts[0].streams
    first = {
        "EVENTS",
        *(f"{streams.decide.name}_P{part}" for part in "01"),
        streams.violations.name,
        streams.audit.name,
    }
    assert set(names[: names.index(streams.assignments.name)]) == first
    assert names.index(streams.usage.name) > names.index(streams.results.name)
    assert f"KV_{parts[0].buckets.partitions.name}" in names
    restored = await _run("restore", tmp_path / "b", other)
    assert (restored.status, [stream["name"] for stream in restored.lines]) == (0, names)


async def test_a_named_stream_that_is_not_there_is_refused(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    async with a_router(settings_for(servers[0].url)):
        refused = await _run("backup", tmp_path / "b", servers[0], "--stream", "EVNTS")
    assert refused.status == 1
    assert "EVNTS" in refused.err
    assert not (tmp_path / "b").exists()


async def test_only_its_owner_reads_a_backup(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """It holds the payloads of every tenant."""
    async with a_router(settings_for(servers[0].url)):
        assert (await _run("backup", tmp_path / "b", servers[0])).status == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "b").iterdir()} == {0o600}


@pytest.mark.slow
@pytest.mark.matrix
async def test_a_cluster_gets_what_one_server_had(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """Three copies instead of one. Slow: three servers start twice."""
    settings = settings_for(servers[0].url, results__ack_wait_ms=500)
    async with await connect_patiently(servers[0].url) as nc, a_router(settings):
        for number in range(COUNT):
            await publish_result(nc, settings, a_result(number), headers_of(number))
        await until(lambda: results_are_settled(nc, settings))
        assert (await _run("backup", tmp_path / "b", servers[0])).status == 0
    with started_cluster() as cluster:
        await wait_for_cluster(cluster)
        restored = await _run("restore", tmp_path / "b", cluster.servers[0], "--replicas", "3")
        assert restored.status == 0, restored.err
        cluster.stop()
        cluster.start()
        await wait_for_cluster(cluster)
        after = settings_for(cluster.url, replicas=3, results__ack_wait_ms=500)
        async with connected(cluster.servers[0].url) as connection:
            reset = f"CONSUMER.RESET.{after.streams.results.name}.{after.results.durable}"
            # a durable without a leader yet answers none
            await JetStream(connection, timeout_s=60.0).ask_repeatedly(reset, {"seq": 1})
        assert await _handle_the_rest(after) == ALL


async def test_nothing_is_overwritten_and_nothing_damaged_is_restored(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    one, other = servers
    settings, target = settings_for(one.url), tmp_path / "b"
    async with a_router(settings):
        assert (await _run("backup", target, one)).status == 0
    again = await _run("backup", target, one)
    assert again.status == 1
    assert "is not empty" in again.err
    taken = await _run("restore", target, one)
    assert taken.status == 1
    assert "none is overwritten" in taken.err
    nowhere = await _run("restore", tmp_path, other)
    assert nowhere.status == 1
    assert "manifest.json" in nowhere.err
    file = target / f"{settings.streams.usage.name}.tar.s2"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    damaged = await _run("restore", target, other)
    assert damaged.status == 1
    assert file.name in damaged.err
    async with connected(other.url) as connection:
        assert await JetStream(connection).stream(settings.streams.decide.name) is None


async def _save_around_the_work(
    servers: tuple[Broker, Broker], directory: Path, *, results_first: bool
) -> Settings:
    """Save one part, meter the results, save the other part; restore both on the other server.
    Returns the settings there.
    """
    one, other = servers
    settings, after = settings_for(one.url), settings_for(other.url)
    results = [settings.streams.results.name]
    rest = [spec.name for spec in list_in_order(settings) if spec.name not in results]
    parts = (results, rest) if results_first else (rest, results)
    async with a_router(settings):
        pass  # it makes the streams
    async with await connect_patiently(one.url) as nc, connected(one.url) as connection:
        for number in range(COUNT):
            await publish_result(nc, settings, a_result(number), headers_of(number))
        await save_backup(JetStream(connection), parts[0], directory / "0")
        async with a_router(settings):
            await until(lambda: results_are_settled(nc, settings))
        await save_backup(JetStream(connection), parts[1], directory / "1")
    await _restore(other, directory, ("0", "1"), list_effect_streams(settings))
    return after


def _start_again(broker: Broker) -> None:
    """By a stop, not by a kill: what a restored durable had acked is written a moment later, and a
    kill before that lets it begin anew.
    """
    broker.stop()
    broker.start()


async def _restore(
    broker: Broker, directory: Path, parts: Sequence[str], effects: frozenset[str]
) -> None:
    async with connected(broker.url) as connection:
        for part in parts:
            await restore(
                JetStream(connection), directory / part, read_manifest(directory / part), effects
            )


async def _handle_the_rest(settings: Settings) -> dict[str, int]:
    """How often each request is metered when a router has done what was left."""
    async with await connect_patiently(settings.nats.url[0]) as nc, a_router(settings):
        await until(lambda: results_are_settled(nc, settings))
        return dict(Counter(event["request_id"] for event in await read_usage(nc, settings)))


async def _publish_for_ever(nc: Client, settings: Settings) -> None:
    number = 0
    while True:
        await publish_result(nc, settings, a_result(f"load-{number}"), headers_of(f"load-{number}"))
        number += 1


async def _run(what: str, directory: Path, broker: Broker, *options: str) -> CommandResult:
    names = {
        f"ROUTER_{name.upper().replace('.', '__')}": str(value)
        for name, value in names_for(broker.url, "t").items()
    }
    return await call_command_async(what, str(directory), "--json", *options, environ=names)
