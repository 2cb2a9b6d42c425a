"""Reaching a broker that wants to know who asks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router.core.errors import BrokerUnavailable, Misconfigured, NoLeader
from router.delivery.wire.api import JetStream
from router.lake.source.broker import read_facts
from router.lake.source.options import read_options
from tests.support.broker import Broker
from tests.support.lake import Feed

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


@pytest.fixture
def guarded() -> Iterator[Broker]:
    broker = Broker("authorization { users: [ { user: reader, password: hidden } ] }").start()
    Feed(broker.url, user="reader", password="hidden").create()
    yield broker
    broker.remove()


def test_user_and_password_open_the_door_as_options_and_in_the_url(guarded: Broker) -> None:
    assert (
        read_facts(
            read_options(
                {"url": guarded.url, "stream": "EVENTS", "user": "reader", "password": "hidden"}
            )
        ).last
        == 0
    )
    assert (
        read_facts(
            read_options({"url": guarded.url.replace("//", "//reader:hidden@"), "stream": "EVENTS"})
        ).last
        == 0
    )


def test_a_wrong_password_is_told_without_it(guarded: Broker) -> None:
    with pytest.raises(BrokerUnavailable) as told:
        read_facts(
            read_options(
                {
                    "url": guarded.url.replace("//", "//reader:wrong@"),
                    "stream": "EVENTS",
                    "timeoutMs": "300",
                }
            )
        )
    assert "wrong" not in str(told.value)


def test_a_missing_stream_is_told_without_the_login(guarded: Broker) -> None:
    with pytest.raises(Misconfigured, match="no stream NONE") as told:
        read_facts(
            read_options({"url": guarded.url.replace("//", "//reader:hidden@"), "stream": "NONE"})
        )
    assert "hidden" not in str(told.value)


def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    _certificates(tmp_path)
    files = {
        name: tmp_path / f"{name}.pem"
        for name in ("ca", "server", "server-key", "client", "client-key")
    }
    listening = (
        'tls {{ cert_file: "{server}", key_file: "{server-key}", ca_file: "{ca}", verify: true }}'
    ).format_map(files)
    with Broker(listening) as broker:
        url = {"url": broker.url.replace("nats:", "tls:"), "stream": "NONE", "timeoutMs": "20000"}
        login = {
            "tlsCa": str(files["ca"]),
            "tlsCert": str(files["client"]),
            "tlsKey": str(files["client-key"]),
            "tlsHostname": "localhost",
        }
        with pytest.raises(Misconfigured, match="no stream NONE"):  # it was let in, and looked
            read_facts(read_options({**url, **login}))
        with pytest.raises(BrokerUnavailable):
            read_facts(read_options({**url, "timeoutMs": "300", "tlsCa": login["tlsCa"]}))


def test_a_certificate_that_cannot_be_read_is_told_by_the_options_name() -> None:
    with pytest.raises(Misconfigured, match="tlsCa"):
        read_facts(read_options({"url": "nats://127.0.0.1:1", "stream": "S", "tlsCa": "/nowhere"}))


def _certificates(home: Path) -> None:
    """An authority, and two whom it trusts; with the extensions that Python asks for from 3.13 on."""
    authority = (
        "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign"
    )
    _openssl(
        home, f"req -x509 {KEY} -keyout ca-key.pem -out ca.pem -subj /CN=ca -days 2 {authority}"
    )
    for name in ("server", "client"):
        _openssl(home, f"req {KEY} -keyout {name}-key.pem -out {name}.csr -subj /CN=localhost")
        (home / "names").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
            "subjectKeyIdentifier=hash\n"
        )
        _openssl(
            home,
            (
                f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out "
                f"{name}.pem -days 2 -extfile names"
            ),
        )


def _openssl(home: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=home, check=True, capture_output=True)


def test_an_election_is_waited_for_within_the_time_that_the_broker_may_be_silent(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes up to eight seconds. An ingest that runs for ever must not end with each."""
    info, answers = JetStream.stream, iter([NoLeader("no answer"), NoLeader("no answer")])

    async def stream(jetstream: JetStream, name: str) -> dict[str, Any] | None:
        if (without_leader := next(answers, None)) is not None:
            raise without_leader
        return await info(jetstream, name)

    Feed(nats_url, "ELECTING").create().count(3)
    monkeypatch.setattr(JetStream, "stream", stream)
    assert read_facts(read_options({"url": nats_url, "stream": "ELECTING"})).last == 3


def test_a_copy_that_lags_without_a_leader_does_not_tell_the_end_of_the_stream(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end lies before what was read already: taken for the stream's, messages would count as
    lost.
    """
    info, cut_off = (
        JetStream.stream,
        iter([{"cluster": {"leader": "", "replicas": [{"active": 1}, {"active": 1}]}}]),
    )

    async def stream(jetstream: JetStream, name: str) -> dict[str, Any] | None:
        found = await info(jetstream, name)
        assert found is not None
        if (lagging := next(cut_off, None)) is not None:
            return {**found, **lagging, "state": {**found["state"], "last_seq": 1}}
        return found

    Feed(nats_url, "LAGGING").create().count(3)
    monkeypatch.setattr(JetStream, "stream", stream)
    assert read_facts(read_options({"url": nats_url, "stream": "LAGGING"})).last == 3


def test_a_broker_without_a_leader_for_longer_is_unavailable(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stream(*_: object) -> dict[str, Any] | None:
        raise NoLeader("no answer")

    monkeypatch.setattr(JetStream, "stream", stream)
    with pytest.raises(NoLeader):
        read_facts(read_options({"url": nats_url, "stream": "ELECTING", "timeoutMs": "5000"}))
