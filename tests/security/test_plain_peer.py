"""A server that offers no TLS where TLS was asked for hears nothing: no login, no request (findings
H7).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import nkeys
import pytest

from router import Client
from router.config import Settings, load
from router.config.connect import connect_by
from router.core.errors import BrokerUnavailable
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.lake.source.broker import read_facts
from router.lake.source.options import read_options
from router.mailbox.errors import DatabaseUnavailable
from router.mailbox.inbox_process import InboxService
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.relay_process import RelayService
from router.sdk import Bus, Worker
from router.sdk.agent import Agent
from router.sdk.extension import ExtensionServer, pre
from router.serve.service import RouterService
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.observability import capture_log
from tests.support.plain_peer import PlainPeer, a_plain_database, a_plain_peer
from tests.support.postgres import Postgres

SECRET = "hunter2"
LOGINS = {
    "password": {"user": "svc", "password": SECRET},
    "token": {"token": SECRET},
    "nkey": {"nkeys_seed_str": nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER).decode()},
    "nothing": {},
}


def is_unsaid(peer: PlainPeer) -> bool:
    return peer.asked > 0 and peer.said == b""


async def refused_by(
    connecting: Callable[[], Awaitable[object]], peer: PlainPeer, words: str = ""
) -> str:
    """The refusal. An attempt that ended before a busy machine let the peer answer is made again;
    what is said counts for all of them.
    """
    for _ in range(50):
        with pytest.raises(BrokerUnavailable) as refused:
            async with asyncio.timeout(30):
                await connecting()
        if peer.asked > 0 and words in str(refused.value):
            break
    return str(refused.value)


@pytest.mark.parametrize("login", LOGINS)
async def test_a_peer_without_tls_is_told_nothing_when_the_address_says_tls(login: str) -> None:
    async with a_plain_peer() as peer:
        servers = [f"tls://127.0.0.1:{peer.port}"]
        said = await refused_by(
            lambda: connect({"servers": servers, **LOGINS[login]}, timeout_s=0.4),
            peer,
            "offers no TLS",
        )
        assert is_unsaid(peer), peer.said
    assert "offers no TLS" in said


async def test_the_login_in_an_address_is_not_said_either() -> None:
    async with a_plain_peer() as peer:
        said = await refused_by(
            lambda: connect(
                {"servers": [f"tls://svc:{SECRET}@127.0.0.1:{peer.port}"]}, timeout_s=0.4
            ),
            peer,
        )
        assert is_unsaid(peer), peer.said
    assert SECRET not in said


async def test_files_for_tls_are_enough_to_insist_on_it() -> None:
    async with a_plain_peer() as peer:
        options = {
            "servers": [f"nats://127.0.0.1:{peer.port}"],
            "tls": ssl.create_default_context(),
            **LOGINS["password"],
        }
        await refused_by(lambda: connect(options, timeout_s=0.4), peer)
        assert is_unsaid(peer), peer.said


async def test_one_address_with_tls_speaks_for_all_of_a_cluster() -> None:
    """A plain member would be told the same login."""
    async with a_plain_peer() as peer:
        servers = [f"nats://127.0.0.1:{peer.port}", "tls://127.0.0.1:9"]
        await refused_by(
            lambda: connect(
                {"servers": servers, "dont_randomize": True, **LOGINS["password"]}, timeout_s=0.4
            ),
            peer,
        )
        assert is_unsaid(peer), peer.said


async def test_a_peer_that_could_speak_tls_and_does_not_ask_for_it_is_spoken_to_by_tls() -> None:
    """`allow_non_tls` of a server: the handshake begins, and here it cannot end."""
    async with a_plain_peer(tls_available=True) as peer:
        servers = [f"tls://127.0.0.1:{peer.port}"]
        for _ in range(50):  # until a busy machine lets the handshake begin in time
            await refused_by(
                lambda: connect({"servers": servers, **LOGINS["password"]}, timeout_s=0.4), peer
            )
            if peer.said:
                break
        assert peer.said.startswith(b"\x16\x03"), peer.said  # a ClientHello
        assert SECRET.encode() not in peer.said


async def test_a_peer_that_takes_the_servers_place_later_hears_nothing() -> None:
    """Reconnecting insists as connecting does."""
    connection = Connection()
    broker = Broker().start()
    try:
        await connection.connect(broker.url, reconnect_time_wait=0.01, **LOGINS["password"])
        # as if it had been there from the first
        connection.options["tls"] = ssl.create_default_context()
        broker.kill()
        async with a_plain_peer() as peer:
            connection._server_pool[0].uri = connection._parse_server_uri(
                f"nats://127.0.0.1:{peer.port}"
            )
            async with asyncio.timeout(30):
                while peer.asked < 2:  # noqa: ASYNC110 - the peer counts in this loop
                    await asyncio.sleep(0.005)
            assert is_unsaid(peer), peer.said
    finally:
        await connection.close()
        broker.remove()


# -- every program and every client of the product -------------------------------------------------


def settings_for_peer(peer: PlainPeer, **more: object) -> Settings:
    given = {
        "nats.url": f"tls://127.0.0.1:{peer.port}",
        "nats.user": "svc",
        "nats.password": SECRET,
        "nats.connect_timeout_ms": 200,
        "http.port": 0,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return load(None, given, {}).settings


def idle(_: object) -> None:
    """What a handler or an extension does that is never called."""


class Idle:
    name = "idle"

    def receive(self, envelope: object) -> None: ...

    def apply(self, ctx: object, envelope: object) -> None: ...


async def _enter(client: Client | Bus) -> None:
    async with client:
        raise AssertionError("it is open")


async def _read_lake(peer: PlainPeer) -> None:
    login = {
        "url": f"tls://127.0.0.1:{peer.port}",
        "stream": "ROUTER_USAGE",
        "user": "svc",
        "password": SECRET,
        "timeoutMs": "1000",
    }
    await asyncio.to_thread(read_facts, read_options(login))


CLIENTS: dict[str, Callable[[PlainPeer, Path], Awaitable[object]]] = {
    "router": lambda peer, _: RouterService(settings_for_peer(peer)).run(),
    "client": lambda peer, _: _enter(Client(settings_for_peer(peer).nats)),
    "client by address": lambda peer, _: _enter(
        Client(f"tls://svc:{SECRET}@127.0.0.1:{peer.port}")
    ),
    "worker": lambda peer, _: Worker(settings_for_peer(peer).nats, idle, worker_id="w").run(),  # type: ignore[arg-type]
    "bus": lambda peer, _: _enter(Bus(settings=settings_for_peer(peer))),
    "agent": lambda peer, home: Agent(
        settings_for_peer(peer).nats, Idle(), store=home / "agent.db"
    ).run(),  # type: ignore[arg-type]
    "extensions": lambda peer, _: ExtensionServer(
        pre("idle")(idle), nats=settings_for_peer(peer).nats
    ).run(),
    "lake": lambda peer, _: _read_lake(peer),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_no_client_of_ours_tells_a_plain_peer_anything(client: str, tmp_path: Path) -> None:
    async with a_plain_peer() as peer:
        said = await refused_by(lambda: CLIENTS[client](peer, tmp_path), peer)
        assert is_unsaid(peer), peer.said
    assert SECRET not in said


async def test_no_command_tells_a_plain_peer_anything() -> None:
    async with a_plain_peer() as peer:
        environ = {
            "NATS_URL": f"tls://127.0.0.1:{peer.port}",
            "ROUTER_NATS__USER": "svc",
            "ROUTER_NATS__PASSWORD": SECRET,
        }
        for _ in range(50):  # as in `refused_by`
            ended = await call_command_async(
                "doctor", environ={**environ, "ROUTER_NATS__CONNECT_TIMEOUT_MS": "200"}
            )
            assert ended.status == 3
            if "offers no TLS" in ended.out + ended.err:
                break
        assert is_unsaid(peer), peer.said
    assert "offers no TLS" in ended.out + ended.err


@pytest.mark.parametrize("service", [RelayService, InboxService])
async def test_relay_and_inbox_tell_a_plain_peer_nothing(service: type, postgres: Postgres) -> None:
    dsn = await postgres.database()
    async with a_plain_peer() as peer:
        settings = settings_for_peer(
            peer, mailbox__dsn=dsn, inbox__handler__url="http://127.0.0.1:9/handle"
        )
        await refused_by(lambda: service(settings).run(), peer)
        assert is_unsaid(peer), peer.said


# -- the mailbox's database ------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["db.example", "127.0.0.1,db.example"])
async def test_a_database_without_tls_is_not_told_the_password_in_the_clear(host: str) -> None:
    async with a_plain_database() as peer:
        addresses = ",".join(["127.0.0.1"] * (host.count(",") + 1))
        dsn = (
            f"host={host} hostaddr={addresses} port={peer.port} user=svc password={SECRET} dbname=d"
        )
        for _ in range(50):  # as in `refused_by`
            with capture_log("warning") as lines, pytest.raises(DatabaseUnavailable):
                async with (
                    Database(DatabaseConfig(dsn, timeout=0.5)) as database,
                    database.transaction(),
                ):
                    raise AssertionError("it is connected")
            if peer.asked > 0:
                break
        assert peer.asked > 0
        assert SECRET.encode() not in peer.said
    assert "database.unprotected" in lines.stream.getvalue()
    assert SECRET not in lines.stream.getvalue()


@pytest.mark.parametrize(
    "more",
    [
        "host=localhost",
        "host=/run/postgresql",
        "host=db sslmode=verify-full",
        "host=db require_auth=password",
    ],
)
async def test_a_database_here_or_with_tls_or_with_a_word_on_it_is_left_as_it_is(more: str) -> None:
    with capture_log("warning") as lines:
        async with Database(DatabaseConfig(f"{more} user=svc password={SECRET}")):
            pass
    assert lines.stream.getvalue() == ""


# -- a login without TLS ---------------------------------------------------------------------------


async def _warnings(**settings: object) -> list[str]:
    """What is logged when these settings connect; no address here is reached."""
    given = {
        "nats.connect_timeout_ms": 50,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    with capture_log("warning") as lines, contextlib.suppress(BrokerUnavailable):
        connection = await connect_by(load(None, given, {}).settings.nats)
        await connection.close()
    return [
        line for line in lines.stream.getvalue().splitlines() if "broker.login_unprotected" in line
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"nats__url": "nats://192.0.2.1:4222", "nats__user": "svc", "nats__password": SECRET},
        {"nats__url": "nats://192.0.2.1:4222", "nats__token": SECRET},
        {"nats__url": f"nats://svc:{SECRET}@nats.invalid:4222"},
        {"nats__url": f"{SECRET}@nats.invalid:4222"},
    ],
)
async def test_a_login_over_a_plain_address_beyond_this_host_is_warned_of(
    settings: dict[str, object],
) -> None:
    (line,) = await _warnings(**settings)
    assert SECRET not in line
    assert "4222" in line


@pytest.mark.parametrize(
    "settings",
    [
        {
            "nats__url": "nats://127.0.0.1:9,nats://localhost:9,nats://[::1]:9",
            "nats__token": SECRET,
        },
        {"nats__url": "tls://192.0.2.1:4222", "nats__token": SECRET},
        {"nats__url": "nats://192.0.2.1:4222"},
    ],
)
async def test_a_login_that_stays_here_or_is_encrypted_or_is_none_is_not(
    settings: dict[str, object],
) -> None:
    assert await _warnings(**settings) == []
