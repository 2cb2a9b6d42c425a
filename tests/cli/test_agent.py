"""`router agent`: a store looked at, replayed and checked; an agent run as a process."""

import asyncio
import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from router.agents.inspection import verify
from router.delivery.wire.api import JetStream
from router.sdk.samples.agents.ledger import Ledger
from tests.support.agents import (
    a_batch_bench,
    a_message,
    an_agent,
    count_applied,
    is_empty,
    publish_until_stored,
)
from tests.support.broker import Broker
from tests.support.cli import (
    COMMAND,
    ENDED_WITHIN_S,
    IMPATIENT,
    call_command_async,
    router,
    run_process,
    table_words,
)
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently
from tests.support.waiting import until

WITNESS = "tests.support.counting_agent:CountingAgent"
LEDGER = "router.sdk.samples.agents.ledger:Ledger"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three events applied, nothing sent; one that failed."""
    with a_batch_bench(tmp_path / "w.db") as bench:
        bench.batch.handle([a_message(1), a_message(2), a_message(3), a_message(4, fail=9)])
    return tmp_path / "w.db"


async def test_hash_prints_the_same_whenever_it_is_asked(store: Path) -> None:
    """MF-11."""
    first = await call_command_async("agent", "hash", "--store", str(store), "--json")
    again = await call_command_async("agent", "hash", "--store", str(store), "--json")
    assert first.json == again.json
    assert (first.status, first.json["events"], len(first.json["state"])) == (0, 4, 64)
    assert (
        first.json["state"]
        in (await call_command_async("agent", "hash", "--store", str(store))).out
    )


async def test_replay_prints_the_stores_hash(store: Path, tmp_path: Path) -> None:
    """MF-11."""
    told = (await call_command_async("agent", "hash", "--store", str(store), "--json")).json
    replayed = await call_command_async(
        "agent",
        "replay",
        WITNESS,
        "--store",
        str(store),
        "--into",
        str(tmp_path / "fresh.db"),
        "--json",
    )
    assert (replayed.status, replayed.json) == (0, {"same": True, **told})
    assert count_applied(tmp_path / "fresh.db") == count_applied(store)
    table = await call_command_async("agent", "replay", WITNESS, "--store", str(store))
    assert table_words(table.out).count("ok") == 4


async def test_replay_by_another_agent_says_no(store: Path) -> None:
    other = await call_command_async(
        "agent", "replay", "tests.agents.test_replay:Fickle", "--store", str(store), "--json"
    )
    assert (other.status, other.json["same"]) == (1, False)


@pytest.mark.filterwarnings("error::DeprecationWarning")  # Python 3.14 refuses what 3.12 warns of
async def test_events_are_listed_the_newest_first_and_filtered(store: Path) -> None:
    everything = await call_command_async("agent", "events", "--store", str(store), "--json")
    assert [line["key"] for line in everything.lines] == ["k-4", "k-3", "k-2", "k-1"]
    assert everything.lines[3]["content"]["type"] == "count"
    received = await call_command_async(
        "agent", "events", "--store", str(store), "--status", "received", "--json"
    )
    assert [(line["key"], line["attempts"], line["unsent"]) for line in received.lines] == [
        ("k-4", 1, 0)
    ]
    one = await call_command_async(
        "agent", "events", "--store", str(store), "--key", "k-2", "--json"
    )
    assert [(line["key"], line["unsent"]) for line in one.lines] == [("k-2", 1)]
    assert "k-4" in (await call_command_async("agent", "events", "--store", str(store))).out
    wrong = await call_command_async("agent", "events", "--store", str(store), "--status", "lost")
    assert (wrong.status, "received, applied, dead" in wrong.err) == (2, True)


async def test_verify_warns_of_what_waits_and_fails_for_what_is_broken(store: Path) -> None:
    told = await call_command_async("agent", "verify", "--store", str(store), "--json")
    verdicts = {line["name"]: (line["verdict"], line["detail"]) for line in told.lines}
    assert told.status == 0
    assert verdicts["received"] == ("warn", "1")
    assert verdicts["unsent"] == ("warn", "3")
    assert verdicts["integrity"] == ("ok", "ok")
    with sqlite3.connect(store) as db:
        db.execute("DELETE FROM events WHERE place = 2")
    broken = await call_command_async("agent", "verify", "--store", str(store))
    assert broken.status == 1
    assert {one.name for one in verify(store) if one.verdict == "fail"} == {"gaps", "orphans"}


async def test_what_is_no_store_and_what_is_no_agent_are_said(tmp_path: Path) -> None:
    missing = await call_command_async("agent", "hash", "--store", str(tmp_path / "none.db"))
    assert (missing.status, "there is no" in missing.err) == (2, True)
    no_agent = await call_command_async(
        "agent", "run", "pathlib:Path", "--store", str(tmp_path / "x.db")
    )
    assert (no_agent.status, "is no agent" in no_agent.err) == (2, True)


@contextmanager
def running(url: str, store: Path) -> Iterator["subprocess.Popen[str]"]:
    """`router agent run` with the sample, ready."""
    command = (*COMMAND, "agent", "run", LEDGER, "--store", str(store), "--nats-url", url)
    with run_process(*command) as (process, ready):
        assert ready["event"] == "agent.ready"
        yield process


@pytest.mark.slow  # two processes with everything that the command line imports
async def test_the_sample_runs_until_it_is_told_to_stop_and_a_second_one_is_refused(
    nats_url: str, tmp_path: Path
) -> None:
    """MF-12, T16: exit status 2, and a line that says who has the store."""
    store = tmp_path / "ledger.db"
    nc = await connect_patiently(nats_url)
    with running(nats_url, store) as process:
        body = json.dumps({"type": "post", "payload": {"account": "acme", "amount": 250}}).encode()
        await publish_until_stored(nc.jetstream(), body, "cmd.default.demo.ledger.post")
        async with connected(nats_url) as connection:
            await until(lambda: is_empty(JetStream(connection)))
        second = await asyncio.to_thread(
            router, "agent", "run", LEDGER, "--store", str(store), "--nats-url", nats_url
        )
        assert (second.status, f"in use by process {process.pid}" in second.err) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, ENDED_WITHIN_S) == 0
    assert count_applied(store) == {"balance:acme": 250}
    await nc.close()


@pytest.mark.filterwarnings("error::DeprecationWarning")  # Python 3.14 refuses what 3.12 warns of
async def test_state_shows_what_an_agent_remembers(store: Path) -> None:
    everything = await call_command_async("agent", "state", "--store", str(store), "--json")
    assert everything.lines == [
        {"agent": "witness", "name": f"k-{number}", "value": 1} for number in (1, 2, 3)
    ]
    assert (
        await call_command_async("agent", "state", "k-2", "--store", str(store), "--json")
    ).lines == everything.lines[1:2]
    assert (
        len(
            (
                await call_command_async(
                    "agent",
                    "state",
                    "--store",
                    str(store),
                    "--prefix",
                    "k-",
                    "--limit",
                    "2",
                    "--json",
                )
            ).lines
        )
        == 2
    )
    assert "k-3" in (await call_command_async("agent", "state", "--store", str(store))).out
    unknown = await call_command_async("agent", "state", "k-9", "--store", str(store))
    assert (unknown.status, unknown.out) == (1, "nothing of that name is remembered\n")


async def test_state_shortens_a_large_value_in_its_table(tmp_path: Path) -> None:
    with a_batch_bench(tmp_path / "w.db") as bench:
        bench.database.connection.execute(
            "INSERT INTO memory VALUES ('witness', 'n', ?)", (json.dumps("x" * 100_000).encode(),)
        )
    told = await call_command_async("agent", "state", "--store", str(tmp_path / "w.db"))
    assert len(told.out) < 2_000


async def test_send_is_applied_once_however_often_it_is_sent(
    tmp_path: Path, own_broker: Broker
) -> None:
    nats_url = own_broker.url
    async with an_agent(nats_url, tmp_path / "w.db", Ledger()), connected(nats_url) as connection:
        words_ = (
            "ledger.post",
            "--payload",
            '{"account": "acme", "amount": 250}',
            "--key",
            "p-1",
            "--nats-url",
            nats_url,
            "--json",
        )
        first, again = [await call_command_async("agent", "send", *words_) for _ in range(2)]
        assert (first.status, first.json["subject"], first.json["duplicate"]) == (
            0,
            "cmd.default.demo.ledger.post",
            False,
        )
        assert (again.status, again.json["duplicate"]) == (0, True)
        plain = await call_command_async(
            "agent", "send", "cmd.default.demo.ledger.post", *words_[1:3], "--nats-url", nats_url
        )
        assert (plain.status, "stored: MESHFORGE_COMMANDS" in plain.out) == (0, True)
        await until(lambda: is_empty(JetStream(connection)))
    state = await call_command_async("agent", "state", "--store", str(tmp_path / "w.db"), "--json")
    assert state.lines == [{"agent": "ledger", "name": "balance:acme", "value": 500}]


@pytest.mark.parametrize(
    ("given", "status", "words_"),
    [
        (("ledger",), 2, "should be like ledger.post"),
        (("cmd.a.>",), 2, "should be like"),
        (("ledger.post", "--type", "has space"), 1, "type"),
        (("ledger.post", "--key", "k" * 257), 1, "idempotency_key"),
    ],
)
async def test_what_no_agent_could_read_is_not_sent(
    given: tuple[str, ...], status: int, words_: str
) -> None:
    refused = await call_command_async(
        "agent", "send", *given, "--nats-url", "nats://127.0.0.1:1", environ=IMPATIENT
    )
    assert refused.status == status
    assert words_ in refused.err
