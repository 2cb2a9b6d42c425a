"""`router bus`, as processes, against a server; and `router dlq --of bus`."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import PIPE

import orjson
import pytest

from router.contracts.envelope import envelope_schema
from router.sdk.bus import Bus
from tests.support.any_json import read_exactly
from tests.support.bus import (
    EXAMPLE,
    a_bus,
    an_envelope,
    read_bus_stream,
    run_consumer,
    wait_until_settled,
)
from tests.support.cli import (
    COMMAND,
    CommandResult,
    call_command_async,
    clean_environment,
    router,
    table_words,
)
from tests.support.waiting import until

EVENT = (
    "publish",
    "LoopCreated",
    "--payload",
    '{"loop_id": "loop_1"}',
    "--actor",
    "user_1",
    "--id",
    "evt_1",
)


@pytest.fixture
async def bus(nats_url: str, prefix: str) -> AsyncIterator[Bus]:
    async with a_bus(nats_url, prefix, consumer_prefix="c") as bus:
        yield bus


async def _run(bus: Bus, *arguments: str, given: bytes = b"", group: str = "bus") -> CommandResult:
    return await call_command_async(group, *arguments, given=given, environ=_environ(bus))


def _environ(bus: Bus) -> dict[str, str]:
    return {"NATS_URL": bus._all.nats.url[0], "NATS_STREAM_PREFIX": bus.settings.stream_prefix}


async def test_an_event_is_published_and_again_it_is_the_same(bus: Bus, prefix: str) -> None:
    """SR-22, SR-31: by the variables of the specification."""
    first = router("bus", *EVENT, "--json", environ=_environ(bus)).json
    assert (first["stream"], first["sequence"], first["duplicate"]) == (
        f"{prefix}-events",
        1,
        False,
    )
    assert (await _run(bus, *EVENT)).out == f"evt_1 was stored before: {prefix}-events 1\n"
    (found,) = await read_bus_stream(bus, "events")
    assert orjson.loads(found.data)["payload"] == {"loop_id": "loop_1"}
    assert (await _run(bus, "publish", "LoopPaused")).status == 0


async def test_a_payload_is_published_and_shown_with_every_digit(bus: Bus) -> None:
    payload = b'{"n":18446744073709551616,"m":0.1234567890123456789012345,"r":1.0,"e":1E5}'
    assert (await _run(bus, "publish", "LoopCreated", "--payload", "@-", given=payload)).status == 0
    envelope = orjson.dumps({**EXAMPLE, "payload": orjson.Fragment(payload)})
    assert (await _run(bus, "publish", "--file", "-", given=envelope)).status == 0
    assert [read_exactly(one.data)["payload"] for one in await read_bus_stream(bus, "events")] == [
        read_exactly(payload)
    ] * 2
    lines = (await _run(bus, "tail", "--no-follow", "--json")).out.splitlines()
    assert [read_exactly(line)["message"]["payload"] for line in lines] == [
        read_exactly(payload)
    ] * 2
    assert (await _run(bus, "tail", "--no-follow")).out.count("0.1234567890123456789012345") == 2


async def test_a_whole_envelope_and_a_command_are_published(bus: Bus, prefix: str) -> None:
    assert (await _run(bus, "publish", "--file", "-", given=orjson.dumps(EXAMPLE))).status == 0
    assert (
        await _run(
            bus,
            "publish",
            "StartIteration",
            "--command",
            "iteration.start",
            "--payload",
            "@-",
            given=b'{"n": 1}',
        )
    ).status == 0
    assert [one.subject for one in await read_bus_stream(bus, "commands")] == [
        f"{prefix}.commands.iteration.start"
    ]
    assert [one.data for one in await read_bus_stream(bus, "events")] == [orjson.dumps(EXAMPLE)]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("publish",), 2, "give a TYPE"),
        (("publish", "LoopCreated", "--payload", "[1]"), 2, "JSON object"),
        (("publish", "LoopCreated", "--payload", "{"), 2, "not JSON"),
        (("publish", "LoopCreated", "--payload", "@/no/such/file"), 2, "cannot be read"),
        (
            ("publish", "LoopCreated", "--actor-kind", "ROBOT"),
            1,
            "actor_kind must be HUMAN, AGENT or SYSTEM",
        ),
        (("publish", "LoopCreated", "--command", "iteration.stop"), 1, "there are iteration.start"),
        (("tail", "nothing"), 2, "events, commands"),
    ],
)
async def test_wrong_use_says_what_is_legal(
    bus: Bus, arguments: tuple[str, ...], status: int, text: str
) -> None:
    ended = await _run(bus, *arguments)
    assert (ended.status, text in " ".join(table_words(ended.err.replace("│", "")))) == (
        status,
        True,
    ), ended.err


async def test_tail_shows_what_stands_there_and_what_comes(bus: Bus, prefix: str) -> None:
    for number in range(5):
        await bus.publisher.event(
            an_envelope(number, message_type="RunStarted" if number % 2 else "LoopCreated")
        )
    last_two = (await _run(bus, "tail", "-n", "2", "--no-follow", "--json")).lines
    assert [line["message"]["message_id"] for line in last_two] == ["evt_3", "evt_4"]
    assert (await _run(bus, "tail", "--only", "run", "--no-follow")).out.count(
        f"{prefix}.events.run  RunStarted  evt_"
    ) == 2
    await until(lambda: _has_readers(bus, 0))  # those of the two commands above are gone
    process = subprocess.Popen(  # noqa: ASYNC220 - it only begins here
        [*COMMAND, "bus", "tail", "--only", "loop", "-n", "0", "--json"],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env=clean_environment(_environ(bus)),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    await until(lambda: _has_readers(bus, 1))
    await bus.publisher.event(an_envelope(5))
    assert process.stdout is not None
    line = json.loads(await asyncio.to_thread(process.stdout.readline))
    assert (line["subject"], line["message"]["message_id"]) == (f"{prefix}.events.loop", "evt_5")
    process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(process.communicate) == ("", "")
    assert process.returncode == 130


async def _has_readers(bus: Bus, count: int) -> bool:
    info = await bus.jetstream.stream(f"{bus.settings.stream_prefix}-events")
    return info is not None and info["state"]["consumer_count"] == count


async def test_the_topology_is_shown_compared_and_applied(nats_url: str, prefix: str) -> None:
    """SR-13 to SR-17, SR-31, SR-33."""
    environ = {"NATS_URL": nats_url, "NATS_STREAM_PREFIX": prefix, "NATS_MESSAGE_TTL_SECS": "3600"}
    told = await call_command_async("bus", "topology", "--json", environ=environ)
    assert (told.status, [one["name"] for one in told.json["streams"]][:2]) == (
        1,
        [f"{prefix}-events", f"{prefix}-commands"],
    )
    assert (await call_command_async("bus", "topology", "--apply", environ=environ)).status == 0
    assert (await call_command_async("bus", "topology", environ=environ)).status == 0
    drifted = await call_command_async(
        "bus", "topology", environ={**environ, "NATS_MESSAGE_TTL_SECS": "7200"}
    )
    assert (drifted.status, "drifted" in table_words(drifted.out)) == (1, True)


async def test_the_schema_is_printed_and_envelopes_are_checked_by_it(tmp_path: Path) -> None:
    """SR-36."""
    assert (await call_command_async("bus", "schema")).json == envelope_schema()
    file = tmp_path / "envelope.json"
    file.write_bytes(orjson.dumps(EXAMPLE))
    assert (await call_command_async("bus", "schema", "--check", str(file))).out.startswith(
        "LoopCreated evt_01HQ"
    )
    refused = await call_command_async(
        "bus", "schema", "--check", "-", given=b'{"schema_version": "2.0"}'
    )
    assert (refused.status, "Unsupported schema_version" in refused.err) == (1, True)


async def test_a_version_may_be_dropped_when_no_consumer_can_meet_it(bus: Bus, prefix: str) -> None:
    """SR-29, X6: the duplicate window says nothing about it; the streams and their durables do."""
    await bus.publisher.event(an_envelope(1))
    await bus.publisher.event(an_envelope(2, message_type="RunStarted"))
    async with run_consumer(bus, lambda _: None, "loops", only="loop"):
        await settled_on_loops(bus)
    told = await _run(bus, "check-drain", "1.0", "--json")
    assert (told.status, told.json["drained"]) == (1, False)
    assert told.json["streams"][0]["waiting"] == {"c-loops": 0}
    assert told.json["streams"][0]["standing"] == 2
    assert (await _run(bus, "check-drain", "1.0", "--lag-only")).status == 0
    async with run_consumer(bus, lambda _: None, "runs", only="run"):
        await bus.publisher.event(an_envelope(3, message_type="RunStarted"))
        await wait_until_settled(bus, "runs")
    await bus.publisher.event(an_envelope(4, message_type="RunStarted"))
    await until(lambda: _is_pending(bus, "c-runs"))
    lagging = await _run(bus, "check-drain", "1.0", "--lag-only", "--json")
    assert (lagging.status, lagging.json["streams"][0]["waiting"]) == (
        1,
        {"c-loops": 0, "c-runs": 1},
    )
    assert (await _run(bus, "check-drain", "0.9")).status == 0
    await bus.jetstream.ask(f"STREAM.PURGE.{prefix}-events", {})
    assert "may be dropped" in (await _run(bus, "check-drain", "1.0")).out


async def settled_on_loops(bus: Bus) -> None:
    async def is_acknowledged() -> bool:
        info = await bus.jetstream.consumer(f"{bus.settings.stream_prefix}-events", "c-loops")
        return (
            info is not None and info["num_pending"] == 0 and info["ack_floor"]["stream_seq"] >= 1
        )

    await until(is_acknowledged)


async def _is_pending(bus: Bus, durable: str) -> bool:
    """Whether the consumer counts a message that was stored after its end; the server does so a
    moment later.
    """
    info = await bus.jetstream.consumer(f"{bus.settings.stream_prefix}-events", durable)
    return info is not None and info["num_pending"] == 1


async def test_dead_letters_of_the_bus_are_listed_and_sent_again(bus: Bus, prefix: str) -> None:
    """docs/reference/contracts.md#dead-letter-streams: a replay has a new id, and is processed, for
    its key never was.
    """
    is_mended = []
    seen = []

    def handle(envelope: object) -> None:
        if not is_mended:
            raise ValueError("not yet")
        seen.append(envelope)

    await bus.publisher.event(an_envelope(1))
    async with run_consumer(bus, handle):
        await until(lambda: _letters(bus))
        (line,) = (await _run(bus, "list", "--of", "bus", "--json", group="dlq")).lines
        assert (line["reason"], line["original_subject"]) == (
            "maxdeliver_exhausted",
            f"{prefix}.events.loop",
        )
        is_mended.append(True)
        assert (await _run(bus, "replay", "--all", "--of", "bus", "--json", group="dlq")).json[
            "sent"
        ] == 1
        await until(lambda: seen)
    assert await read_bus_stream(bus, "dlq") == []
    assert (await _run(bus, "list", "--of", "unknown", group="dlq")).status == 2


async def _letters(bus: Bus) -> bool:
    return bool(await read_bus_stream(bus, "dlq"))
