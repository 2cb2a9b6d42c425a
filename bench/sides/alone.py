"""Pure functions alone in a process, called with a new message or request each time. CPU µs a call."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

import orjson

from bench import requests
from bench.broker import POLICIES
from bench.child import Ready
from bench.question import Measured
from bench.sides.choosing import make_chooser
from bench.stretch import MIB, peak_bytes
from router.contracts.decision import RouteRequest
from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.core.clock import steady
from router.core.message import Message
from router.decide.model import read
from router.policies.model import (
    Averages,
    LimitedProviders,
    PolicyTable,
    ProviderBreakers,
    ProviderTracker,
    evaluate,
    load_policy,
)
from router.work.settings import ProvidersConfig

T = TypeVar("T")
KEPT = 1000  # different arguments, used in turn
TURNS = 11
FAILURES = 5  # in a row open a breaker


async def engine(ready: Ready, *, count: int) -> Measured:
    """A decision by a remembered session, and one by the draw."""
    policy = load_policy(
        (POLICIES / "_shared/default.json").read_bytes(), "_shared", "default"
    ).policy
    asked = [make_request(number) for number in range(KEPT)]

    def sticky(request: RouteRequest) -> object:
        return evaluate(policy, request, now=0.0, remembered="anthropic")

    def draw(request: RouteRequest) -> object:
        return evaluate(policy, request, now=0.0)

    times = {"sticky_us": time_each(sticky, asked, count), "draw_us": time_each(draw, asked, count)}
    return {
        **times,
        **allocated("sticky", sticky, asked),
        **allocated("draw", draw, asked),
        "peak_mib": peak_bytes() / MIB,
    }


async def choose(ready: Ready, *, count: int, states: str) -> Measured:
    """A choice as the handler makes it: session, states of the tenant's providers, engine.
    `states`: none, averages or breaker.
    """
    document = orjson.loads((POLICIES / "_shared/default.json").read_bytes())
    guarded = orjson.dumps({**document, "circuit_breaker": {"enabled": True}})
    policy = load_policy(guarded, "_shared", "default").policy
    table = PolicyTable({("_shared", "default"): policy})
    providers = _make_tracker(table)
    if states != "none":
        for provider in policy.providers:
            _observe(providers, provider.name, "success")
    if states == "breaker":
        for _ in range(FAILURES):
            _observe(providers, "openai", "timeout")
    chooser = make_chooser(states=providers.states_of, on_decision=providers.on_decision)
    asked = [make_request(number) for number in range(KEPT)]
    return {
        "choose_us": time_each(
            lambda request: chooser.choose(policy, request, steady(), None), asked, count
        ),
        "peak_mib": peak_bytes() / MIB,
    }


LEARNED = 9  # results of each provider: more than a strategy needs before it looks at them
STRATEGIES: dict[str, dict[str, object]] = {
    "least_latency": {"type": "least_latency"},
    "cheapest": {"type": "cheapest", "within": {"p95_latency_ms": 1500, "success_rate": 0.9}},
}


async def strategies(ready: Ready, *, count: int) -> Measured:
    """What a choice costs more with each strategy than by weight, without sessions; measured in
    turn, the median of the differences.
    """
    asked = [make_request(number) for number in range(KEPT)]
    by_weight, others = (
        _chooser_of(None),
        {name: _chooser_of(strategy) for name, strategy in STRATEGIES.items()},
    )
    more: dict[str, list[float]] = {name: [] for name in others}
    for _ in range(TURNS):
        base = time_each(by_weight, asked, count // TURNS)
        for name, choose_by in others.items():
            more[name].append(time_each(choose_by, asked, count // TURNS) - base)
    return {
        **{f"{name}_more_us": median(values) for name, values in more.items()},
        "peak_mib": peak_bytes() / MIB,
    }


def _chooser_of(strategy: dict[str, object] | None) -> Callable[[RouteRequest], object]:
    """Choices of a policy with this strategy, of a tenant of whose providers results have told."""
    document = orjson.loads((POLICIES / "_shared/default.json").read_bytes())
    policy = load_policy(
        orjson.dumps({**document, "sticky": None, "strategy": strategy}), "_shared", "default"
    ).policy
    table = PolicyTable({("_shared", "default"): policy})
    providers = _make_tracker(table)
    for provider in policy.providers:
        for _ in range(LEARNED):
            _observe(providers, provider.name, "success")
    figures = providers.measurements.figures_of
    chooser = make_chooser(states=providers.states_of, figures=figures)
    return lambda request: chooser.choose(policy, request, steady(), None)


def _observe(providers: ProviderTracker, name: str, status: str) -> None:
    outcome = {
        "latency_ms": 700,
        "cost": 0.01,
        "error_code": None,
        "retry_after_ms": None,
        "assignment_id": "a",
        "listed_cost": 0.01,
    }
    providers.observe(requests.TENANT, name, status=status, **outcome)  # type: ignore[arg-type]


def _make_tracker(table: PolicyTable) -> ProviderTracker:
    breakers = ProviderBreakers(table.get_all)
    return ProviderTracker(
        Averages(),
        breakers,
        LimitedProviders(breakers.blocked, ProvidersConfig().find_span_s, lambda *_: None),
    )


async def read_forms(ready: Ready, *, count: int) -> Measured:
    """`read` for each form."""
    forms = {
        "a": _message_form,
        "b": _task_form,
        "c": _beside_form,
        "d": _flat_form,
        "e": _protobuf_form,
    }
    figures = {
        f"{name}_us": time_each(read, [_message(n, form(n)) for n in range(KEPT)], count)
        for name, form in forms.items()
    }
    return {**figures, "peak_mib": peak_bytes() / MIB}


async def parse(ready: Ready, *, count: int) -> Measured:
    """orjson alone on the first form."""
    return {
        "a_us": time_each(orjson.loads, [_message_form(number) for number in range(KEPT)], count),
        "peak_mib": peak_bytes() / MIB,
    }


def time_each(call: Callable[[T], object], arguments: Sequence[T], count: int) -> float:
    for argument in arguments:
        call(argument)
    turns = max(1, count // len(arguments))
    begin = time.process_time()
    for _ in range(turns):
        for argument in arguments:
            call(argument)
    return (time.process_time() - begin) / (turns * len(arguments)) * 1e6


def allocated(name: str, call: Callable[[T], object], arguments: Sequence[T]) -> dict[str, float]:
    """blocks: of memory that one result is, kept; bytes: held at most during one call. Counted, so
    the same in every run.
    """
    kept = [call(argument) for argument in arguments]  # also: what is made once has been made
    more: list[object] = [None] * len(kept)
    gc.collect()
    before = sys.getallocatedblocks()
    for place, argument in enumerate(arguments):
        more[place] = call(argument)
    blocks = (sys.getallocatedblocks() - before) / len(more)
    tracemalloc.start()
    heights = [_height(call, argument) for argument in arguments]
    tracemalloc.stop()
    return {f"{name}_blocks": round(blocks, 2), f"{name}_bytes": median(heights)}


def _height(call: Callable[[T], object], argument: T) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    call(argument)
    return tracemalloc.get_traced_memory()[1] - before


def make_request(number: int) -> RouteRequest:
    asked = read(_message(number, requests.body(number))).asked
    assert isinstance(asked, RouteRequest)
    return asked


def _message(number: int, data: bytes) -> Message:
    headers = {
        "trace_id": requests.TRACE,
        "tenant_id": requests.TENANT,
        "version": "1",
        "Nats-Msg-Id": f"m-{number}",
    }
    return Message(
        "beamline.router.v1.decide",
        data,
        headers,
        "ROUTER_DECIDE",
        "router-decide-consumer",
        number,
        time.time_ns(),
        1,
        "",
    )


# -- the five forms --------------------------------------------------------------------------------

_TEXT = "Hello there, what is the weather like in Lisbon this afternoon?"


def _message_form(number: int) -> bytes:
    return orjson.dumps(
        {"message": {**_ids(number), "message_type": "chat", "payload": _TEXT}, **_beside(number)}
    )


def _task_form(number: int) -> bytes:
    return orjson.dumps(
        {**_ids(number), "task": {"type": "chat", "payload": _TEXT}, **_beside(number)}
    )


def _beside_form(number: int) -> bytes:
    return orjson.dumps(
        {**_ids(number), "message": {"message_type": "chat", "payload": _TEXT}, **_beside(number)}
    )


def _flat_form(number: int) -> bytes:
    return orjson.dumps(
        {**_ids(number), "message_type": "chat", "payload": _TEXT, **_beside(number)}
    )


def _protobuf_form(number: int) -> bytes:
    message = flow_pb2.Message(
        message_id=f"m-{number}",
        tenant_id=requests.TENANT,
        message_type="chat",
        payload=_TEXT.encode(),
    )
    return flow_pb2.RouteRequest(
        message=message, policy_id="default", context={"user_id": f"user-{number}"}
    ).SerializeToString()


def _ids(number: int) -> dict[str, str]:
    return {"message_id": f"m-{number}", "tenant_id": requests.TENANT, "trace_id": requests.TRACE}


def _beside(number: int) -> dict[str, object]:
    return {
        "request_id": f"r-{number}",
        "policy_id": "default",
        "context": {"user_id": f"user-{number}"},
    }
