"""What keeps a process from its broker or its database is told by its name, at once, with what to
do: by every command alike.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from router.mailbox import schema
from router.mailbox.errors import DatabaseUnavailable
from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.cli import call_command, call_command_async, router
from tests.support.postgres import Postgres
from tests.support.waiting import until

COMMANDS = [
    pytest.param(["serve", "--http-port", "0"], id="serve"),
    pytest.param(["worker", "--echo"], id="worker"),
    pytest.param(["dlq", "list"], id="dlq"),
    pytest.param(["policy", "list"], id="policy"),
    pytest.param(["assignments", "show", "unknown"], id="assignments"),
    pytest.param(["bus", "topology"], id="bus"),
    pytest.param(["request", "r-1", "--tenant", "acme"], id="request"),
]
ROUTER_CALLS = [
    pytest.param(["extension", "health"], "no router listens on", id="extension health"),
    pytest.param(
        ["decide", "--tenant", "acme", "--type", "chat", "--payload", "hello"],
        "no subscriber on",
        id="decide",
    ),
    pytest.param(
        ["provider", "invoke", "echo", "--tenant", "acme", "--prompt", "hello"],
        "no subscriber on",
        id="provider",
    ),
    pytest.param(
        ["decisions", "explain", "r-1", "--tenant", "acme"], "no router answered", id="decisions"
    ),
]
TALKERS = [
    pytest.param(
        ["decide", "--tenant", "acme", "--type", "chat", "--payload", "hello"],
        "beamline.router.v1.decide",
        id="decide",
    ),
    pytest.param(
        ["extension", "health"],
        "beamline.router.v1.admin.get_extension_health",
        id="extension health",
    ),
    pytest.param(["workers"], "caf.worker.heartbeat.v1", id="workers"),
]


@pytest.fixture(scope="module")
def without_jetstream() -> Iterator[str]:
    with Broker(jetstream=False) as broker:
        yield broker.url


@pytest.fixture(scope="module")
def without_permission() -> Iterator[str]:
    """Its user may publish nowhere, and listen to his answers."""
    with Broker(
        "authorization { users [ {user: a, password: p, permissions: {publish: [none], "
        'subscribe: ["_INBOX.>"]}} ] }'
    ) as broker:
        yield broker.url.replace("nats://", "nats://a:p@")


@pytest.fixture(scope="module")
def without_inbox() -> Iterator[str]:
    """Its user may publish anywhere, and hears no answer."""
    with Broker(
        'authorization { users [ {user: a, password: p, permissions: {publish: [">"], '
        "subscribe: [none]}} ] }"
    ) as broker:
        yield broker.url.replace("nats://", "nats://a:p@")


def agent(tmp_path: Path) -> list[str]:
    return [
        "agent",
        "run",
        "router.sdk.samples.agents.ledger:Ledger",
        "--store",
        str(tmp_path / "a.db"),
    ]


def words_of(arguments: Sequence[str], url: str) -> str:
    """The line on standard error; the status says that there was no service."""
    run = (
        router if arguments[0] in ("serve", "worker") or "run" in arguments else call_command
    )  # these handle signals: a process of their own
    ended = run(*arguments, "--nats-url", url)
    assert ended.status == 3, ended.err
    return ended.err.splitlines()[-1]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_server_without_jetstream_is_named(without_jetstream: str, arguments: list[str]) -> None:
    said = words_of(arguments, without_jetstream)
    assert "JetStream does not run on this server" in said
    assert "add `jetstream {}`" in said


def test_a_command_to_an_agent_names_it_too_and_where_jetstream_runs_what_makes_the_stream(
    without_jetstream: str, nats_url: str
) -> None:
    assert "JetStream does not run on this server" in words_of(
        ["agent", "send", "ledger.post"], without_jetstream
    )
    said = words_of(["agent", "send", "evt.unbound.subject"], nats_url)
    assert "no stream takes evt.unbound.subject" in said
    assert "an agent makes its own when it starts" in said


@pytest.mark.parametrize(("arguments", "absence"), ROUTER_CALLS)
def test_a_router_that_cannot_run_there_is_named_with_the_reason(
    without_jetstream: str, arguments: list[str], absence: str
) -> None:
    said = words_of(arguments, without_jetstream)
    assert absence in said
    assert "JetStream does not run on this server: add `jetstream {}`" in said


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_permission_that_is_missing_is_named_with_its_subject(
    without_permission: str, arguments: list[str]
) -> None:
    said = words_of(arguments, without_permission)
    assert "no permission to publish to $JS.API." in said
    assert "allow it to this user" in said


@pytest.mark.parametrize(("arguments", "subject"), TALKERS)
def test_so_is_the_subject_of_a_request(
    without_permission: str, arguments: list[str], subject: str
) -> None:
    assert f"{subject}: allow it to this user" in words_of(arguments, without_permission)


def test_an_agent_names_both(
    without_jetstream: str, without_permission: str, tmp_path: Path
) -> None:
    assert "JetStream does not run" in words_of(agent(tmp_path), without_jetstream)
    assert "no permission to publish to $JS.API.STREAM.INFO" in words_of(
        agent(tmp_path), without_permission
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["worker", "--echo"],
        ["dlq", "list"],
        ["decide", "--tenant", "a", "--type", "c", "--payload", "x"],
    ],
)
def test_an_inbox_that_may_not_be_heard_is_named_with_its_setting(
    without_inbox: str, arguments: list[str]
) -> None:
    said = words_of(arguments, without_inbox)
    assert "no permission to listen on _INBOX." in said
    assert "nats.inbox_prefix" in said


@pytest.mark.parametrize(
    "arguments", [["worker", "--echo"], ["doctor"], ["dlq", "list"], ["bus", "topology"]]
)
def test_a_wrong_password_is_named_at_once(without_permission: str, arguments: list[str]) -> None:
    said = words_of(arguments, without_permission.replace("a:p@", "a:wrong@"))
    assert "refuses this login" in said
    assert "nats.password" in said
    assert "wrong" not in said


def test_the_doctor_tells_a_missing_permission_from_a_server_without_jetstream(
    without_permission: str, without_jetstream: str
) -> None:
    found = {
        one["check"]: one
        for one in call_command("doctor", "--json", "--nats-url", without_permission).lines
    }
    assert (found["jetstream"]["verdict"], found["permissions"]["verdict"]) == ("ok", "fail")
    assert "no permission to publish to $JS.API.INFO" in found["permissions"]["found"]
    assert "topology" not in found
    found = {
        one["check"]: one
        for one in call_command("doctor", "--json", "--nats-url", without_jetstream).lines
    }
    assert found["jetstream"]["verdict"] == "fail"
    assert "jetstream {}" in found["jetstream"]["remedy"]


async def test_a_wrong_database_role_is_named_and_so_is_a_right_it_has_not(
    postgres: Postgres,
) -> None:
    absent = DatabaseConfig(postgres.dsn().replace("postgres@", "absent@"), timeout=0.3)
    async with Database(absent) as database:
        # a server that is slower than the pool's timeout has not refused yet
        async def is_named() -> bool:
            with pytest.raises(DatabaseUnavailable) as refused:
                await schema.check(database)
            return (
                re.search(r'role "absent" does not exist.*mailbox\.dsn', str(refused.value))
                is not None
            )

        await until(is_named)
    async with await psycopg.AsyncConnection.connect(postgres.dsn(), autocommit=True) as connection:
        await connection.execute("CREATE ROLE reader LOGIN")
        try:
            ended = await call_command_async(
                "mailbox", "migrate", "--dsn", postgres.dsn().replace("postgres@", "reader@")
            )
        finally:
            await connection.execute("DROP ROLE reader")
    assert "permission denied for" in ended.err
    assert "grant it to the user of mailbox.dsn" in ended.err


async def test_a_wrong_database_password_is_named_in_one_line_that_does_not_hold_it(
    postgres: Postgres, nats_url: str
) -> None:
    await postgres.require_password("locked", "right")
    environ = {
        "ROUTER_MAILBOX__DSN": postgres.dsn().replace("postgres@", "locked:geheim@"),
        "ROUTER_MAILBOX__CONTEXT": "sea",
    }
    ended = await asyncio.to_thread(
        router, "outbox", "relay", "--nats-url", nats_url, environ=environ
    )
    said = [line for line in ended.err.splitlines() if "password authentication failed" in line]
    assert (ended.status, len(said)) == (3, 1), ended.err
    assert "host, user, password and database are those of mailbox.dsn" in said[0]
    assert "geheim" not in ended.out + ended.err
