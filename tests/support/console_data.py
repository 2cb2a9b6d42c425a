"""A broker full of what a console shows: dead letters in groups, violations, policies, assignments,
extensions; as many as are wanted.

Written straight to the streams, many at once: a hundred thousand dead letters in seconds.
"""

import asyncio
from collections.abc import Iterable, Sequence

import orjson
from msgspec import Struct

from router.config import Settings
from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment import assignment_id_of
from router.contracts.assignment_record import (
    acknowledgement_key,
    build_record,
    write_acknowledgement,
)
from router.contracts.decision import Decision, RouteRequest
from router.contracts.stored_record import record_bytes
from router.core.clock import now_ms
from router.core.ids import key
from router.core.outcome import Fault
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of
from router.extensions.model.entry import SUBJECT_PREFIXES
from router.extensions.store import ExtensionStore
from router.gateway.keys.model.api_key import make_key
from router.gateway.keys.store import KeyStore
from router.operate.violations.events import ViolationEvent, violation_bytes, violation_subject
from router.policies.model.policy import RateLimit
from router.policies.store import PolicyStore
from tests.support.dead_letters import a_failed_message, build_letter

TENANTS = ("acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "wonka")
PROVIDERS = ("openai", "anthropic", "mistral", "local-llama", "cohere")
CAUSES = (
    (
        "validation_failed",
        "SCHEMA_VALIDATION_FAILED",
        "Missing required field: tenant_id",
        "message.tenant_id",
    ),
    ("maxdeliver_exhausted", "EXTENSION_TIMEOUT", "pii-filter did not answer within 800 ms", None),
    (
        "processing_error",
        "POLICY_NOT_FOUND",
        "tenant acme has no policy premium",
        "message.policy_id",
    ),
    (
        "validation_failed",
        "TENANT_FORBIDDEN",
        "the result names another tenant than its assignment",
        "tenant_id",
    ),
    ("maxdeliver_exhausted", "PROVIDER_UNAVAILABLE", "every candidate's breaker is open", None),
)
SUBJECTS = ("decide", "results", "acks", "usage", "heartbeats", "assign", "events", "commands")
RULES = (
    ("trace_id", "malformed"),
    ("Nats-Msg-Id", "malformed"),
    ("tenant_id", "malformed"),
    ("version", "missing"),
)
AT_ONCE = 500


class ConsoleData(Struct, frozen=True):
    """How many of each. Dead letters stand in `groups` groups of subject, reason and code.

    `workers`, `providers` (of each tenant) and `usage_days` are those of `console_signs`.
    """

    letters: int = 100
    groups: int = 40
    violations: int = 100
    policies: int = 10
    assignments: int = 60
    extensions: int = 12
    keys: int = 5
    workers: int = 0
    providers: int = 0
    usage_days: int = 0


async def fill_console(jetstream: JetStream, settings: Settings, data: ConsoleData) -> None:
    """Store all of it, and return once the server has it."""
    await _publish(jetstream, _make_letters(settings, data))
    await _publish(jetstream, _make_violations(data))
    await _publish(jetstream, _make_assignments(settings, data))
    await _store_policies(jetstream, settings, data.policies)
    await _store_extensions(jetstream, settings, data.extensions)
    await _store_keys(jetstream, settings, data.keys)


async def _publish(
    jetstream: JetStream, messages: Iterable[tuple[str, bytes, dict[str, str]]]
) -> None:
    """The last one waits for its publish ack: a flush alone says that the server has read them, not
    that their stream has stored them.
    """
    everything = list(messages)
    if not everything:
        return
    for number, (subject, data, headers) in enumerate(everything[:-1]):
        jetstream.connection.publish_nowait(subject, data, head=head_of(headers))
        if number % AT_ONCE == 0:
            await jetstream.connection.flush(60)
    await JetStream(jetstream.connection, timeout_s=60.0).publish(*everything[-1])


def _make_letters(
    settings: Settings, data: ConsoleData
) -> Iterable[tuple[str, bytes, dict[str, str]]]:
    for number in range(data.letters):
        group = number % data.groups
        reason, code, text, field = CAUSES[group % len(CAUSES)]
        tenant = TENANTS[number % len(TENANTS)]
        payload = {
            "tenant_id": tenant,
            "task": {"type": "chat", "payload": "summarise order 4711"},
            "api_key": "hidden",
            "number": number,
        }
        headers = {"version": "1", "tenant_id": tenant, "trace_id": f"trace-{number:06}"}
        subject = f"beamline.router.v1.{SUBJECTS[group // len(CAUSES) % len(SUBJECTS)]}"
        message = a_failed_message(
            orjson.dumps(payload), subject=subject, sequence=number, headers=headers
        )
        seen = {"tenant_id": tenant, "request_id": f"request-{number:06}"}
        dead_letter = build_letter(
            message, reason, Fault(code, text, field, "schema" if field else None), seen=seen
        )
        yield f"{settings.decide.subject}.dlq", dead_letter.data, dict(dead_letter.headers)


def _make_violations(data: ConsoleData) -> Iterable[tuple[str, bytes, dict[str, str]]]:
    for number in range(data.violations):
        header, rule = RULES[number % len(RULES)]
        event = ViolationEvent(
            subscription="decide",
            subject=f"beamline.router.v1.{SUBJECTS[number % 3]}",
            header=header,
            rule=rule,
            expected="an id",
            router_node_id="router-1",
            timestamp=now_ms(),
            tenant_id=f"{TENANTS[number % len(TENANTS)]}-{number % 97}",
            message_id=f"m-{number}",
            inbox_prefix=f"_INBOX_gateway_{number % 5}",
        )
        yield violation_subject("decide"), violation_bytes(event), {}


def _make_assignments(
    settings: Settings, data: ConsoleData
) -> Iterable[tuple[str, bytes, dict[str, str]]]:
    bucket = settings.buckets.assignments_known.name
    for number in range(data.assignments):
        tenant, name = TENANTS[number % len(TENANTS)], f"request-{number:06}"
        context = {"policy_id": "default", "policy_version": "3"}
        decision = Decision(
            PROVIDERS[number % len(PROVIDERS)], "weighted", 50, 800, 0.0125, context
        )
        request = RouteRequest(
            tenant_id=tenant, message_type="chat", request_key=name, answer_id=name
        )
        assignment_id = assignment_id_of(tenant, name)
        record = build_record(
            assignment_id,
            request,
            decision,
            subject="caf.exec.assign.v1",
            traceparent=None,
            content=None,
            requested_at_ms=0,
        )
        yield f"$KV.{bucket}.{key(assignment_id)}", record_bytes(record), {}
        if status := ("accepted", "accepted", "rejected", "error", "")[number % 5]:
            said = {"rejected": "no slot is free", "error": "the model is not loaded"}.get(status)
            ack = ExecAssignmentAck(
                assignment_id=assignment_id, status=status, acknowledged_at=now_ms(), message=said
            )
            yield (
                f"$KV.{bucket}.{acknowledgement_key(assignment_id)}",
                write_acknowledgement(ack),
                {},
            )


async def _store_policies(jetstream: JetStream, settings: Settings, count: int) -> None:
    store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
    names = ("default", "premium", "fast", "cheap", "night")

    async def put(number: int) -> None:
        name, again = (
            names[number // len(TENANTS) % len(names)],
            number // (len(TENANTS) * len(names)),
        )
        tenant, policy = TENANTS[number % len(TENANTS)], f"{name}-{again}" if again else name
        for version in range(1 + 2 * (number == 0)):
            providers = [
                {"name": name, "weight": 10 + version + place}
                for place, name in enumerate(PROVIDERS)
            ]
            document = orjson.dumps({"version": "1.0", "providers": providers})
            await store.put(
                tenant, policy, document, replaces=version or None, author="deploy@acme.example"
            )

    await _gather([put(number) for number in range(count)])


async def _store_extensions(jetstream: JetStream, settings: Settings, count: int) -> None:
    store = ExtensionStore(DocumentBucket(jetstream, settings.buckets.extensions.name))
    kinds = ("pre", "validator", "post", "provider")
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name = (
            f"{PROVIDERS[number // 4 % len(PROVIDERS)] if kind == 'provider' else kind}-{number:03}"
        )
        entry = {"id": name, "type": kind, "subject": f"{SUBJECT_PREFIXES[kind]}{name}.v1"}
        await store.put(entry, author="deploy@acme.example")


async def _store_keys(jetstream: JetStream, settings: Settings, count: int) -> None:
    """Names and rights are of several kinds: with an end and without, for one policy or all."""
    store, day_ms = KeyStore(DocumentBucket(jetstream, settings.buckets.keys.name)), 86_400_000
    for number in range(count):
        made = make_key(
            TENANTS[number // 2 % len(TENANTS)],
            now_ms(),
            name=("billing", "search", "night jobs")[number % 3],
            expires_ms=now_ms() + 30 * day_ms if number % 2 else None,
            policies=("default", "cheap")[: number % 3],
            rate=RateLimit(20.0, 40) if number % 2 else None,
        )
        await store.put(made.key, author="deploy@acme.example", replaces=0)


async def _gather(work: Sequence[object]) -> None:
    for start in range(0, len(work), 50):
        await asyncio.gather(*work[start : start + 50])  # type: ignore[call-overload]
