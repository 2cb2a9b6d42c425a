"""Turns the settings into the declared topology (docs/contracts.md#streams)."""

from __future__ import annotations

from collections.abc import Iterator

from router.config import BucketConfig, ConsumerConfig, Settings, StreamConfig
from router.contracts import usage
from router.contracts.dead_letter import WORKER_DEAD_LETTER_SUBJECTS, dead_letter_subject
from router.delivery.topology import ConsumerSpec, StreamSpec, Topology, bucket
from router.services.partition import taken_stream, taken_subject


def declare_topology(settings: Settings) -> Topology:
    """Every stream, bucket and consumer that this router needs."""
    streams = (*_requests(settings), *_effect_streams(settings), *_buckets(settings))
    return Topology(streams=streams, consumers=tuple(_consumers(settings)))


def _requests(settings: Settings) -> Iterator[StreamSpec]:
    """Streams of incoming messages: a full one drops its oldest message."""
    streams = settings.streams
    # In confirm mode "decision" JetStream must not answer a request with a PubAck before we do.
    yield _stream(taken_stream(settings), taken_subject(settings), no_ack=settings.reply.confirm == "decision")
    yield _stream(streams.results, settings.results.subject)
    if settings.acks.enabled:
        yield _stream(streams.acks, settings.acks.subject)


def _effect_streams(settings: Settings) -> Iterator[StreamSpec]:
    """Streams that the router publishes to before it acks: a full one refuses messages, and those that need it wait."""
    streams = settings.streams
    yield _stream(streams.assignments, *settings.assignment.subjects, discard="new")
    yield _stream(streams.usage, usage.SUBJECT, discard="new")
    yield _stream(streams.dlq, *_dead_letter_subjects(settings), discard="new")


def _consumers(settings: Settings) -> Iterator[ConsumerSpec]:
    streams = settings.streams
    yield _consumer(taken_stream(settings).name, settings.decide, taken_subject(settings))
    yield _consumer(streams.results.name, settings.results, settings.results.subject)
    if settings.acks.enabled:
        yield _consumer(streams.acks.name, settings.acks, settings.acks.subject)


def _buckets(settings: Settings) -> Iterator[StreamSpec]:
    """The key-value buckets that all instances share."""
    buckets = settings.buckets
    yield from map(_bucket, (buckets.attempts, buckets.assignments_known, buckets.policies, buckets.extensions, buckets.breakers))


def _dead_letter_subjects(settings: Settings) -> tuple[str, ...]:
    """All dead letter subjects in use. No other stream binds them, and a publish to an unbound subject is lost."""
    pattern = settings.dlq.subject_pattern
    subjects = (settings.decide.subject, settings.results.subject, settings.acks.subject)
    return tuple(dict.fromkeys((*(dead_letter_subject(subject, pattern) for subject in subjects), *WORKER_DEAD_LETTER_SUBJECTS)))


def _stream(config: StreamConfig, *subjects: str, discard: str = "old", no_ack: bool = False) -> StreamSpec:
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


def _consumer(stream: str, config: ConsumerConfig, subject: str) -> ConsumerSpec:
    return ConsumerSpec(
        stream=stream,
        durable=config.durable,
        filter_subject=subject,
        ack_wait=config.ack_wait_ms / 1000,
        max_ack_pending=config.max_ack_pending,
        metadata={"deliver_group": config.deliver_group},
    )


def _bucket(config: BucketConfig) -> StreamSpec:
    return bucket(config.name, ttl=config.ttl_ms / 1000, history=config.history, replicas=config.replicas, max_bytes=config.max_bytes)
