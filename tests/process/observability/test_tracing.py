"""Traces: one request is one connected trace, a replay another one that is linked to it, and
without an SDK there is nothing at all.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from nats.aio.client import Client as Nats
from opentelemetry.sdk.trace import ReadableSpan

import router.process.observability
from router import Client, ExecAssignment, StepResult, Worker
from router.config import Settings
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, NoResponders
from router.core.message import Effect, Message
from router.core.outcome import Dead, Done, Fault, Outcome
from router.delivery.wire.api import JetStream
from router.delivery.wire.calls.request_reply import ServiceReply, trace_calls
from router.delivery.wire.connection import open_head_of
from router.delivery.wire.first_connection import connect
from router.delivery.wire.frames import parse_head
from router.operate.dead_letters import read_by_filter, replay
from router.process.observability.tracing import (
    find_tracing,
    trace_dead_letter,
    trace_handler,
    trace_replay,
    trace_request,
)
from router.sdk import WorkerTopology
from router.sdk.extension import post, pre, validator
from tests.decide.test_push import Book, a_handler
from tests.support.broker import Broker
from tests.support.extension_author import serve_extension
from tests.support.extension_pipeline import PipelinePlace, a_pipeline
from tests.support.requests import TRACE, TRACEPARENT, a_body, a_message
from tests.support.router_streams import read_usage
from tests.support.sdk import a_step, run_workers
from tests.support.service import a_router, settings_for
from tests.support.stories import is_settled, read_dead_letters
from tests.support.tracing import Spans, draw_tree, record_spans
from tests.support.waiting import until

SECRET = "hunter2-do-not-tell"
DONE = Done((Effect("caf.exec.assign.v1", b"{}", "a-1", {"tenant_id": "acme"}),))
DEAD = Dead(Fault("SCHEMA_VALIDATION_FAILED", f"not {SECRET}"))


@pytest.fixture
def spans() -> Iterator[Spans]:
    with record_spans() as spans:
        yield spans


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    """The usage subject belongs to one stream, whatever the prefix."""
    return own_broker


# -- on a real server ------------------------------------------------------------------------------


async def test_one_request_is_one_connected_trace(
    spans: Spans, nc: Nats, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    """Issue 9: client, decision, three extensions, assignment, worker, its acknowledgement, result
    and usage.
    """
    lower = pre("lower")(lambda request: request.payload.lower())
    guard = validator("guard")(lambda _: None)
    mark = post("mark")(lambda _: {"marked": "yes"})
    entries = {"lower": {"kind": "pre"}, "guard": {"kind": "validator"}, "mark": {"kind": "post"}}
    stages = {
        "pre": [{"id": "lower", "mode": "required"}],
        "validators": [{"id": "guard"}],
        "post": [{"id": "mark"}],
    }
    async with (
        a_pipeline(
            PipelinePlace(nats_url, prefix, tmp_path),
            entries,
            {"default": stages},
            acks__enabled=True,
        ) as (_, settings),
        serve_extension(nats_url, lower, guard, mark),
        run_workers(_worker(nats_url, settings)),
        Client(nats_url, subject=settings.decide.subject) as client,
    ):
        answer = await client.decide(
            tenant_id="acme", message_type="chat", payload=SECRET, push=True
        )
        assert answer.ok
        await until(lambda: _is_metered(nc, settings))
        await until(lambda: spans.named(f"process {settings.acks.subject}"))

    tree = draw_tree(spans.all)
    print(tree)  # `pytest -s` shows it
    assert len(spans.traces()) == 1, tree
    assert [
        line.replace(f"{prefix}.", "").replace(prefix.upper(), "ROUTER")
        for line in tree.splitlines()
    ] == EXPECTED.splitlines()
    assert SECRET not in spans.told()


EXPECTED = """\
send beamline.router.v1.decide
└── process beamline.router.v1.decide
    ├── send beamline.ext.pre.lower.v1
    │   └── extension lower
    ├── send beamline.ext.validate.guard.v1
    │   └── extension guard
    ├── send beamline.ext.post.mark.v1
    │   └── extension mark
    └── create caf.exec.assign.v1
        ├── process caf.exec.assign.v1
        │   └── create caf.exec.result.v1
        │       └── process caf.exec.result.v1
        │           ├── create beamline.usage.v1.metered
        │           └── create $KV.ROUTER_KNOWN.acme.only.unmarked
        └── process caf.exec.assign.v1.ack"""


async def test_a_replay_is_a_trace_of_its_own_that_is_linked_to_the_one_that_failed(
    spans: Spans, nc: Nats, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix)
    async with a_router(settings_for(nats_url, prefix, tenants_allowed="another")):
        async with Client(nats_url, subject=settings.decide.subject) as client:
            assert not (
                await client.decide(tenant_id="acme", message_type="chat", payload=SECRET)
            ).ok
        await until(lambda: is_settled(nc, settings))
    (failed,) = spans.traces()
    (letter,) = await read_dead_letters(nc, settings)
    (created,) = spans.named(f"create {settings.decide.subject}.dlq")
    assert (
        (created.attributes or {})["router.dlq.reason"] == letter["reason"] == "validation_failed"
    )

    connection = await connect({"servers": [nats_url]})
    jetstream = JetStream(connection)
    report = await replay(
        jetstream, settings.streams.dlq.name, read_by_filter(jetstream, settings.streams.dlq.name)
    )
    await connection.close()
    assert report.sent == 1
    async with a_router(settings):
        await until(lambda: len(spans.named(f"process {settings.decide.subject}")) == 2)
    print(draw_tree(spans.all))
    (again,) = spans.named(f"replay {settings.decide.subject}")
    assert [link.context.trace_id for link in again.links] == [failed]
    assert _parent(spans.named(f"process {settings.decide.subject}")[1]) == again.context.span_id  # type: ignore[union-attr]
    assert len(spans.traces()) == 2
    assert SECRET not in spans.told()


def _worker(url: str, settings: Settings) -> Worker:
    async def answer(_: ExecAssignment) -> StepResult:
        return a_step()

    places = WorkerTopology(
        stream=settings.streams.assignments.name,
        attempts=settings.buckets.attempts.name,
        results=settings.results.subject,
        acks=settings.acks.subject,
    )
    return Worker(
        url, answer, worker_id="w-1", subject=settings.assignment.subjects[0], topology=places
    )


async def _is_metered(nc: Nats, settings: Settings) -> bool:
    return len(await read_usage(nc, settings)) == 1


def _parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


# -- a message and what comes of it ----------------------------------------------------------------


def _at_once(outcome: Outcome) -> Outcome:
    return outcome


async def _awaited(outcome: Outcome) -> Outcome:
    return outcome


def _later(outcome: Outcome) -> Deferred[Outcome]:
    later: Deferred[Outcome] = Deferred()
    later.resolve(outcome)
    return later


@pytest.mark.parametrize("comes", [_at_once, _awaited, _later])
async def test_an_outcome_is_the_same_however_it_comes_but_for_the_trace_of_what_it_leaves(
    spans: Spans, comes: Callable[[Outcome], object]
) -> None:
    handle = trace_handler(lambda message: comes(DONE))  # type: ignore[arg-type, return-value]
    outcome = handle(a_message(b"{}", {"traceparent": TRACEPARENT}))
    outcome = outcome if isinstance(outcome, Done) else await outcome  # type: ignore[misc]
    assert isinstance(outcome, Done)
    (effect,) = outcome.effects
    process, create = (
        spans.named("process beamline.router.v1.decide")[0],
        spans.named("create caf.exec.assign.v1")[0],
    )
    assert (_parent(create), _parent(process)) == (
        process.context.span_id,
        int(TRACEPARENT.split("-")[2], 16),
    )  # type: ignore[union-attr]
    assert effect.headers == {
        "tenant_id": "acme",
        "traceparent": f"00-{TRACE}-{create.context.span_id:016x}-01",
    }  # type: ignore[union-attr]


def test_the_handler_is_given_the_very_same_message(spans: Spans) -> None:
    """A header of ours would make the header contract hold for a message that names none of its
    headers.

    Rule: docs/reference/contracts.md#header-contract.
    """
    seen: list[Message] = []
    message = a_message(b"{}")
    trace_handler(lambda given: seen.append(given) or Done())(message)  # type: ignore[func-returns-value]
    assert seen[0] is message


@pytest.mark.parametrize("traceparent", [None, "", "00-nothing", f"00-{'0' * 32}-{'0' * 16}-01"])
def test_a_message_without_a_trace_begins_one(spans: Spans, traceparent: str | None) -> None:
    trace_handler(lambda _: Done())(
        a_message(b"{}", {} if traceparent is None else {"traceparent": traceparent})
    )
    assert [span.parent for span in spans.all] == [None]


async def test_what_fails_says_its_code_and_not_its_text(spans: Spans) -> None:
    def raises(_: Message) -> Outcome:
        raise BrokerUnavailable(SECRET)

    trace_handler(lambda _: DEAD)(a_message(b"{}"))
    with pytest.raises(BrokerUnavailable):
        trace_handler(raises)(a_message(b"{}"))
    broken: Deferred[Outcome] = Deferred()
    broken.resolve(ValueError(SECRET))
    trace_handler(lambda _: broken)(a_message(b"{}"))
    told = [(span.attributes or {})["error.type"] for span in spans.all]
    assert told == ["SCHEMA_VALIDATION_FAILED", "broker_unavailable", "ValueError"]
    assert SECRET not in spans.told()
    assert all(not span.events and not span.status.description for span in spans.all)


class Phone:
    """Calls that end as they are told to."""

    def __init__(self, end: ServiceReply | Exception) -> None:
        self.end = end
        self.sent: dict[str, str] = {}

    def head(self, headers: Mapping[str, str]) -> bytes:
        return open_head_of(headers)

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> ServiceReply:
        self.sent = parse_head(head + b"\r\n") or {}
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


@pytest.mark.parametrize("traceparent", [TRACEPARENT, None])
@pytest.mark.parametrize(
    ("end", "error"),
    [
        (ServiceReply(b"{}"), None),
        (ServiceReply(b"", 503, SECRET), "503"),
        (NoResponders(SECRET), "extension_unavailable"),
    ],
)
async def test_a_call_is_a_span_below_its_heads_trace(
    spans: Spans, end: ServiceReply | Exception, error: str | None, traceparent: str | None
) -> None:
    phone = Phone(end)
    calls = trace_calls(phone)
    head = calls.head(
        {"tenant_id": "acme"}
        if traceparent is None
        else {"traceparent": traceparent, "tenant_id": "acme"}
    )
    try:
        await calls.call("ext.x", b"{}", head, 1.0)
    except NoResponders:
        assert isinstance(end, NoResponders)
    (span,) = spans.all
    above = None if traceparent is None else int(traceparent.split("-")[2], 16)
    assert (_parent(span), (span.attributes or {}).get("error.type")) == (above, error)
    context = span.context
    assert context is not None
    assert phone.sent.keys() == {"tenant_id", "traceparent"}
    assert phone.sent["traceparent"].startswith(
        f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    )
    assert SECRET not in spans.told()


def test_a_dead_letter_gets_no_header_that_it_was_not_made_to_fit_with(spans: Spans) -> None:
    bare, traced = (
        Effect("x.dlq", b"{}", "l-1", {}),
        Effect("x.dlq", b"{}", "l-2", {"traceparent": TRACEPARENT}),
    )
    headers = [
        trace_dead_letter(lambda *_, one=one: one)(
            a_message(b"{}", one.headers), "validation_failed", DEAD.fault
        ).headers  # type: ignore[union-attr]
        for one in (bare, traced)
    ]
    assert (headers[0], len(headers[1]["traceparent"])) == ({}, len(TRACEPARENT))


# -- without an SDK --------------------------------------------------------------------------------


def test_without_an_sdk_everything_is_what_it_was() -> None:
    """Not a wrapper that does nothing: the very same objects."""
    headers = {"a": "b"}
    phone, effects = Phone(ServiceReply(b"")), [DONE.effects[0]]

    def handle(_: Message) -> Outcome:
        return DONE

    def letter(*_: object) -> Effect | None:
        return None

    assert find_tracing() is None
    assert trace_handler(handle) is handle
    assert trace_dead_letter(letter) is letter
    assert trace_calls(phone) is phone
    assert trace_replay(effects) is effects
    with trace_request("x", headers) as carried:
        assert carried is headers


def test_a_decision_without_an_sdk_makes_the_same_calls_as_ever() -> None:
    """Every Python call of a decision, counted: through the consumer's handler as through the
    handler itself, and none of them traces.
    """
    handler = a_handler(Book())
    _, plain, traced = (  # the first fills what is worked out once
        _calls(lambda n=n, handle=handle: handle(a_message({**a_body(), "request_id": f"{n}"})))
        for n, handle in enumerate((handler, handler, trace_handler(handler)))
    )
    assert plain == traced
    assert len(plain) > 10
    assert not [name for name in plain if "router/process/observability" in name]


def _calls(work: Callable[[], object]) -> list[str]:
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    # once a second, or the first time: it belongs to none of the decisions
    return [name for name in seen if not name.endswith(":_remove_expired")]


def test_nothing_of_opentelemetry_is_imported_before_it_is_asked_for() -> None:
    """Import-linter knows the files that may import it; here: none does when it is loaded."""
    home = Path(router.process.observability.__file__).parent
    for file in (
        *home.glob("tracing*.py"),
        home.parents[1] / "delivery" / "wire" / "calls" / "request_reply.py",
    ):
        loaded = [
            node
            for node in ast.parse(file.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        names = [getattr(node, "module", None) or node.names[0].name for node in loaded]
        assert names
        assert not [name for name in names if name.startswith("opentelemetry")]
