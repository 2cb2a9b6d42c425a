"""Turns the settings into the declared topology (docs/reference/contracts.md#streams), the streams
of a partitioned subject among it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from router.budgets.model.held_cost import ALL_HELD, MAX_HELD
from router.config import (
    DECIDE,
    RESULTS,
    SUBSCRIPTIONS,
    Settings,
    SubscriptionSpec,
    list_standby,
    select_partition,
)
from router.contracts import usage
from router.contracts.dead_letter import WORKER_DEAD_LETTER_SUBJECTS, dead_letter_subject
from router.delivery.consume.advisories import ALL_ADVISORIES
from router.delivery.settings import BucketConfig, ConsumerConfig, StreamConfig
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology, bucket
from router.operate.audit.audit_event import ALL_AUDIT_EVENTS
from router.operate.violations.events import ALL_VIOLATIONS

Specs = Sequence[SubscriptionSpec[ConsumerConfig]]


def declare_topology(settings: Settings, specs: Specs = SUBSCRIPTIONS) -> Topology:
    """Every stream, bucket and consumer that this router needs."""
    enabled = [(spec, settings) for spec in specs if spec.read_section(settings).is_enabled]
    standby = [
        (spec, other)
        for spec in specs
        if spec.name == DECIDE.name
        for other in list_standby(settings)
    ]
    messages = (_message_stream(*subscription) for subscription in enabled)
    streams = (
        *messages,
        *_effect_streams(settings, specs),
        *_buckets(settings),
        *(_message_stream(*subscription) for subscription in standby),
    )
    return Topology(
        streams=streams,
        consumers=tuple(_consumer(*subscription) for subscription in (*enabled, *standby)),
    )


def declare_partitions(settings: Settings, partitions: Sequence[str]) -> tuple[StreamSpec, ...]:
    """The streams of these partitions' requests, and the bucket of their leases; nothing where
    there is no partition.
    """
    requests = [
        _message_stream(DECIDE, select_partition(settings, partition)) for partition in partitions
    ]
    return (*requests, _bucket(settings.buckets.partitions)) if requests else ()


def declare_audit_stream(settings: Settings) -> StreamSpec:
    """What operators wrote. A full one drops its oldest event: a write is never refused because of
    what was written before.
    """
    audit = settings.streams.audit
    return replace(_stream(audit, ALL_AUDIT_EVENTS), max_messages=audit.max_messages)


def declare_advisories_stream(settings: Settings) -> StreamSpec:
    """The advisories about the durables of inboxes and agents; whichever of them comes first makes
    it.
    """
    return _stream(settings.streams.advisories, ALL_ADVISORIES)


def declare_attempts_bucket(settings: Settings) -> StreamSpec:
    """The attempts of what failed, of every kind of process."""
    return _bucket(settings.buckets.attempts)


def _message_stream(spec: SubscriptionSpec[ConsumerConfig], settings: Settings) -> StreamSpec:
    """The stream of a subscription's messages: a full one drops its oldest message."""
    # In confirm mode "decision" JetStream must not answer a request with a PubAck before we do.
    no_ack = spec.is_answered and settings.reply.confirm == "decision"
    stream = _stream(
        spec.read_stream(settings), spec.read_section(settings).taken_subject, no_ack=no_ack
    )
    # Workers store their results as the router its effects.
    is_atomic = settings.effects.batches and spec.name == RESULTS.name
    return replace(stream, allow_atomic=True) if is_atomic else stream


def _effect_streams(settings: Settings, specs: Specs) -> Iterator[StreamSpec]:
    """Streams that the router publishes to before it acks: a full one refuses messages, and those
    that need it wait.

    No message waits for the events of violations and of audits, nor for the notices of held costs:
    their streams drop their oldest.
    """
    streams = settings.streams
    is_atomic = settings.effects.batches
    assignments, usage_events, dead_letters = (
        replace(_stream(config, *subjects, discard="new"), allow_atomic=is_atomic)
        for config, subjects in _batched_streams(settings, specs)
    )
    yield assignments
    yield usage_events
    yield replace(_stream(streams.held, ALL_HELD), max_per_subject=MAX_HELD)
    yield replace(
        _stream(streams.violations, ALL_VIOLATIONS), max_messages=streams.violations.max_messages
    )
    yield declare_audit_stream(settings)
    yield dead_letters


def _batched_streams(
    settings: Settings, specs: Specs
) -> Iterator[tuple[StreamConfig, Sequence[str]]]:
    """The streams of effects that may be stored in atomic batches, and their subjects."""
    streams = settings.streams
    yield streams.assignments, settings.assignment.subjects
    yield streams.usage, (usage.USAGE_SUBJECT, usage.ADJUSTED_SUBJECT)
    yield streams.dlq, _dead_letter_subjects(settings, specs)


def build_stream_of(
    settings: Settings, specs: Specs = SUBSCRIPTIONS
) -> Callable[[str], str | None] | None:
    """Which stream that takes batches takes a subject; None where batches are switched off."""
    if not settings.effects.batches:
        return None
    streams = {
        subject: config.name
        for config, subjects in _batched_streams(settings, specs)
        for subject in subjects
    }
    return streams.get


def _buckets(settings: Settings) -> Iterator[StreamSpec]:
    """The key-value buckets that all instances share."""
    buckets = settings.buckets
    yield _bucket(buckets.attempts)
    yield replace(_bucket(buckets.assignments_known), allow_atomic=settings.effects.batches)
    yield from map(_bucket, (buckets.policies, buckets.extensions))
    yield from map(
        _bucket,
        (
            buckets.breakers,
            buckets.figures,
            buckets.canaries,
            buckets.budgets,
            buckets.budgets_spent,
        ),
    )
    yield from map(_bucket, (buckets.prices, buckets.keys, buckets.ratios, buckets.rate_limits))
    yield _bucket(buckets.gateway_answers)
    yield replace(_bucket(buckets.invocations), deletes_by_number=True)
    if settings.decide.partition is not None:
        yield _bucket(buckets.partitions)


def _dead_letter_subjects(settings: Settings, specs: Specs) -> tuple[str, ...]:
    """All dead letter subjects in use. No other stream binds them, and a publish to an unbound
    subject is lost.
    """
    subjects = (
        dead_letter_subject(spec.read_section(settings).subject, settings.dlq.subject_pattern)
        for spec in specs
    )
    return tuple(dict.fromkeys((*subjects, *WORKER_DEAD_LETTER_SUBJECTS)))


def _stream(
    config: StreamConfig, *subjects: str, discard: str = "old", no_ack: bool = False
) -> StreamSpec:
    return StreamSpec(
        name=config.name,
        subjects=subjects,
        max_age=config.max_age_ms / 1000,
        max_bytes=config.max_bytes,
        duplicate_window=config.duplicate_window_ms / 1000,
        replicas=config.replicas,
        discard=discard,
        no_ack=no_ack,
    )


def _consumer(spec: SubscriptionSpec[ConsumerConfig], settings: Settings) -> ConsumerSpec:
    section = spec.read_section(settings)
    return ConsumerSpec(
        stream=spec.read_stream(settings).name,
        durable=section.durable,
        filter_subject=section.taken_subject,
        ack_wait=section.ack_wait_ms / 1000,
        max_ack_pending=section.max_ack_pending,
        metadata={"deliver_group": section.deliver_group},
    )


def _bucket(config: BucketConfig) -> StreamSpec:
    return bucket(
        config.name,
        ttl=config.ttl_ms / 1000,
        history=config.history,
        replicas=config.replicas,
        max_bytes=config.max_bytes,
    )


# -- The streams of a partitioned subject: `{stream}_P{partition}` stores
# `{subject}.p.{partition}`, as the server's mapping names it.


def partition_stream(stream: str, partition: str) -> str:
    return f"{stream}_P{partition}"


async def list_partition_streams(jetstream: JetStream, subject: str) -> list[str]:
    """The streams that store a part of the subject, at most the server's first page of 1024. Raises
    as `JetStream.ask`.
    """
    answer = await jetstream.ask("STREAM.NAMES", {"subject": f"{subject}.p.*"})
    return list(answer.get("streams") or ())


def is_stored_as(stored: str, subject: str) -> bool:
    """Whether a message of the public subject may stand in its stream under this one: the same, or
    a partition's.
    """
    head, _, partition = stored.rpartition(".")
    return stored == subject or (head == f"{subject}.p" and partition != "")


async def list_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are on the server, at most its first page of 1024. Raises as
    `JetStream.ask`.
    """
    prefix = partition_stream(stream, "")
    names = await list_partition_streams(jetstream, subject)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


async def list_promotable_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are mirrors of another place's, or were. Raises as
    `JetStream.ask`.

    A mirror has no subjects, so they are found by name; one that was promoted stores its
    partition's.
    """
    prefix, partitions = partition_stream(stream, ""), []
    for name in await _list_streams(jetstream):
        partition = name.removeprefix(prefix)
        if partition not in (name, "") and _is_promotable(
            await jetstream.stream(name), f"{subject}.p.{partition}"
        ):
            partitions.append(partition)
    return sorted(partitions)


def _is_promotable(info: Json | None, stored: str) -> bool:
    """Whether it mirrors a stream of its own name, which only another place can have, or stores
    this subject.
    """
    config: Json = info["config"] if info is not None else {}
    mirror: Json = config.get("mirror") or {}
    return (
        mirror.get("name") == config.get("name") if mirror else config.get("subjects") == [stored]
    )


async def _list_streams(jetstream: JetStream) -> list[str]:
    """The names of all streams, page after page."""
    names: list[str] = []
    while True:
        page = await jetstream.ask("STREAM.NAMES", {"offset": len(names)})
        names += page["streams"] or ()
        if not page["streams"] or len(names) >= page["total"]:
            return names
