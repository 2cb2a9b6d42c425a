"""Rules between two settings. Each one names the setting to correct and says what is legal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from router.bus.settings import BusConfig
from router.config.settings import Settings
from router.core import ids
from router.core.errors import Misconfigured
from router.core.setting_values import FOREIGN, Group
from router.delivery.settings import BucketConfig, ConsumerConfig, StreamConfig

T = TypeVar("T")
FIXED_SUBJECTS = (
    *(
        "beamline.usage.v1.metered",
        "beamline.usage.v1.adjusted",
        "beamline.router.v1.admin",
        "beamline.router.v1.get_decision",
    ),
    *("caf.exec.dlq.v1", "caf.deadletter.v1"),
    *("caf.worker.heartbeat.v1", "caf.status.heartbeat.v1", "beamline.ingress.v1.message"),
)
FIXED_PREFIXES = (
    "beamline.router.v1.admin.",
    "beamline.router.v1.internal.",
    "beamline.ext.",
    "beamline.provider.",
    "beamline.alert.",
)

MIN_LEASE_MS = 300  # a shorter lease ends at each pause of a process


def check(settings: Settings) -> None:
    """Raises Misconfigured for the first rule that is broken."""
    for name, consumer in _members(settings, ConsumerConfig):
        _check_consumer(name, consumer)
    for name, stream in _members(settings.streams, StreamConfig):
        _require(
            stream.duplicate_window_ms <= stream.max_age_ms,
            f"streams.{name}.duplicate_window_ms",
            (
                f"must be at most streams.{name}.max_age_ms={stream.max_age_ms}: the server "
                "refuses a longer one"
            ),
        )
    _check_login(settings)
    _check_subjects(settings)
    _check_partitions(settings)
    _check_replies(settings)
    _check_shared(settings)
    _check_dead_letters(settings)
    _check_names("streams", settings.streams, StreamConfig)
    _check_names("buckets", settings.buckets, BucketConfig)
    _check_spans(settings)
    _check_bus(settings.bus)


def _check_consumer(name: str, consumer: ConsumerConfig) -> None:
    _require(
        consumer.heartbeat_ms <= consumer.pull_expires_ms // 2,
        f"{name}.heartbeat_ms",
        f"must be at most half of {name}.pull_expires_ms={consumer.pull_expires_ms}",
    )
    _require(
        consumer.prefetch <= consumer.max_ack_pending,
        f"{name}.prefetch",
        f"must be at most {name}.max_ack_pending={consumer.max_ack_pending}",
    )


def _check_dead_letters(settings: Settings) -> None:
    pattern, taken = (
        settings.dlq.subject_pattern,
        {subject: name for name, subject in _list_subjects(settings)},
    )
    legal = (
        "must give one literal subject, not starting with $ or _INBOX; {original_subject} is "
        "the only thing replaced"
    )
    for _, consumer in _members(settings, ConsumerConfig):
        dead_letters = pattern.replace("{original_subject}", consumer.subject)
        is_ours = (
            ids.is_literal_subject(dead_letters)
            and "{" not in dead_letters
            and not dead_letters.startswith(FOREIGN)
        )
        _require(is_ours, "dlq.subject_pattern", legal)
        _require(
            dead_letters != consumer.subject,
            "dlq.subject_pattern",
            f"must not send dead letters back to {consumer.subject}",
        )
        _require(
            dead_letters not in taken,
            "dlq.subject_pattern",
            f"must not send dead letters to {dead_letters}: that is {taken.get(dead_letters)}",
        )
        _require(
            not _is_fixed(dead_letters),
            "dlq.subject_pattern",
            f"must not send dead letters to {dead_letters}: the router uses it",
        )


def _check_login(settings: Settings) -> None:
    nats = settings.nats
    ways = {
        "creds_file": nats.creds_file,
        "nkey_file": nats.nkey_file,
        "token": nats.token,
        "user": nats.user,
    }
    chosen = [name for name, value in ways.items() if value is not None]
    _require(
        len(chosen) <= 1,
        f"nats.{chosen[-1] if chosen else ''}",
        f"one way to log in is legal, not {' and '.join(chosen)}",
    )
    _require(
        (nats.user is None) == (nats.password is None),
        "nats.user",
        "must be given together with nats.password",
    )
    _require(
        (nats.tls_cert is None) == (nats.tls_key is None),
        "nats.tls_cert",
        "must be given together with nats.tls_key",
    )
    gateway = settings.gateway
    _require(
        (gateway.tls_cert is None) == (gateway.tls_key is None),
        "gateway.tls_cert",
        "must be given together with gateway.tls_key",
    )


def _check_partitions(settings: Settings) -> None:
    decide = settings.decide
    _require(
        not decide.standby or decide.partition is not None,
        "decide.standby",
        "goes with decide.partition: give this router its own",
    )
    _require(
        decide.partition not in decide.standby,
        "decide.standby",
        f"must not hold {decide.partition}: that is decide.partition",
    )
    _require(
        len(set(decide.standby)) == len(decide.standby),
        "decide.standby",
        "must not name a partition twice",
    )
    _require(decide.lease_ms >= MIN_LEASE_MS, "decide.lease_ms", f"must be at least {MIN_LEASE_MS}")


def _check_subjects(settings: Settings) -> None:
    decide = settings.decide.subject
    _require(
        settings.reply.subject != decide,
        "reply.subject",
        f"must not be decide.subject={decide}: an answer would be a request",
    )
    _require(
        decide not in settings.assignment.subjects,
        "assignment.subjects",
        f"must not hold decide.subject={decide}",
    )


def _check_replies(settings: Settings) -> None:
    # The router would take an answer on one of its own subjects for a message.
    ours = (
        *(subject for name, subject in _list_subjects(settings) if name != "reply.subject"),
        *FIXED_SUBJECTS,
    )
    for prefix in settings.reply.prefixes:
        leads_home = any(subject.startswith(prefix) for subject in ours)
        _require(
            not leads_home, "reply.prefixes", f"{prefix} leads to subjects of the router itself"
        )
    _require(
        settings.reply.subject not in ours,
        "reply.subject",
        "must not be a subject that a stream of the router takes",
    )


def _check_shared(settings: Settings) -> None:
    """Each subject has one use: else an answer would be read as a request, or a result as an
    assignment.
    """
    seen: dict[str, str] = {}
    parts = f"{settings.decide.subject}.p."
    for name, subject in _list_subjects(settings):
        _require(subject not in seen, name, f"must not be {subject}: that is {seen.get(subject)}")
        _require(not _is_fixed(subject), name, f"must not be {subject}: the router uses it")
        _require(
            not subject.startswith(parts),
            name,
            f"must not lie under {parts}: that is where partitions of decide.subject are",
        )
        seen[subject] = name


def _list_subjects(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every subject that can be set, with the setting's name."""
    for name, consumer in _members(settings, ConsumerConfig):
        yield f"{name}.subject", consumer.subject
    yield from (("assignment.subjects", subject) for subject in settings.assignment.subjects)
    if settings.reply.subject is not None:
        yield "reply.subject", settings.reply.subject


def _is_fixed(subject: str) -> bool:
    return subject in FIXED_SUBJECTS or subject.startswith(FIXED_PREFIXES)


def _check_names(group_name: str, group: Group, kind: type[StreamConfig | BucketConfig]) -> None:
    seen: dict[str, str] = {}
    for name, member in _members(group, kind):
        _require(
            member.name not in seen,
            f"{group_name}.{name}.name",
            f"must not be {member.name}: {seen.get(member.name)} has it",
        )
        seen[member.name] = name


def _check_spans(settings: Settings) -> None:
    # A repeated request may push its assignment again while its decision is cached; the stream must
    # recognise it that long.
    _require(
        settings.streams.assignments.duplicate_window_ms >= settings.idempotency.ttl_ms,
        "streams.assignments.duplicate_window_ms",
        f"must be at least idempotency.ttl_ms={settings.idempotency.ttl_ms}",
    )
    _require(
        settings.drain.soft_deadline_ms <= settings.drain.hard_deadline_ms,
        "drain.soft_deadline_ms",
        f"must be at most drain.hard_deadline_ms={settings.drain.hard_deadline_ms}",
    )


def _check_bus(bus: BusConfig) -> None:
    _require(
        bus.duplicate_window_secs <= bus.message_ttl_secs,
        "bus.duplicate_window_secs",
        (
            f"must be at most bus.message_ttl_secs={bus.message_ttl_secs}: the server refuses "
            "a longer one"
        ),
    )
    _require(
        bus.max_msgs_per_subject != 0, "bus.max_msgs_per_subject", "must be -1 (all) or 1 and more"
    )


def _members(group: Group, kind: type[T]) -> Iterator[tuple[str, T]]:
    return ((name, value) for name, value in group if isinstance(value, kind))


def _require(is_legal: bool, setting: str, message: str) -> None:
    if not is_legal:
        raise Misconfigured(setting, message)
