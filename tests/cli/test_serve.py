"""`router serve`: how it starts, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.cli import ASK, FROM_FILE, IMPATIENT, call_command, router, serve_router
from tests.support.fleet import is_there
from tests.support.policy_buckets import a_policy_of
from tests.support.waiting import until

ANY_PORTS = ("--http-port", "0", "--nats-port", "0")
LONG_DRAIN = {
    "ROUTER_DRAIN__SOFT_DEADLINE_MS": "500000",
    "ROUTER_DRAIN__HARD_DEADLINE_MS": "600000",
}


def test_an_embedded_router_is_ready_and_ends_with_0(tmp_path: Path) -> None:
    with serve_router("--embedded", *ANY_PORTS, cwd=tmp_path) as served:
        ready = served.ready
        assert (ready["event"], ready["policies"]) == ("router.ready", "samples")
        assert urllib.request.urlopen(f"{ready['http']}/readyz").status == 200
        assert (
            read_contract(ready["http"])["channels"]["decide"]["address"]
            == "beamline.router.v1.decide"
        )
        decided = router(*ASK, "--payload", "hi", "--nats-url", ready["nats_url"])
        assert (decided.status, decided.json["ok"]) == (0, True)
        assert (
            call_command(
                "contract", "check", "-", "--as", "answer", given=decided.out.encode()
            ).status
            == 0
        )
        assert served.told(signal.SIGTERM) == 0
    assert (tmp_path / ".router" / "nats").is_dir()


def read_contract(http: str) -> Any:
    """The document that a router serves."""
    with urllib.request.urlopen(f"{http}/contract/asyncapi.json") as answer:
        return json.load(answer)


def test_ctrl_c_ends_with_0_and_leaves_no_broker_behind(tmp_path: Path) -> None:
    with serve_router("--embedded", *ANY_PORTS, "--store", str(tmp_path / "s")) as served:
        port = int(served.ready["nats_url"].rpartition(":")[2])
        assert served.told(signal.SIGINT) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.slow  # four interpreters start in it
def test_two_workers_on_an_embedded_broker_are_ready_once_and_end_with_0(tmp_path: Path) -> None:
    with serve_router(
        "--embedded", "--processes", "2", *ANY_PORTS, "--store", str(tmp_path / "s")
    ) as served:
        assert (served.ready["event"], served.ready["processes"], served.ready["policies"]) == (
            "router.ready",
            2,
            "samples",
        )
        decided = router(*ASK, "--payload", "hi", "--nats-url", served.ready["nats_url"])
        assert (decided.status, decided.json["ok"]) == (0, True)
        assert read_contract(served.ready["http"])["asyncapi"] == "3.0.0"
        children = served.list_children()
        assert len(children) == 3  # the broker, two workers
        assert served.told(signal.SIGINT) == 0
    assert not any(map(is_there, children))


async def test_a_second_signal_does_not_wait_for_the_drain(tmp_path: Path) -> None:
    broker = Broker().start()
    try:
        with serve_router(
            "--nats-url",
            broker.url,
            "--http-port",
            "0",
            "--policies",
            str(tmp_path),
            environ=LONG_DRAIN,
        ) as served:
            broker.pause()  # the drain waits for a server that is silent
            with pytest.raises(subprocess.TimeoutExpired):
                served.told(signal.SIGTERM, within_s=0.5)
            # the kernel would make one of two
            await until(lambda: not served.is_pending(signal.SIGTERM))
            assert served.told(signal.SIGTERM, within_s=60) == 130
    finally:
        broker.unpause()
        broker.remove()


@pytest.mark.slow  # two routers one after the other, each with a broker, and commands that ask them
def test_a_restart_on_the_same_store_finds_its_streams_and_policies(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "s"))
    own = tmp_path / "policies" / "acme" / "default.json"
    own.parent.mkdir(parents=True)
    own.write_bytes(a_policy_of("own"))
    with serve_router(
        "--embedded", *ANY_PORTS, *store, "--policies", str(tmp_path / "policies")
    ) as served:
        router(*FROM_FILE, "--nats-url", served.ready["nats_url"], given=b"nonsense")
        served.told(signal.SIGTERM)
    with serve_router("--embedded", *ANY_PORTS, *store) as served:
        assert (
            len(router("dlq", "list", "--nats-url", served.ready["nats_url"], "--json").lines) == 1
        )
        assert served.ready["policies"] is None  # no samples: the server has its own policies
        served.told(signal.SIGTERM)
        assert "samples" not in served.process.communicate()[1]


def test_an_embedded_broker_that_is_killed_comes_back(tmp_path: Path) -> None:
    with serve_router("--embedded", *ANY_PORTS, "--store", str(tmp_path / "s")) as served:
        (child,) = served.list_children()
        os.kill(child, signal.SIGKILL)
        assert router(*ASK, "--payload", "hi", "--nats-url", served.ready["nats_url"]).status == 0
        assert served.told(signal.SIGTERM) == 0


def test_it_serves_on_another_broker(nats_url: str, tmp_path: Path) -> None:
    with serve_router(
        "--nats-url", nats_url, "--http-port", "0", "--policies", str(tmp_path)
    ) as served:
        assert served.ready["nats_url"] == nats_url
        refused = router(
            "decide",
            "--nats-url",
            nats_url,
            "--tenant",
            "a",
            "--type",
            "t",
            "--payload",
            "p",
            "--timeout",
            "60",
        )
        assert refused.json["error"]["code"] == "policy_not_found"
        assert served.told(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--nats-url", "nats://127.0.0.1:1"), 3, "no NATS server answers at"),
        (
            ("--policies", "/nowhere", "--nats-url", "nats://127.0.0.1:1"),
            2,
            "policies.dir: /nowhere is not a directory",
        ),
        (("--config", "/nowhere.toml"), 2, "config_file: /nowhere.toml cannot be read"),
        (("--http-port", "99999"), 2, "http.port"),
        (("--processes", "0"), 2, "processes: '0' is not legal"),
        (("--workers", "2"), 2, "--workers is called --processes now"),
        (("--embedded", "--nats-url", "nats://x"), 2, "--embedded or --nats-url"),
        (("--console",), 2, "--console goes with --embedded"),
        (("--gateway",), 2, "--gateway goes with --embedded"),
        (("--embedded", "--open"), 2, "--open goes with --console"),
    ],
)
def test_a_start_that_cannot_be_says_why_in_a_line(
    arguments: tuple[str, ...], status: int, says: str
) -> None:
    ended = router("serve", *arguments, environ=IMPATIENT)
    assert (ended.status, ended.out) == (status, "")
    assert says in ended.err


def test_a_wrong_variable_is_named() -> None:
    ended = router("serve", environ={"ROUTER_DECIDE__PREFETCHH": "1"})
    assert ended.status == 2
    assert "did you mean ROUTER_DECIDE__PREFETCH?" in ended.err


def test_an_embedded_broker_whose_port_is_taken_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = router(
            "serve",
            "--embedded",
            "--http-port",
            "0",
            "--nats-port",
            str(port),
            "--store",
            str(tmp_path / "s"),
        )
    assert (ended.status, ended.out) == (1, "")
    assert f"port {port} is in use" in ended.err
    assert f"--nats-url nats://127.0.0.1:{port}" in ended.err
    assert "--nats-port" in ended.err


def test_an_embedded_broker_that_cannot_write_its_store_says_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "jetstream").write_text("a file where the server wants a directory")
    ended = router("serve", "--embedded", *ANY_PORTS, "--store", str(tmp_path))
    assert (ended.status, ended.out) == (1, "")
    assert f"-js -sd {tmp_path}` shows why" in ended.err
    assert "--store" in ended.err
