"""TLS with client certificates, as deploy/nats/nats-server.conf asks for: who is let in, and who is
not.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from router import Client
from router.config import Settings
from router.config.connect import connect_by, options_of
from router.core.errors import BrokerUnavailable
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.operate.topology.declared_topology import declare_topology
from tests.support.deployed import write_keys
from tests.support.deployed_tls import ShippedDeployment, certificates
from tests.support.service import a_router
from tests.support.waiting import until

pytestmark = [
    pytest.mark.skipif(
        shutil.which("openssl") is None,
        reason="openssl is not installed: certificates cannot be made",
    )
]


@pytest.fixture(scope="module")
def shipped() -> Iterator[ShippedDeployment]:
    with ShippedDeployment("nats") as shipped:
        yield shipped


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of an authority that the server does not know."""
    directory = tmp_path_factory.mktemp("other") / "tls"
    certificates(directory)
    return directory


async def account(settings: Settings) -> object:
    """A question to the server, by the one way in of every program of ours; it is tried once."""
    connection = await connect(
        {**options_of(settings.nats), "allow_reconnect": False, "connect_timeout": 60},
        timeout_s=120.0,
    )
    try:
        return await JetStream(connection).account()
    finally:
        await connection.close()


async def refusal(shipped: ShippedDeployment, role: str = "operator", **settings: object) -> str:
    """What both sides said when these settings were refused."""
    before = len(shipped.log)
    with pytest.raises(BrokerUnavailable) as refused:
        await account(shipped.settings(role, **settings))
    await until(lambda: "error" in shipped.log[before:].lower())
    return f"{refused.value}\n{shipped.log[before:]}"


async def test_a_router_a_gateway_and_an_operator_work_over_tls(shipped: ShippedDeployment) -> None:
    operator = shipped.settings("operator")
    connection = await connect_by(operator.nats)
    try:
        assert await topology.create(JetStream(connection), declare_topology(operator)) == []
    finally:
        await connection.close()
    async with (
        a_router(shipped.settings("router")),
        Client(shipped.settings("gateway").nats) as client,
    ):
        answer = await client.decide(
            tenant_id="acme", message_type="chat", payload="hello", policy_id="fast", timeout=60.0
        )
    assert answer.decision is not None


async def test_a_client_without_a_certificate_is_refused(shipped: ShippedDeployment) -> None:
    assert "client didn't provide a certificate" in await refusal(
        shipped, nats__tls_cert=None, nats__tls_key=None
    )


async def test_a_certificate_of_another_authority_is_refused(
    shipped: ShippedDeployment, elsewhere: Path
) -> None:
    theirs = {"nats__tls_cert": elsewhere / "client.pem", "nats__tls_key": elsewhere / "client.key"}
    assert "certificate signed by unknown authority" in await refusal(shipped, **theirs)


async def test_a_server_of_another_authority_is_not_believed(
    shipped: ShippedDeployment, elsewhere: Path
) -> None:
    told = await refusal(shipped, nats__tls_ca=elsewhere / "ca.pem")
    assert "certificate verify failed" in told
    assert told.startswith("TLS failed with the server at tls://")


async def test_a_certificate_of_another_host_is_not_believed_unless_its_name_is_given(
    shipped: ShippedDeployment,
) -> None:
    """The certificate says localhost, 127.0.0.1 and nats; `tls_hostname` is for an address that is
    none of them.
    """
    assert "Hostname mismatch" in await refusal(shipped, nats__tls_hostname="somewhere.else")
    assert await account(shipped.settings("operator", nats__tls_hostname="nats"))


async def test_a_certificate_alone_is_no_login(shipped: ShippedDeployment) -> None:
    assert "authentication error" in await refusal(shipped, nats__nkey_file=None)


async def test_a_key_that_the_server_does_not_know_is_refused(
    shipped: ShippedDeployment, tmp_path: Path
) -> None:
    write_keys(tmp_path)
    assert "authentication error" in await refusal(
        shipped, nats__nkey_file=tmp_path / "operator.nk"
    )


async def test_a_plain_connection_is_refused(shipped: ShippedDeployment) -> None:
    plain = {
        "nats__url": f"nats://127.0.0.1:{shipped.port}",
        "nats__tls_ca": None,
        "nats__tls_cert": None,
        "nats__tls_key": None,
    }
    assert "TLS" in await refusal(shipped, **plain)


def test_certificates_that_are_there_stay_and_a_missing_one_is_made_by_the_same_authority(
    tmp_path: Path,
) -> None:
    certificates(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "server.pem").unlink()
    certificates(tmp_path, "nats")
    changed = {file.name for file in tmp_path.iterdir() if file.read_bytes() != before[file.name]}
    assert changed == {"server.pem", "server.key"}


def test_the_file_is_valid(shipped: ShippedDeployment) -> None:
    checked = shipped.check()
    assert checked.returncode == 0, checked.stderr


def test_private_keys_are_their_owners_alone(shipped: ShippedDeployment) -> None:
    secret = [*shipped.home.glob("*.nk"), *(shipped.home / "tls").glob("*.key")]
    assert len(secret) >= 10
    assert {oct(file.stat().st_mode & 0o777) for file in secret} == {"0o600"}
