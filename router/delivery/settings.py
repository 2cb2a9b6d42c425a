"""What moves messages: the connection, streams and buckets, consumers, effects, replies, admission.

    NatsConfig                      the connection to the broker and its login
                                    (docs/reference/contracts.md#connection)
    StreamConfig, BucketConfig      limits of what stores messages and documents
    ConsumerConfig                  how a durable pull consumer is driven
                                    (docs/reference/contracts.md#consumers)
    EffectsConfig                   when what a handler has to store is published again
    ReplyConfig, AdmissionConfig    who is answered, and who first

What a stream binds and how it discards is decided in `operate.topology.declared_topology`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from router.core import ids
from router.core.setting_values import (
    Count,
    File,
    Group,
    Millis,
    Name,
    OptionalMillis,
    OptionalSubject,
    OptionalToken,
    Prefixes,
    Schedule,
    Subject,
    Text,
    split_list,
)


def _require_text(value: object) -> object:
    # An empty variable must not mean that no secret is required.
    if isinstance(value, str) and not value.strip():
        raise ValueError("is set and empty: give the secret, or do not set it")
    return value


def _check_address(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in SCHEMES:
        raise ValueError(
            f"should begin with {', '.join(f'{prefix}://' for prefix in SCHEMES)} or with the host"
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


# -- What stores messages and documents.

MIB = 1024 * 1024
MINUTE_MS = 60_000
DAY_MS = 86_400_000


class StreamConfig(Group):
    """One stream's limits. A duplicate window is at least 100 ms: the server takes no shorter one."""

    name: Name = Field(description="the stream's name")
    max_age_ms: Millis = Field(description="messages older than this are dropped, milliseconds")
    max_bytes: int = Field(
        description="the stream holds at most this many bytes; -1 = no limit", ge=-1
    )
    duplicate_window_ms: int = Field(
        description="an id is remembered this long, milliseconds", ge=100
    )
    replicas: int = Field(default=1, description="copies in a cluster", ge=1, le=5)


class EventStreamConfig(StreamConfig):
    """A stream that is bounded by the number of its messages too."""

    max_messages: int = Field(
        default=-1, description="the stream holds at most this many messages; -1 = no limit", ge=-1
    )


def declare_stream(name: str, *, days: int, mib: int, window_ms: int) -> StreamConfig:
    return StreamConfig(
        name=name, max_age_ms=days * DAY_MS, max_bytes=mib * MIB, duplicate_window_ms=window_ms
    )


class BucketConfig(Group):
    """One key-value bucket."""

    name: Name = Field(description="the bucket's name")
    max_bytes: int = Field(
        default=-1,
        description="the bucket holds at most this many bytes, and takes nothing more; -1 = no limit",
        ge=-1,
    )
    ttl_ms: int = Field(
        default=0,
        description="a key is dropped this long after its last write, milliseconds; 0 = never",
        ge=0,
    )
    history: int = Field(default=1, description="versions kept of each key", ge=1, le=64)
    replicas: int = Field(default=1, description="copies in a cluster", ge=1, le=5)


DEAD_LETTERS = declare_stream("ROUTER_DLQ", days=30, mib=1024, window_ms=60 * MINUTE_MS)
# Shared by every durable of ours: its keys name stream and consumer.
ATTEMPTS = BucketConfig(name="ROUTER_ATTEMPTS", ttl_ms=60 * MINUTE_MS)


# -- What handles messages.


class ConsumerConfig(Group):
    """One durable, shared by every instance: sharing it is the work queue."""

    subject: Subject = Field(description="the subject that its messages are sent to")
    durable: Name = Field(description="the consumer's name on the server")
    deliver_group: str = Field(
        description="the specification's queue group, kept as the consumer's metadata"
    )
    max_attempts: Count = Field(
        default=3, description="attempts (runs of the handler) before a message is given up"
    )
    backoff_ms: Schedule = Field(
        default=(1_000, 2_000, 4_000),
        description="waits after each attempt, the last repeats, milliseconds",
    )
    ack_wait_ms: Millis = Field(
        default=30_000, description="the server delivers again after this silence, milliseconds"
    )
    prefetch: Count = Field(default=512, description="messages pulled ahead and not in a slot")
    prefetch_bytes: int = Field(
        default=8 * 1024 * 1024,
        ge=1024 * 1024,
        description="bytes asked for and not yet come, about; a larger message comes alone",
    )
    slots: Count = Field(default=64, description="handlers that wait for something at once")
    handler_timeout_ms: Millis = Field(
        default=300_000,
        description="a handler that hangs is cancelled, its attempt spent, milliseconds",
    )
    max_ack_pending: Count = Field(
        default=10_000,
        description="unacknowledged messages the server allows; well above what can be delayed",
    )
    pull_expires_ms: Millis = Field(
        default=30_000, description="one pull request lives this long, milliseconds"
    )
    heartbeat_ms: Millis = Field(
        default=1_000,
        description="the server's sign of life on an idle pull, milliseconds; at most half of "
        "pull_expires_ms; after a pull without a"
        " message 7500 at least (2500 where nothing else tells of a lost durable)",
    )

    @property
    def is_enabled(self) -> bool:
        """Whether this instance handles the messages at all."""
        return True

    @property
    def taken_subject(self) -> str:
        """The subject of the messages that this instance handles."""
        return self.subject

    def find_stream(self, stream: StreamConfig) -> StreamConfig:
        """The stream that stores them; `stream`: the one of the settings."""
        return stream


class OptionalConsumerConfig(ConsumerConfig):
    """A subscription that is off unless the settings enable it."""

    enabled: bool = Field(
        default=False,
        description="handle these messages; else they have neither a stream nor a consumer",
    )

    @property
    def is_enabled(self) -> bool:
        return self.enabled


class EffectsConfig(Group):
    """Effects are messages that must be stored before the ack."""

    publish_timeout_ms: Millis = Field(
        default=5_000,
        description="an effect without its publish ack after this pauses the subscription, milliseconds",
    )
    retry_ms: Millis = Field(
        default=1_000,
        description="an effect that could not be stored is published again this often, milliseconds",
    )
    full_retry_ms: Millis = Field(
        default=10_000,
        description="while a stream is full and too many messages wait for it, the others are "
        "redelivered after this, or their requesters"
        " are told to ask again after it, milliseconds",
    )
    patience_ms: Millis = Field(
        default=5_000,
        description="a request that waits for a stream or a bucket which refuses until an operator "
        "mends it (missing, sealed) is answered"
        " `cannot_be_stored` after this, milliseconds",
    )
    batches: bool = Field(
        default=True,
        description="assignments, their records, usage events, dead letters and workers' results are "
        "stored in atomic batches where the publish acks of their stream are slow, and the server "
        "knows batches (2.12)",
    )


class DrainConfig(Group):
    """Shutdown's two deadlines, both counted from the signal."""

    soft_deadline_ms: int = Field(
        default=10_000, ge=0, description="work in flight may finish until then, milliseconds"
    )
    hard_deadline_ms: int = Field(
        default=15_000, ge=0, description="everything is cancelled and closed by then, milliseconds"
    )

    @property
    def soft(self) -> float:
        """Seconds, as `delivery.consume.consumer.DrainDeadlines` has them."""
        return self.soft_deadline_ms / 1000

    @property
    def hard(self) -> float:
        return self.hard_deadline_ms / 1000


# -- Who is answered, and who first.


class ReplyConfig(Group):
    """Who is answered, and when (docs/reference/contracts.md#replies)."""

    confirm: Literal["decision", "stored"] = Field(
        default="decision",
        description="what a requester's first answer is: the decision, or a PubAck",
    )
    listener: bool = Field(
        default=True,
        description="listen to who asked; off above three instances, clients then name their inbox",
    )
    prefixes: Prefixes = Field(
        default=("_INBOX.", "_R_."),
        description="reply addresses are answered only under these, comma-separated",
    )
    subject: OptionalSubject = Field(
        default=None,
        description="where answers without an inbox go; empty = {decide.subject}.reply",
    )
    inbox_wait_ms: int = Field(
        default=250, ge=0, description="an answer waits this long for its inbox, milliseconds"
    )


MAX_WEIGHT = 1_000


def _weight(text: str) -> str:
    tenant, equals, weight = text.partition("=")
    is_legal = (
        equals
        and ids.is_scoped(tenant)
        and weight.isascii()
        and weight.isdecimal()
        and len(weight) <= 4
    )
    if not (is_legal and 1 <= int(weight) <= MAX_WEIGHT):
        raise ValueError(
            f"should be tenant=weight with a weight of 1 to {MAX_WEIGHT}, such as acme=4"
        )
    return text


Weights = Annotated[
    tuple[Annotated[str, AfterValidator(_weight)], ...], BeforeValidator(split_list)
]


class AdmissionConfig(Group):
    """Admission: who is answered first, who hears `overloaded`, and whose request is no longer
    worth an answer.
    """

    fair_after_ms: OptionalMillis = Field(
        default=250,
        description=(
            "with a backlog deeper than this, requests are answered from their live copy, by "
            "tenant, milliseconds; empty = never"
        ),
    )
    overloaded_after_ms: Millis = Field(
        default=2_000,
        description=(
            "with a backlog deeper than this, what is above its tenant's share is answered "
            "overloaded, milliseconds"
        ),
    )
    queue: Count = Field(
        default=1024, description="live requests that wait; one tenant may have as many as are free"
    )
    queue_bytes: Count = Field(default=32 * 1024 * 1024, description="the same in bytes")
    tenant_weights: Weights = Field(
        default=(),
        description="tenant=weight, comma-separated: turns that a tenant gets; 1 unless named",
    )
    patience_ms: Millis = Field(
        default=10_000,
        description=(
            "a request that names its inbox and pushes nothing is answered expired when it "
            "waited longer, milliseconds"
        ),
    )

    @property
    def weights(self) -> Mapping[str, int]:
        return {
            tenant: int(weight)
            for tenant, _, weight in (text.partition("=") for text in self.tenant_weights)
        }
