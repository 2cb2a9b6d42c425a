"""The handlers of every contract, joined as the app joins them, without a broker: called with bytes
and headers, whether they said no.

What a handler answers, stores and leaves as a dead letter is written and read back. What it raises
beyond what its reader declares breaks it, and so does a usage event that the lake would not take. A
factory makes each anew, in the process that feeds it.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import Message as Protobuf
from msgspec.structs import replace

from router.config import Settings
from router.contracts import acknowledgement, result
from router.contracts.assignment import assignment_id_of
from router.contracts.assignment_record import build_record
from router.contracts.dead_letter import build_dead_letter
from router.contracts.decision import Decision
from router.contracts.extract import extract_ids
from router.contracts.malformed import Malformed
from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.contracts.pb.beamline.ingress.v1 import ingress_pb2
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2
from router.contracts.provider_request import read_request as read_invocation
from router.contracts.stored_record import record_bytes
from router.contracts.worker import MessageType
from router.core.deferred import Deferred
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Dead, Done
from router.decide.ingress_server import IngressHandler
from router.decide.model import NewAssignment
from router.decide.model.handler import reply_to
from router.delivery.wire.api import JetStream
from router.extensions.model import ExtensionRegistry, Invoker, PipelineRunner, parse_entry
from router.extensions.model.ports import NULL_METER
from router.lake.tables.body import read_event
from router.operate.alerts import Alerts
from router.policies.model import (
    Policy,
    PolicyError,
    PolicyTable,
    evaluate,
    load_policy,
    read_session,
)
from router.process.observability import Metrics, render
from router.serve.app_context import AppContext
from router.serve.decide_subscription import build_decide_handler, build_decide_rules
from router.serve.subscriptions import build_acknowledgement_handler, build_results_handler
from router.work.model import AssignmentCache
from router.work.workers import Workers
from tests.rigs.fuzz import decoders
from tests.rigs.fuzz.decoders import DECODERS, POLICY
from tests.rigs.fuzz.feeding import read_any_json
from tests.support.pipelines import FakeReply, an_entry, piped_policy
from tests.support.policy import a_policy, a_provider, a_request, a_rule
from tests.support.requests import GOOD_HEADERS, a_message, every_form
from tests.support.workers import (
    ACKS,
    ASSIGNED,
    NOW_MS,
    RESULTS,
    an_ack,
    an_assignment,
    in_every_form,
)

Headers = Mapping[str, str]
Serve = Callable[[bytes, Headers], bool]  # whether it was refused

# so that what grows is seen soon
SMALL = {"idempotency": {"entries": 1_000}, "policies": {"sessions_entries": 1_000}, "recorder": {}}
LARGEST_PAGE = 2 * 1024 * 1024
LONGEST_ERROR = 100_000
REQUIRED = {
    "pre": {"id": "one", "mode": "required"},
    "validator": {"id": "one", "on_fail": "block"},
    "post": {"id": "one", "mode": "required"},
}


class Sent(NamedTuple):
    """A good message: JSON, or a protobuf message."""

    body: bytes | Protobuf
    headers: Headers = NO_HEADERS


class Contract(NamedTuple):
    """`make` gives what serves it, and what has to hold when all was served."""

    seeds: tuple[Sent, ...]
    make: Callable[[], tuple[Serve, Callable[[], None]]]


class NoBroker:
    """Whatever is published is gone; whatever is looked up is not there."""

    is_connected = True
    reconnect_count = 0

    def new_inbox(self) -> str:
        return "_INBOX.none"

    def publish_nowait(self, *_: object) -> None: ...


class Instance:
    """One instance's memories, metrics and handlers."""

    def __init__(self) -> None:
        self.settings = Settings.model_validate(SMALL)
        self.metrics = Metrics()
        self.connection: Any = NoBroker()
        alerts = Alerts("node", 60.0)
        alerts.attach(self.connection)
        jetstream = JetStream(self.connection)
        self.context = AppContext(
            self.settings,
            self.metrics,
            alerts,
            PolicyTable({("acme", name): RICH for name in ("default", "gold")}),
            jetstream,
        )
        self.context.assignments = AssignmentCache(_not_there)
        for known in (an_assignment(), _followed()):
            self.context.assignments.keep(known)
        self.context.assignment_store = NoBook()  # type: ignore[assignment]
        self.workers = Workers(self.metrics, alerts)

    def check(self) -> None:
        """Nothing that was told made the page of metrics large."""
        assert len(render(self.metrics.registry.snapshot(), process=False)) < LARGEST_PAGE


class NoBook:
    """No record stands anywhere: what is created is what there is."""

    async def find(self, _: str) -> bytes | None:
        return None

    def create(self, _: str, new: NewAssignment) -> Deferred[bytes]:
        created: Deferred[bytes] = Deferred()
        created.resolve(new.data)
        return created


class Caller:
    """Extensions that answer whatever the fuzz says."""

    def __init__(self) -> None:
        self.answer = b"{}"

    def head(self, headers: Headers) -> bytes:
        return orjson.dumps(dict(headers))

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> FakeReply:
        return FakeReply(self.answer)


# -- the router's consumers


def _decide() -> tuple[Serve, Callable[[], None]]:
    instance = Instance()
    return _serve(
        build_decide_handler(instance.context), None, "beamline.router.v1.decide", "ROUTER_DECIDE"
    ), instance.check


def _results() -> tuple[Serve, Callable[[], None]]:
    instance = Instance()
    return _serve(
        build_results_handler(instance.context), result.RESULT, RESULTS, "ROUTER_RESULTS"
    ), instance.check


def _acks() -> tuple[Serve, Callable[[], None]]:
    instance = Instance()
    return _serve(
        build_acknowledgement_handler(instance.context),
        acknowledgement.EXEC_ASSIGNMENT_ACK,
        ACKS,
        "ROUTER_ACKS",
    ), instance.check


def _serve(
    handler: Callable[[Message], Any], kind: MessageType | None, subject: str, stream: str
) -> Serve:
    loop, sequences = asyncio.new_event_loop(), itertools.count(1)

    def serve(data: bytes, headers: Headers) -> bool:
        message = a_message(
            data,
            headers,
            subject=subject,
            stream=stream,
            sequence=next(sequences),
            stored_ns=time.time_ns(),
        )
        assert len(extract_ids(message, kind).get("tenant_id", "")) <= 128
        outcome = handler(message)
        if isinstance(outcome, Deferred | Awaitable):
            outcome = loop.run_until_complete(_awaited(outcome))
        return _look_at(message, outcome, kind)

    return serve


async def _awaited(outcome: Any) -> Any:
    return await outcome


def _look_at(message: Message, outcome: Any, kind: MessageType | None) -> bool:
    """All that would be sent can be read; whether it was refused."""
    if isinstance(outcome, Dead):
        letter = build_dead_letter(
            message,
            outcome.reason,
            outcome.fault,
            node_id="n",
            now_ms=1,
            max_bytes=1 << 20,
            seen=extract_ids(message, kind),
        )
        read_any_json(letter.data)
        return True
    if not isinstance(outcome, Done):
        return True
    for effect in outcome.effects:
        read_any_json(effect.data)
        if effect.subject == "beamline.usage.v1.metered":
            orjson.loads(effect.data)  # Spark reads doubles
            assert read_event(effect.data, message.stored_ms) is not None, effect.data[:1000]
    if outcome.reply is not None and outcome.reply.data[:1] == b"{":
        return not read_any_json(outcome.reply.data)["ok"]
    if outcome.reply is not None:
        flow_pb2.RouteDecision.FromString(outcome.reply.data)
    return False


def _heartbeats() -> tuple[Serve, Callable[[], None]]:
    instance = Instance()
    workers, refused = instance.workers, instance.metrics.heartbeats_refused

    def serve(data: bytes, headers: Headers) -> bool:
        before = refused.value
        workers.on_heartbeat("caf.worker.heartbeat.v1", "", data, dict(headers))
        workers.report_silent()
        return refused.value > before

    return serve, instance.check


def _ingress() -> tuple[Serve, Callable[[], None]]:
    instance, loop = Instance(), asyncio.new_event_loop()
    stored: list[Message] = []

    async def store(data: bytes, headers: Headers) -> int:
        stored[:] = [a_message(data, headers)]
        return 1

    handler = IngressHandler(
        build_decide_rules(instance.settings), "beamline.router.v1.decide", store
    )

    def serve(data: bytes, headers: Headers) -> bool:
        acknowledgement = loop.run_until_complete(handler.handle(data, headers))
        return acknowledgement.status != "accepted"

    return serve, instance.check


# -- what extensions, providers and people write


def _extension(kind: str) -> Callable[[], tuple[Serve, Callable[[], None]]]:
    def make() -> tuple[Serve, Callable[[], None]]:
        registry, caller, loop = ExtensionRegistry(), Caller(), asyncio.new_event_loop()
        registry.replace([parse_entry(an_entry("one", kind))])
        extensions = PipelineRunner(
            registry, Invoker(caller, None, None, NULL_METER), meter=NULL_METER
        )  # type: ignore[arg-type]  # without a breaker: each answer is read
        stage = {"pre": "pre", "validator": "validators", "post": "post"}[kind]
        policy, request = piped_policy(**{stage: [REQUIRED[kind]]}), a_request(user="u-1")  # type: ignore[arg-type]

        def serve(data: bytes, _: Headers) -> bool:
            caller.answer = data
            piped = loop.run_until_complete(
                extensions.run(
                    policy,
                    request,
                    lambda changed: evaluate(policy, changed, now=0.0),
                    deadline=loop.time() + 30,
                )
            )
            read_any_json(reply_to(request, piped.answer).data)
            return not isinstance(piped.answer, Decision)

        return serve, lambda: None

    return make


def _policies() -> tuple[Serve, Callable[[], None]]:
    requests = [a_request("r-1", user_id="u-1", a=1), a_request("r-2", a=["x"] * 100, user_id=5)]

    def serve(data: bytes, _: Headers) -> bool:
        policy = _policy_in(data)
        if policy is None:
            return True
        for request in requests:
            if policy.sticky is not None:
                read_session(policy.sticky.session_key, request)
            answer = evaluate(policy, request, now=0.0)
            for wants in (False, True) if isinstance(answer, Decision) else (False,):
                reply_to(replace(request, wants_protobuf=wants), answer)
            if isinstance(answer, Decision):
                read_any_json(
                    record_bytes(
                        build_record(
                            ASSIGNED,
                            request,
                            answer,
                            subject="caf.exec.assign.v1",
                            traceparent=None,
                            content=None,
                            requested_at_ms=0,
                        )
                    )
                )
        return False

    return serve, lambda: None


def _policy_in(data: bytes) -> Policy | None:
    try:
        return load_policy(data, "acme", "default").policy
    except PolicyError as exc:
        told = str(exc)
    assert len(told) < LONGEST_ERROR
    return None


def _invocations() -> tuple[Serve, Callable[[], None]]:
    def serve(data: bytes, headers: Headers) -> bool:
        try:
            read_invocation(data, headers)
        except Malformed:
            return True
        return False

    return serve, lambda: None


def _decoder(name: str) -> Callable[[], tuple[Serve, Callable[[], None]]]:
    """A reader of `decoders`, by its own errors."""

    def make() -> tuple[Serve, Callable[[], None]]:
        decoder = DECODERS[name]

        def serve(data: bytes, headers: Headers) -> bool:
            try:
                return decoder.is_refusal(decoder.read(data, headers))
            except decoder.refuses:
                return True

        return serve, lambda: None

    return make


def _not_there(_: str) -> Deferred[bytes | None]:
    later: Deferred[bytes | None] = Deferred()
    later.resolve(None)
    return later


def _followed() -> Any:
    """An assignment whose post-processor wrote a number that no handler bears."""
    decision = Decision(
        "openai",
        "weighted",
        50,
        800,
        0.01,
        {"policy_id": "default", "policy_version": "1", "attempts": "9" * 5000},
    )
    return an_assignment(
        assignment_id=assignment_id_of("acme", "r-0"), request_id="r-0", decision=decision
    )


RICH = a_policy(
    a_provider("openai", 70, expected_latency_ms=800, expected_cost=0.012),
    a_provider("anthropic", 30, priority=10),
    sticky={"enabled": True, "session_key": "user_id", "ttl": "10m"},
    fallbacks=[a_rule("anthropic", {"status": ["timeout", "5xx"]}, retry=2)],
    circuit_breaker={"enabled": True, "failure_threshold": 5, "timeout_ms": 30000},
)
PROTOBUF = {"Accept": "application/x-protobuf"}
FLOW = flow_pb2.RouteRequest(
    message=flow_pb2.Message(
        tenant_id="acme", message_type="chat", payload=b"hello", metadata={"a": "b"}
    ),
    context={"user_id": "u-1"},
)
RESULT = result_pb2.ExecResult(
    assignment_id=ASSIGNED, request_id="r-1", status="success", provider_id="openai", latency_ms=812, cost=0.01, tenant_id="acme",
    job=result_pb2.Job(type="chat"), timestamp=NOW_MS,
)  # fmt: skip
ACK = ack_pb2.ExecAssignmentAck(assignment_id=ASSIGNED, status="accepted", tenant_id="acme")
INGRESS = ingress_pb2.IngressMessage(message_id="m-1", tenant_id="acme", payload=b"{}")
INVOCATION = provider_pb2.ProviderRequest(provider_id="mine", tenant_id="acme", body=b"hi")


def _json(*bodies: Any, headers: Headers = NO_HEADERS) -> tuple[Sent, ...]:
    return tuple(
        Sent(one if isinstance(one, bytes) else orjson.dumps(one), headers) for one in bodies
    )


def _decide_seeds(form: str) -> tuple[Sent, ...]:
    """Most without an id of their own: each is a request by itself, and not the one before with
    other bytes.
    """
    pushed = orjson.loads(every_form()[form].data)
    asked = {
        name: value
        for name, value in pushed.items()
        if name not in ("request_id", "message_id", "push_assignment")
    }
    if "message" in asked:
        asked["message"] = {
            name: value for name, value in asked["message"].items() if name != "message_id"
        }
    follows = {**asked, "context": {"previous_request_id": "r-0", "status": "timeout"}}
    limits = {
        **asked,
        "constraints": {"max_latency_ms": 1000, "max_cost": 0.5, "provider_id": "openai"},
    }
    headers = {name: value for name, value in GOOD_HEADERS.items() if name != "Nats-Msg-Id"}
    return (
        *_json(pushed, limits | {"idempotency_key": "k-1"}, headers=GOOD_HEADERS),
        *_json(asked, follows, limits, {**asked, "push_assignment": True}, headers=headers),
        *_json(asked, limits, headers=PROTOBUF),
        *_json(asked),
    )


def _decoded(*names: str) -> dict[str, Contract]:
    return {
        name: Contract(
            tuple(Sent(seed.data, seed.headers) for seed in DECODERS[name].seeds), _decoder(name)
        )
        for name in names
    }


CONTRACTS: dict[str, Contract] = {
    **{f"decide, form {form}": Contract(_decide_seeds(form), _decide) for form in "abcd"},
    "decide, protobuf": Contract(
        (
            Sent(FLOW),
            Sent(FLOW, PROTOBUF),
            Sent(FLOW, {"push_assignment": "true", "request_id": "r-1"}),
        ),
        _decide,
    ),
    "result, JSON": Contract(
        _json(
            *(in_every_form(timestamp=NOW_MS)[form].data for form in ("json", "envelope")),
            headers=GOOD_HEADERS,
        ),
        _results,
    ),
    "result, protobuf": Contract((Sent(RESULT, GOOD_HEADERS), Sent(RESULT)), _results),
    "ack, JSON": Contract(
        _json(an_ack(tenant_id="acme", acknowledged_at=1).data, headers=GOOD_HEADERS), _acks
    ),
    "ack, protobuf": Contract((Sent(ACK), Sent(ACK, GOOD_HEADERS)), _acks),
    "heartbeat": Contract(
        _json(decoders.BEAT, {"version": "1", "kind": "heartbeat", "data": decoders.BEAT}),
        _heartbeats,
    ),
    "ingress, JSON": Contract(_json(decoders.INGRESS, headers=GOOD_HEADERS), _ingress),
    "ingress, protobuf": Contract((Sent(INGRESS), Sent(INGRESS, GOOD_HEADERS)), _ingress),
    "extension, pre-processor's answer": Contract(_json(decoders.CHANGED), _extension("pre")),
    "extension, validator's answer": Contract(
        _json(decoders.JUDGED, {"status": "ok"}, {"valid": True}), _extension("validator")
    ),
    "extension, post-processor's answer": Contract(_json(decoders.CHANGED), _extension("post")),
    "policy": Contract(_json(POLICY, decoders.OLD_POLICY), _policies),
    "provider, invocation in protobuf": Contract(
        (Sent(INVOCATION), Sent(INVOCATION, GOOD_HEADERS)), _invocations
    ),
    **_decoded(
        *(
            "policy document, as it is put",
            "extension entry",
            "extension record in its bucket",
            "provider: invocation",
            "provider: answer",
        ),
        *(
            "provider: stream piece",
            "provider: chunk, as a client reads it",
            "provider: response, as a client reads it",
            "admin request",
        ),
        *(
            "assignment, as a worker reads it",
            "assignment record in its bucket",
            "extension: request, as its author reads it",
        ),
        *(
            "bus envelope",
            "agent envelope",
            "inbox event",
            "dead letter",
            "decision, as a client reads it",
        ),
    ),
}
