"""Every subject of the contract, declared once: which messages it carries, who sends them, what
answers them.

receive    other programs send, the router (or one of its SDK's consumers) reads
send       the router sends
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from router.budgets.model.held_cost import HELD_SUBJECT
from router.bus.subjects import COMMAND_NAMES, DOMAINS, OTHER
from router.config import SUBSCRIPTIONS, Settings
from router.contracts.acknowledgement import ACKNOWLEDGEMENT_SUBJECT
from router.contracts.alert import ALERT_SUBJECT, CRITICAL, INFO, WARNING
from router.contracts.dead_letter import WORKER_DEAD_LETTER_SUBJECTS, dead_letter_subject
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
from router.contracts.ingress import INGRESS_SUBJECT
from router.contracts.provider import INVOKE, INVOKE_STREAM
from router.contracts.usage import ADJUSTED_SUBJECT, USAGE_SUBJECT
from router.extensions.model.entry import POST, PRE, PROVIDER, SUBJECT_PREFIXES, VALIDATOR
from router.operate.audit.audit_event import ADMIN_SERVICE, AUDIT_SUBJECT, CLI, CONSOLE
from router.operate.violations.events import VIOLATION_SUBJECT

RECEIVE, SEND = "receive", "send"


class ChannelSpec(Struct, frozen=True, kw_only=True):
    """One subject. `parameters`: what each `{name}` of the address may be; `reply`: the messages
    that answer, to the inbox that asked.
    """

    name: str
    address: str
    action: str
    messages: tuple[str, ...]
    text: str
    reply: tuple[str, ...] = ()
    queue: str | None = None
    has_contract_headers: bool = False
    parameters: Mapping[str, tuple[str, ...]] = {}  # the legal values; none listed: any token


def list_channels(settings: Settings) -> list[ChannelSpec]:
    """All but the operators' services."""
    return [
        *_list_decide(settings),
        *_list_work(settings),
        *_list_reports(settings),
        *_list_calls(settings),
        *_list_bus(settings),
    ]


def _list_decide(settings: Settings) -> Iterator[ChannelSpec]:
    subject = settings.decide.subject
    yield ChannelSpec(
        name="decide",
        address=subject,
        action=RECEIVE,
        messages=("decide",),
        reply=("answer",),
        text=(
            "Requests for a routing decision. The answer goes to the inbox that asked, or that "
            "the header Reply-To names."
        ),
        queue=settings.decide.deliver_group,
        has_contract_headers=True,
    )
    text = "Answers to requests that no inbox waits for."
    yield ChannelSpec(
        name="replies",
        address=settings.reply.subject or f"{subject}.reply",
        action=SEND,
        messages=("answer",),
        text=text,
    )
    yield ChannelSpec(
        name="ingress",
        address=INGRESS_SUBJECT,
        action=RECEIVE,
        messages=("ingress",),
        reply=("ingress-ack",),
        text="Messages that become decide requests; off unless `ingress.enabled`.",
        queue=settings.ingress.queue_group,
    )


def _list_work(settings: Settings) -> Iterator[ChannelSpec]:
    """Between the router and its workers."""
    for place, subject in enumerate(settings.assignment.subjects, 1):
        name = "assignments" if place == 1 else f"assignments{place}"
        text = "Work for workers, of requests with push_assignment."
        yield ChannelSpec(
            name=name,
            address=subject,
            action=SEND,
            messages=("assignment",),
            text=text,
            has_contract_headers=True,
        )
    yield ChannelSpec(
        name="acks",
        address=settings.acks.subject or ACKNOWLEDGEMENT_SUBJECT,
        action=RECEIVE,
        messages=("ack",),
        text="Whether a worker takes an assignment; off unless `acks.enabled`.",
        queue=settings.acks.deliver_group,
        has_contract_headers=True,
    )
    yield ChannelSpec(
        name="results",
        address=settings.results.subject,
        action=RECEIVE,
        messages=("result",),
        text="Outcomes of assignments; each is metered once.",
        queue=settings.results.deliver_group,
        has_contract_headers=True,
    )
    for name, subject in zip(("heartbeats", "statusHeartbeats"), HEARTBEAT_SUBJECTS, strict=True):
        yield ChannelSpec(
            name=name,
            address=subject,
            action=RECEIVE,
            messages=("heartbeat",),
            text="Workers' signs of life; not stored.",
        )
    given_up, unread = WORKER_DEAD_LETTER_SUBJECTS
    text = "Assignments that workers gave up."
    yield ChannelSpec(
        name="workerDeadLetters", address=given_up, action=RECEIVE, messages=("result",), text=text
    )
    text = "Reports of bytes that workers could not read."
    yield ChannelSpec(
        name="unreadDeadLetters",
        address=unread,
        action=RECEIVE,
        messages=("unread-report",),
        text=text,
    )


def _list_reports(settings: Settings) -> Iterator[ChannelSpec]:
    """What the router reports."""
    yield ChannelSpec(
        name="usage",
        address=USAGE_SUBJECT,
        action=SEND,
        messages=("usage",),
        text="What each outcome cost, once.",
    )
    adjusts = "What an event is corrected by, as a message of its own."
    yield ChannelSpec(
        name="usageAdjusted",
        address=ADJUSTED_SUBJECT,
        action=SEND,
        messages=("usage",),
        text=adjusts,
    )
    text, parameters = (
        "Costs that workers told above the bound, booked at it, until an operator decides.",
        {"tenant": ()},
    )
    yield ChannelSpec(
        name="held",
        address=f"{HELD_SUBJECT}.{{tenant}}",
        action=SEND,
        messages=("usage",),
        text=text,
        parameters=parameters,
    )
    severities = {"severity": (CRITICAL, WARNING, INFO)}
    text = "What operators are told; not stored."
    yield ChannelSpec(
        name="alerts",
        address=ALERT_SUBJECT,
        action=SEND,
        messages=("alert",),
        text=text,
        parameters=severities,
    )
    names = {"subscription": tuple(spec.name for spec in SUBSCRIPTIONS)}
    text = (
        "Who broke which rule of the header contract, at most so many a minute of one tenant, "
        "subject, header and rule."
    )
    yield ChannelSpec(
        name="violations",
        address=VIOLATION_SUBJECT,
        action=SEND,
        messages=("violation",),
        text=text,
        parameters=names,
    )
    text = "What operators wrote, by commands, the console or requests to a router."
    ways = {"via": (CLI, CONSOLE, ADMIN_SERVICE)}
    yield ChannelSpec(
        name="audit",
        address=AUDIT_SUBJECT,
        action=SEND,
        messages=("audit",),
        text=text,
        parameters=ways,
    )
    subjects = (settings.decide.subject, settings.results.subject, settings.acks.subject)
    dead_letters = dict.fromkeys(
        dead_letter_subject(subject, settings.dlq.subject_pattern) for subject in subjects
    )
    for place, subject in enumerate(dead_letters, 1):
        text = "Messages that failed for good."
        yield ChannelSpec(
            name=f"deadLetters{place}",
            address=subject,
            action=SEND,
            messages=("dead-letter",),
            text=text,
        )


def _list_calls(settings: Settings) -> Iterator[ChannelSpec]:
    """Providers and extensions."""
    names: Mapping[str, tuple[str, ...]] = {"id": (), "version": ()}
    queue = settings.providers.queue_group
    for name, subject, reply in (
        ("invoke", INVOKE, "provider-response"),
        ("invokeStream", INVOKE_STREAM, "chunk"),
    ):
        text = "A provider of the registry, invoked through the router."
        yield ChannelSpec(
            name=name,
            address=subject,
            action=RECEIVE,
            messages=("provider-request",),
            reply=(reply,),
            text=text,
            queue=queue,
        )
    for kind, reply in (
        (PRE, "extension-message"),
        (VALIDATOR, "extension-verdict"),
        (POST, "extension-message"),
    ):
        address, text = (
            f"{SUBJECT_PREFIXES[kind]}{{id}}.{{version}}",
            f"The router calls a {kind} extension here.",
        )
        yield ChannelSpec(
            name=f"{kind}Calls",
            address=address,
            action=SEND,
            messages=("extension-request",),
            reply=(reply,),
            text=text,
            parameters=names,
        )
    yield ChannelSpec(
        name="providerCalls",
        address=f"{SUBJECT_PREFIXES[PROVIDER]}{{id}}.{{version}}",
        action=SEND,
        messages=("provider-call",),
        reply=("provider-answer", "chunk"),
        text="The router calls a provider of the registry here.",
        parameters=names,
    )


def _list_bus(settings: Settings) -> Iterator[ChannelSpec]:
    """The envelope bus, which programs use by the SDK."""
    prefix = settings.bus.stream_prefix
    subjects: dict[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
        "busEvents": (f"{prefix}.events.{{domain}}", {"domain": (*DOMAINS.values(), OTHER)}),
        "busCommands": (f"{prefix}.commands.{{command}}", {"command": COMMAND_NAMES}),
        "busQueries": (f"{prefix}.queries.{{query}}", {"query": ()}),
    }
    for name, (address, parameters) in subjects.items():
        text = "The envelope bus, between programs that use it."
        yield ChannelSpec(
            name=name,
            address=address,
            action=RECEIVE,
            messages=("envelope",),
            text=text,
            parameters=parameters,
        )
