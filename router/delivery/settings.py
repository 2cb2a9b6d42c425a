"""The connection to the broker and its login (docs/reference/contracts.md#connection)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from router.core.setting_values import File, Group, Millis, OptionalToken, Text, split_list


def _require_text(value: object) -> object:
    # An empty variable must not mean that no secret is required.
    if isinstance(value, str) and not value.strip():
        raise ValueError("is set and empty: give the secret, or do not set it")
    return value


def _check_address(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in SCHEMES:
        raise ValueError(
            f"should begin with {', '.join(f'{one}://' for one in SCHEMES)} or with the host"
        )
    if not value.isprintable() or " " in value:
        raise ValueError("should hold no space and no control character")
    return value


SCHEMES = ("nats", "tls", "ws", "wss")
Addresses = Annotated[
    tuple[Annotated[str, AfterValidator(_check_address)], ...],
    BeforeValidator(split_list),
    Field(min_length=1),
]
MonitorUrls = Annotated[
    tuple[Annotated[str, Field(pattern=r"^https?://[^\s]+$")], ...], BeforeValidator(split_list)
]
Secret = Annotated[SecretStr | None, BeforeValidator(_require_text)]

InboxPrefix = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$")]


class NatsConfig(Group):
    """One connection. At most one way to log in: creds file, nkey file, token, or user and
    password.
    """

    url: Addresses = Field(
        default=("nats://localhost:4222",),
        description="servers of one cluster, comma-separated URLs",
    )
    name: str = Field(
        default="router", description="the connection's name, as the server's monitoring shows it"
    )
    creds_file: File = Field(default=None, description="credentials file (JWT and seed)")
    nkey_file: File = Field(default=None, description="file with an nkey seed")
    user: Text = Field(default=None, description="user name; goes with nats.password")
    password: Secret = Field(default=None, description="password; goes with nats.user")
    token: Secret = Field(default=None, description="token")
    tls_ca: File = Field(
        default=None,
        description="PEM file of the authorities that may sign the server's certificate",
    )
    tls_cert: File = Field(
        default=None, description="PEM file of the client's certificate; goes with nats.tls_key"
    )
    tls_key: File = Field(
        default=None, description="PEM file of the client's private key; goes with nats.tls_cert"
    )
    tls_hostname: Text = Field(
        default=None,
        description="name that the server's certificate must carry, when the URL has another",
    )
    inbox_prefix: InboxPrefix = Field(
        default="_INBOX",
        description="our own inboxes begin with this; a server that knows roles gives each role its own",
    )
    monitor: MonitorUrls = Field(
        default=(),
        description=(
            "monitoring ports of the servers, comma-separated http URLs: `doctor` and "
            "`topology apply` read their room"
        ),
    )
    js_domain: OptionalToken = Field(default=None, description="JetStream domain")
    connect_timeout_ms: Millis = Field(
        default=2_000,
        description="one attempt to connect gives up after this, milliseconds; the first connect may "
        "take twice that, "
        "and once more for each further server",
    )
