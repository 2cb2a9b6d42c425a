"""Streams of another place, mirrored here, and made the streams of this one when that place is
lost.

    each declared stream   a mirror: the mirror is taken off it, and it takes messages from now on;
                           missing: made
    each declared durable  made, and set to the first message since `since`; what was settled at the
                           lost place is handled again

What is handled again changes nothing once the servers were started again (`recovery_order`): its effects
have the ids that they had, because a mirror keeps sequences and times. Nothing is deleted, and a
second call goes on where the first one ended: from the same start (`choose_start`), or from an earlier
one, so far as it widens the windows too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import nats.errors
from msgspec import Struct

from router.core.errors import NotFound, PermissionDenied, RouterError
from router.delivery.wire.api import JetStream, Json, nanos
from router.delivery.wire.topology import (
    NANOS_PER_S,
    ConsumerSpec,
    MirrorSpec,
    StreamSpec,
    Topology,
    make_consumer,
)
from router.operate.recovery.recovery_order import widen

# -- Where the durables of a promoted place begin: the earliest start that any promotion of it was
# given.
#
# The streams of effects keep that start (`PROMOTED_SINCE`), beyond `router topology apply`. A
# promoted place stores messages of its own, the audit event of the promotion first; so a later call
# that looked for the newest message again would begin after what is unfinished.


# what was in flight at the lost place is younger than that, unless it waited for a full stream
LOOK_BACK = timedelta(minutes=10)

PROMOTED_SINCE = "router-promoted-since"  # metadata of a stream of effects: an ISO time


async def choose_start(
    jetstream: JetStream, streams: Sequence[StreamSpec], asked: datetime | None
) -> datetime:
    """What is asked for; otherwise a little before the newest message of the mirrors; never later
    than the start of an earlier call.

    Raises NotFound where streams are, and none of them is a mirror or was one.
    """
    infos = [info for spec in streams if (info := await jetstream.stream(spec.name)) is not None]
    starts = [start for info in infos if (start := _read_start(info)) is not None]
    mirrors = [info for info in infos if info["config"].get("mirror")]
    if infos and not starts and not mirrors:
        raise NotFound(
            "there is nothing to promote: no stream here is a mirror of another place, or was one"
        )
    if asked is not None:
        starts.append(asked)
    return min(starts, default=None) or (_find_newest(mirrors) or datetime.now(UTC)) - LOOK_BACK


async def start_durables(
    jetstream: JetStream, consumers: Iterable[ConsumerSpec], since: datetime
) -> None:
    """Make each durable that is missing, and let it deliver from the first message since `since`.
    One that delivered keeps its place.

    `since`: of `choose_start`. A later time would take from a durable what an earlier call gave it.
    """
    for consumer in consumers:
        info = await jetstream.consumer(consumer.stream, consumer.durable)
        if info is None:
            await make_consumer(jetstream, consumer, "CREATE")
        if info is None or not info["delivered"]["consumer_seq"]:
            await _start_at(jetstream, consumer, since)


def _read_start(info: Json) -> datetime | None:
    noted = (info["config"].get("metadata") or {}).get(PROMOTED_SINCE)
    return datetime.fromisoformat(noted) if noted is not None else None


def _find_newest(infos: Iterable[Json]) -> datetime | None:
    """When the newest message of these streams was stored: so far the mirrors had come. None: they
    hold none.
    """
    newest = max(
        (nanos(info["state"]["last_ts"]) for info in infos if info["state"]["messages"]),
        default=None,
    )
    return datetime.fromtimestamp(newest / NANOS_PER_S, UTC) if newest is not None else None


async def _start_at(jetstream: JetStream, consumer: ConsumerSpec, since: datetime) -> None:
    """By a reset: its configuration stays the declared one. A durable that was just made may have
    no leader yet, and hears nothing.
    """
    first = await _find_first_since(jetstream, consumer.stream, since)
    await jetstream.ask_repeatedly(
        f"CONSUMER.RESET.{consumer.stream}.{consumer.durable}", {"seq": first}
    )


async def _find_first_since(jetstream: JetStream, stream: str, since: datetime) -> int:
    """The sequence of the first message that was stored since then, or of the next one to be
    stored.
    """
    name = f"since-{token_hex(8)}"
    start = {"deliver_policy": "by_start_time", "opt_start_time": since.isoformat()}
    config = {"name": name, "ack_policy": "none", "mem_storage": True, **start}
    info = await jetstream.ask(
        f"CONSUMER.CREATE.{stream}.{name}",
        {"stream_name": stream, "config": config, "action": "create"},
    )
    await jetstream.ask(f"CONSUMER.DELETE.{stream}.{name}")
    return int(info["delivered"]["stream_seq"]) + 1


# -- Mirrors of a place that is lost, made the streams of this one.


ANSWER_S = 2.0


class PlaceAnswers(RouterError):
    """The place that the mirrors copy is not lost. Two places that take the same messages would
    both handle them.
    """

    code = "place_answers"


class PromotedStream(Struct, frozen=True):
    """A stream, and how far its mirror had come. `state`: promoted, made, or is ours (it was no
    mirror).
    """

    name: str
    state: str
    messages: int
    last_sequence: int
    last_time: str


async def promote_streams(
    jetstream: JetStream,
    streams: Sequence[StreamSpec],
    since: datetime,
    effects: Collection[str],
    *,
    is_forced: bool = False,
) -> list[PromotedStream]:
    """Promote these streams, those of effects first: they note `since`, for a call that goes on
    where this one failed.

    Their windows reach back to `since`, also those of streams that an earlier call promoted. Unless
    `is_forced`, it raises PlaceAnswers, or PermissionDenied where it may not ask whether the place
    answers.
    """
    infos = {spec.name: await jetstream.stream(spec.name) for spec in streams}
    if not is_forced:
        await _require_silence(jetstream, [info for info in infos.values() if info is not None])
    in_order = sorted(streams, key=lambda spec: spec.name not in effects)
    return [await _promote(jetstream, spec, infos[spec.name], since, effects) for spec in in_order]


async def _require_silence(jetstream: JetStream, infos: list[Json]) -> None:
    """Raises PlaceAnswers if the API of a mirrored domain answers, and PermissionDenied if it may
    not be asked.
    """
    mirrors = [info["config"]["mirror"] for info in infos if info["config"].get("mirror")]
    for api in {(mirror.get("external") or {}).get("api", "$JS.API") for mirror in mirrors}:
        if await _answers(jetstream, f"{api}.INFO"):
            raise PlaceAnswers(
                f"{api} answers: the mirrored place is not lost. Stop its routers and cut "
                "the leaf node connection, or --force"
            )


async def _answers(jetstream: JetStream, subject: str) -> bool:
    try:
        await jetstream.connection.request(subject, timeout=ANSWER_S)
    except (nats.errors.NoRespondersError, TimeoutError):
        return False
    except PermissionDenied as exc:
        raise PermissionDenied(
            f"this user may not ask whether the mirrored place answers: {exc}"
        ) from exc
    return True


async def _promote(
    jetstream: JetStream,
    spec: StreamSpec,
    info: Json | None,
    since: datetime,
    effects: Collection[str],
) -> PromotedStream:
    has: Json = info["config"] if info is not None else {}
    is_ours = info is not None and not has.get("mirror")
    config = (
        has
        if is_ours
        else {name: value for name, value in {**has, **spec.to_json()}.items() if name != "mirror"}
    )
    if spec.name in effects:
        config = _keep_ids(config, spec, since)
    if config != has:
        await jetstream.ask(f"STREAM.{'CREATE' if info is None else 'UPDATE'}.{spec.name}", config)
    return _describe(spec.name, info, "is ours" if is_ours else "promoted")


def _keep_ids(config: Json, spec: StreamSpec, since: datetime) -> Json:
    """The configuration with the ids since `since`, which it notes. A window that is wider stays so
    wide.
    """
    declared = {**config, "duplicate_window": spec.to_json()["duplicate_window"]}
    wide = widen(declared, since, datetime.now(UTC))
    window = max(wide["duplicate_window"], config["duplicate_window"])
    return {
        **wide,
        "duplicate_window": window,
        "metadata": {**wide["metadata"], PROMOTED_SINCE: since.isoformat()},
    }


def _describe(name: str, info: Json | None, state: str) -> PromotedStream:
    if info is None:
        return PromotedStream(name, "made", 0, 0, "")
    had = info["state"]
    return PromotedStream(
        name, state, had["messages"], had["last_seq"], had["last_ts"] if had["messages"] else ""
    )


# -- Streams of another JetStream domain, copied into this one: as mirrors, or as a source of a
# stream that has messages of its own.
#
# A mirror keeps sequences and times, and takes no other message. It does not follow deletions:
# what was removed there stays here until it is too old. Durables are not mirrored. A bucket's
# mirror keeps as many versions of a key as the bucket.


class DomainMirrorSpec(MirrorSpec, frozen=True, kw_only=True):
    """The mirror of a stream of another domain, which `origin` names there."""

    origin: str
    deliver: str = ""  # the server chooses

    def to_json(self) -> Json:
        stream = super().to_json()
        kept = {
            "max_msgs_per_subject": self.max_per_subject,
            "allow_rollup_hdrs": self.allow_rollup,
        }
        return {**stream, **kept, "mirror": {**stream["mirror"], "name": self.origin}}


def declare_mirrors(streams: Iterable[StreamSpec], domain: str) -> Topology:
    """A mirror of each of these streams, under its own name."""
    return Topology(tuple(declare_mirror(stream, domain) for stream in streams))


def declare_mirror(stream: StreamSpec, domain: str, name: str | None = None) -> DomainMirrorSpec:
    return DomainMirrorSpec(
        name=name or stream.name,
        origin=stream.name,
        api=domain_api(domain),
        max_age=stream.max_age,
        max_bytes=stream.max_bytes,
        replicas=stream.replicas,
        max_per_subject=stream.max_per_subject,
        allow_rollup=stream.allow_rollup,
    )


def domain_api(domain: str) -> str:
    """Where the API of another domain is reached from here."""
    return f"$JS.{domain}.API"


async def add_source(jetstream: JetStream, stream: str, domain: str) -> bool:
    """Let `stream` take in what the stream of that name in `domain` stores, beside its own
    messages. False: it does already.
    """
    info = await jetstream.stream(stream)
    if info is None:
        raise NotFound(f"there is no stream {stream}: `router topology apply` makes it")
    config, source = info["config"], declare_source(stream, domain)
    sources: list[Json] = config.get("sources") or []
    if any(
        existing["name"] == stream
        and (existing.get("external") or {}).get("api") == domain_api(domain)
        for existing in sources
    ):
        return False
    await jetstream.ask(f"STREAM.UPDATE.{stream}", {**config, "sources": [*sources, source]})
    return True


def declare_source(stream: str, domain: str) -> Json:
    return {"name": stream, "external": {"api": domain_api(domain), "deliver": ""}}
