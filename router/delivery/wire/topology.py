"""Declared streams, consumers and buckets, compared with those on a server.

Only declared fields are compared, so a server's defaults are never drift. `compare` changes
nothing, `create` makes what is missing, `apply` (a command) also changes what has drifted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from router.core.errors import BrokerRefused
from router.core.ids import bucket_prefix
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.publish_faults import SEALED
from router.delivery.wire.server_state import describe_pause, require_quorum

NANOS_PER_S = 1_000_000_000
MISSING = "missing"
DRIFTED = "drifted"
WIDENED = "widened"
UNBATCHED = "unbatched"
PAUSED = "paused"
IRREVERSIBLE = "irreversible"
# the server could not make a durable; its log has the cause
CONSUMER_NOT_MADE = 10012
MAY_BE_TORN = (
    "; if the server's log says `corrupt state file`, a power cut tore the durable: "
    "docs/explanation/durability.md#torn-durable"
)
HARMLESS = (WIDENED, UNBATCHED)  # all works as declared; `apply` brings them back

# What an operator may set and no stream declares: it refuses, copies or renames messages. The
# server never undoes the second three.
UNWANTED: Json = {
    "max_msg_size": -1,
    "discard_new_per_subject": False,
    "republish": None,
    "subject_transform": None,
}
NEVER_UNDONE: Json = {"sealed": False, "deny_delete": False, "deny_purge": False}

# metadata of a stream whose duplicate window is wider than declared, on purpose, for a while
WIDENED_WINDOW = "router-widened-window"

Create = Callable[[], Awaitable[object]]  # makes a durable that is missing, if it can
OnFound = Callable[[Json], Awaitable[None]]  # gets what the server tells of a durable


class StreamSpec(Struct, frozen=True, kw_only=True):
    """One stream. Durations are seconds, 0 = for ever; sizes bytes, -1 = no limit. Source:
    docs/reference/contracts.md#streams.
    """

    name: str
    subjects: tuple[str, ...]
    max_age: float = 0.0
    max_bytes: int = -1
    max_messages: int = -1
    discard: str = "old"
    duplicate_window: float = 120.0
    retention: str = "limits"
    replicas: int = 1
    no_ack: bool = False
    allow_direct: bool = True
    max_per_subject: int = -1
    allow_rollup: bool = False
    deletes_by_number: bool = False  # of a bucket: it must not deny that, as `nats kv add` does
    # batches stored whole or not at all (`delivery.publish.atomic_publisher`); server 2.12
    allow_atomic: bool = False

    def to_json(self) -> Json:
        window = min(self.duplicate_window, self.max_age) if self.max_age else self.duplicate_window
        return {
            "name": self.name,
            "subjects": list(self.subjects),
            "max_age": int(self.max_age * NANOS_PER_S),
            "max_bytes": self.max_bytes,
            "discard": self.discard,
            "duplicate_window": int(window * NANOS_PER_S),
            "retention": self.retention,
            "num_replicas": self.replicas,
            "no_ack": self.no_ack,
            "allow_direct": self.allow_direct,
            "max_msgs_per_subject": self.max_per_subject,
            "allow_rollup_hdrs": self.allow_rollup,
            "allow_atomic": self.allow_atomic,
            "storage": "file",
            **({"max_msgs": self.max_messages} if self.max_messages > 0 else {}),
        }

    @property
    def compared(self) -> Json:
        """What is compared: the declared fields, and those that must not be set.

        Keys of most buckets are purged, never deleted one by one."""
        may_deny_deletes = self.name.startswith("KV_") and not self.deletes_by_number
        undone = {
            name: value
            for name, value in NEVER_UNDONE.items()
            if name != "deny_delete" or not may_deny_deletes
        }
        return {**UNWANTED, **undone, **self.to_json()}


class MirrorSpec(StreamSpec, frozen=True, kw_only=True):
    """A copy, in this account, of a stream of another account. Clients cannot publish to it; when
    it is full, it drops the oldest.

    `api` and `deliver`: where this account imports the other's API and what it delivers
    (deploy/nats/accounts.conf).
    """

    subjects: tuple[str, ...] = ()
    api: str = "router.api"
    deliver: str = "lake.usage"

    def to_json(self) -> Json:
        kept = (
            "name",
            "max_age",
            "max_bytes",
            "num_replicas",
            "discard",
            "retention",
            "allow_direct",
            "storage",
        )
        stream = super().to_json()
        mirror = {"name": self.name, "external": {"api": self.api, "deliver": self.deliver}}
        return {**{name: stream[name] for name in kept}, "mirror": mirror}

    @property
    def compared(self) -> Json:
        return self.to_json()


class ConsumerSpec(Struct, frozen=True, kw_only=True):
    """One durable pull consumer. `max_deliver` -1: the router counts attempts, the server sets no
    limit (docs/reference/contracts.md#attempts).
    """

    stream: str
    durable: str
    filter_subject: str | None = None
    filter_subjects: tuple[str, ...] = ()  # several at once, instead of one
    ack_wait: float = 30.0
    max_ack_pending: int = 10_000
    max_deliver: int = -1
    metadata: Mapping[str, str] = {}

    def to_json(self) -> Json:
        body: Json = {
            "durable_name": self.durable,
            "name": self.durable,
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "replay_policy": "instant",
            "ack_wait": int(self.ack_wait * NANOS_PER_S),
            "max_ack_pending": self.max_ack_pending,
            "max_deliver": self.max_deliver,
            "max_waiting": 512,
        }
        if self.filter_subject:
            body["filter_subject"] = self.filter_subject
        if self.filter_subjects:
            body["filter_subjects"] = list(self.filter_subjects)
        if self.metadata:
            body["metadata"] = dict(self.metadata)
        return body


def bucket(
    name: str, *, ttl: float = 0.0, history: int = 1, replicas: int = 1, max_bytes: int = -1
) -> StreamSpec:
    """A key-value bucket is a stream of a known shape."""
    return StreamSpec(
        name=f"KV_{name}",
        subjects=(bucket_prefix(name) + ">",),
        max_age=ttl,
        max_bytes=max_bytes,
        discard="new",
        replicas=replicas,
        max_per_subject=history,
        allow_rollup=True,
    )


class Topology(Struct, frozen=True):
    """All declared streams and consumers."""

    streams: tuple[StreamSpec, ...]
    consumers: tuple[ConsumerSpec, ...] = ()


class Difference(Struct, frozen=True):
    """A stream or consumer that is not as declared. `fields`: name -> (declared, on the server)."""

    kind: str  # stream | consumer
    name: str
    # missing | drifted | widened (its window alone, by a restore or a promotion: `apply` brings it
    # back, nothing else minds) | unbatched (it takes no atomic batches, and is written one by one)
    state: str
    # | paused (by the server, for an operator, who alone ends it) | irreversible (by the server: it
    # must be made anew)
    fields: Mapping[str, tuple[Any, Any]] = {}
    cause: str = ""  # of a pause

    def __str__(self) -> str:
        if self.state == MISSING:
            return f"{self.kind} {self.name} is missing"
        if self.state == PAUSED:
            return f"{self.kind} {self.name}: {self.cause}"
        fields = ", ".join(
            f"{name} is {has!r}, declared {want!r}" for name, (want, has) in self.fields.items()
        )
        return (
            f"{self.kind} {self.name}: {fields}; {self.remedy}"
            if self.remedy
            else f"{self.kind} {self.name}: {fields}"
        )

    @property
    def remedy(self) -> str:
        """What `apply` cannot do. The stream's messages go with it, so they are saved first."""
        if self.state != IRREVERSIBLE:
            return ""
        anew = f"`router backup DIR`, `nats stream rm {self.name}`, then `router topology apply`"
        return (
            "the server never undoes that: let its consumers finish, and make the stream "
            f"anew: {anew}"
        )


class InfoReader(Protocol):
    """`JetStream`, or what reads infos that are a little older (`shared_info.RecentInfo`)."""

    async def stream(self, name: str) -> Json | None: ...

    async def consumer(self, stream: str, durable: str) -> Json | None: ...


async def compare(infos: InfoReader, topology: Topology) -> list[Difference]:
    """Compare the server with the declaration; raises BrokerUnavailable."""
    differences: list[Difference] = []
    for stream in topology.streams:
        info = await infos.stream(stream.name)
        differences += _difference("stream", stream.name, stream.compared, info)
    for consumer in topology.consumers:
        info = await infos.consumer(consumer.stream, consumer.durable)
        differences += _difference(
            "consumer", f"{consumer.stream}/{consumer.durable}", consumer.to_json(), info
        )
        differences += _find_pause(consumer, info)
    return differences


async def create(jetstream: JetStream, topology: Topology) -> list[Difference]:
    """Make what is missing; returns what has drifted. A server's refusal raises BrokerRefused."""
    for difference in await compare(jetstream, topology):
        if difference.state == MISSING:
            await _make(jetstream, topology, difference, "CREATE")
    return [
        difference
        for difference in await compare(jetstream, topology)
        if difference.state in (DRIFTED, IRREVERSIBLE)
    ]


async def apply(
    jetstream: JetStream, topology: Topology, on_done: Callable[[Difference], None] = lambda _: None
) -> list[Difference]:
    """Make what is missing and bring back what has drifted; returns what was done. `on_done` hears
    each, also where a later one fails.

    Raises BrokerRefused, after all else is done, where the server never undoes a difference.
    """
    differences = await compare(jetstream, topology)
    done = [
        difference for difference in differences if difference.state not in (PAUSED, IRREVERSIBLE)
    ]
    for difference in done:
        await _make(
            jetstream, topology, difference, "CREATE" if difference.state == MISSING else "UPDATE"
        )
        on_done(difference)
    if left := "; ".join(
        str(difference) for difference in differences if difference.state == IRREVERSIBLE
    ):
        raise BrokerRefused(SEALED, left)
    return done


async def ignore_durable(_: Json) -> None: ...


async def restore(
    jetstream: JetStream,
    stream: str,
    durable: str,
    create: Create | None = None,
    on_found: OnFound = ignore_durable,
) -> str | None:
    """When a durable was created: another time, another durable. `create` makes one that is
    missing; None: it is still missing.

    Raises NoLeader if nothing comes from it now.
    """
    if (info := await jetstream.consumer(stream, durable)) is None and create is not None:
        await create()
        info = await jetstream.consumer(stream, durable)  # another process may have made it first
    if info is None:
        return None
    require_quorum(f"consumer {durable}", info)
    await on_found(info)
    return str(info["created"])


async def _make(
    jetstream: JetStream, topology: Topology, difference: Difference, verb: str
) -> None:
    if difference.kind == "stream":
        spec = next(stream for stream in topology.streams if stream.name == difference.name)
        await _stream(jetstream, spec, verb)
    else:
        consumer = next(
            declared
            for declared in topology.consumers
            if f"{declared.stream}/{declared.durable}" == difference.name
        )
        await make_consumer(jetstream, consumer, verb)


async def make_consumer(jetstream: JetStream, consumer: ConsumerSpec, verb: str) -> None:
    """`verb`: CREATE or UPDATE. Raises BrokerRefused, which names the durable."""
    config = consumer.to_json()
    if (
        verb == "UPDATE"
        and (info := await jetstream.consumer(consumer.stream, consumer.durable)) is not None
    ):
        # Undeclared fields stay: an operator's settings, and a worker's start point in the
        # metadata.
        config = {
            **info["config"],
            **config,
            "metadata": {**info["config"].get("metadata", {}), **consumer.metadata},
        }
    # Without an action, CREATE would overwrite an existing durable.
    body = {"stream_name": consumer.stream, "config": config, "action": verb.lower()}
    try:
        await jetstream.ask(f"CONSUMER.CREATE.{consumer.stream}.{consumer.durable}", body)
    except BrokerRefused as exc:
        remedy = MAY_BE_TORN if exc.err_code == CONSUMER_NOT_MADE else ""
        cause = f"consumer {consumer.stream}/{consumer.durable}: {exc}{remedy}"
        raise BrokerRefused(exc.err_code, cause, exc.status) from exc


async def _stream(jetstream: JetStream, spec: StreamSpec, verb: str) -> None:
    body = spec.to_json()
    if verb == "UPDATE" and (info := await jetstream.stream(spec.name)) is not None:
        # other undeclared fields stay
        body = {**info["config"], **UNWANTED, **body, "metadata": _remove_mark(info["config"])}
    try:
        await jetstream.ask(f"STREAM.{verb}.{spec.name}", body)
    except BrokerRefused as exc:
        raise BrokerRefused(exc.err_code, f"stream {spec.name}: {exc}", exc.status) from exc


def _difference(kind: str, name: str, declared: Json, info: Json | None) -> Sequence[Difference]:
    if info is None:
        return [Difference(kind, name, MISSING)]
    has = info["config"]
    fields = {
        field: (want, has.get(field))
        for field, want in declared.items()
        if not _is_same(want, has.get(field))
    }
    if "sealed" in fields:  # the rest follows from it
        fields = {"sealed": fields["sealed"]}
    if NEVER_UNDONE.keys() & fields.keys():
        return [Difference(kind, name, IRREVERSIBLE, fields)]
    return [Difference(kind, name, _name_state(has, fields), fields)] if fields else []


def _name_state(has: Json, fields: Mapping[str, tuple[Any, Any]]) -> str:
    if set(fields) == {"allow_atomic"}:
        return UNBATCHED
    if set(fields) == {"duplicate_window"} and WIDENED_WINDOW in (has.get("metadata") or {}):
        return WIDENED
    return DRIFTED


def _find_pause(consumer: ConsumerSpec, info: Json | None) -> Sequence[Difference]:
    cause = describe_pause(consumer.stream, consumer.durable, info) if info is not None else None
    return (
        [Difference("consumer", f"{consumer.stream}/{consumer.durable}", PAUSED, cause=cause)]
        if cause is not None
        else []
    )


def _remove_mark(config: Json) -> Json:
    return {
        name: value
        for name, value in (config.get("metadata") or {}).items()
        if name != WIDENED_WINDOW
    }


def _is_same(want: Any, has: Any) -> bool:
    if isinstance(want, dict):
        return all((has or {}).get(name) == value for name, value in want.items())
    # the server leaves zero values out
    return bool(want == has) or ((not want or want == -1) and has is None)
