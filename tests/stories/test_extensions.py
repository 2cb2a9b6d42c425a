"""Extensions of a live router: they hang, answer garbage, answer 2 MB, come late, go away and come
back; breakers; modes; limits.
"""

import asyncio
import itertools
import json
import time
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import Settings
from router.extensions.model import invoke
from tests.support.breakers import end_opening
from tests.support.broker import Broker
from tests.support.extension_pipeline import (
    Answer,
    Extension,
    PipelinePlace,
    a_pipeline,
    answers,
    breaks,
    hangs,
    lowers,
    marks,
    passes,
    rejects,
)
from tests.support.patient_client import connect_patiently
from tests.support.requests import a_body
from tests.support.router_streams import read_assignments
from tests.support.stories import Inboxes, a_request, ask, is_settled, read_metric
from tests.support.waiting import slack, until

GUARD = {"guard": {"kind": "validator", "timeout_ms": 100}}
# where the extension answers: a busy machine takes longer than 100 ms
PATIENT = {"guard": {"kind": "validator", "timeout_ms": 20_000}}


def _policies(**validator: object) -> dict[str, dict[str, Any]]:
    """The guard in each of its three modes, and as the third try of a retry."""
    return {
        mode: {"validators": [{"id": "guard", "on_fail": mode, **validator}]}
        for mode in ("block", "warn", "ignore")
    }


def _asks(name: object, policy: str, **fields: object) -> bytes:
    return a_request(name, policy_id=policy, **fields)


def _executed(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    told = json.loads(answer["decision"]["metadata"]["executed_extensions"])
    return [(one["type"], one["id"], one["status"]) for one in told]


async def _latency_ms(nc: Client, settings: Settings, name: str) -> float:
    """What the answer says of its only extension."""
    answer = await ask(nc, settings, _asks(name, "warn"))
    (executed,) = json.loads(answer["decision"]["metadata"]["executed_extensions"])
    return float(executed["latency_ms"])


async def test_a_request_goes_through_all_three_stages(nc: Client, at: PipelinePlace) -> None:
    """Issue 4: a live pipeline; what is assigned is what the pre-processor left."""
    kinds = {"lower": "pre", "guard": "validator", "mark": "post"}
    entries = {name: {"kind": kind, "timeout_ms": 20_000} for name, kind in kinds.items()}
    stages = {
        "pre": [{"id": "lower", "mode": "required"}],
        "validators": [{"id": "guard"}],
        "post": [{"id": "mark"}],
    }
    for kind, name, answer in (
        ("pre", "lower", lowers),
        ("validator", "guard", passes),
        ("post", "mark", marks),
    ):
        await Extension(nc, kind, name, answer).start()
    async with a_pipeline(at, entries, {"default": stages}) as (router, settings):
        answer = await ask(nc, settings, a_request(1, push_assignment=True, **a_body(payload="HI")))
        assert _executed(answer) == [
            ("pre", "lower", "ok"),
            ("validator", "guard", "ok"),
            ("post", "mark", "ok"),
        ]
        assert answer["decision"]["metadata"]["marked"] == "only"
        (assigned,) = await read_assignments(nc, settings)
        assert (assigned["job"]["payload"], assigned["decision"]) == ("hi", answer["decision"])
        assert await read_metric(router.ready.http, "router_extension_calls_total") == 3
        assert await read_metric(router.ready.http, "router_extension_seconds_count") == 3


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (hangs, "extension_timeout"),
        (answers(b"garbage"), "extension_error"),
        (answers(b'{"status":"\xff"}'), "extension_error"),
        (answers(b'{"status":"reject","details":%d}' % 2**70), "extension_error"),
        (answers(b'{"status":"ok","details":"' + b"x" * 2_000_000 + b'"}'), "extension_error"),
        (breaks, "extension_error"),
        (None, "extension_unavailable"),
    ],
    ids=[
        "hangs",
        "garbage",
        "no UTF-8",
        "a number above 64 bits",
        "2 MB",
        "breaks",
        "is not there",
    ],
)
async def test_whatever_a_validator_does_its_mode_decides(
    answer: Answer | None, cause: str, nc: Client, at: PipelinePlace
) -> None:
    """Issue 4, stories 1 and 3."""
    if answer is not None:
        await Extension(nc, "validator", "guard", answer).start()
    async with a_pipeline(at, GUARD if answer is hangs else PATIENT, _policies()) as (_, settings):
        blocked = await ask(nc, settings, _asks(1, "block"))
        assert (blocked["error"]["code"], blocked["error"]["details"]["cause"]) == (
            "validator_blocked",
            cause,
        )
        for mode in ("warn", "ignore"):
            assert _executed(await ask(nc, settings, _asks(mode, mode))) == [
                ("validator", "guard", mode)
            ]
        await until(lambda: is_settled(nc, settings))


async def test_an_answer_that_comes_too_late_answers_no_request(
    nc: Client, at: PipelinePlace
) -> None:
    """Issue 4, story 1: the late yes of one request is not the answer to the next."""
    held: list[Msg] = []

    async def holds(message: Msg) -> None:
        held.append(message)

    guard = await Extension(nc, "validator", "guard", holds).start()
    hasty = {"validators": [{"id": "guard", "on_fail": "block", "timeout_ms": 100}]}
    async with a_pipeline(at, PATIENT, {**_policies(), "hasty": hasty}) as (_, settings):
        assert (await ask(nc, settings, _asks(1, "hasty")))["error"]["details"][
            "cause"
        ] == "extension_timeout"
        guard.answer = rejects
        await passes(held[0])
        assert (await ask(nc, settings, _asks(2, "block")))["error"]["details"][
            "cause"
        ] == "rejected"


async def test_the_deadline_holds_whatever_hangs(nc: Client, at: PipelinePlace) -> None:
    """Issue 4, story 1."""
    await Extension(nc, "validator", "guard", hangs).start()
    policies = {
        "hasty": {
            "validators": [{"id": "guard", "on_fail": "ignore", "timeout_ms": 60_000, "retry": 3}],
            "timeout_ms": 200,
        }
    }
    async with a_pipeline(at, PATIENT, policies) as (_, settings):
        begin = time.monotonic()
        assert (await ask(nc, settings, _asks(1, "hasty"), timeout_s=50))["error"][
            "code"
        ] == "deadline_exceeded"
        assert time.monotonic() - begin >= 0.2


async def test_an_extension_goes_away_and_comes_back(
    nc: Client, at: PipelinePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, story 1: no responders, then a restart; a retry bridges it."""
    # 1, 2 and 4 s: it is back by then, however busy the machine is
    monkeypatch.setattr(invoke, "RETRY_PAUSE_S", 1.0)
    guard = await Extension(nc, "validator", "guard", passes).start()
    async with a_pipeline(at, PATIENT, _policies(retry=3)) as (router, settings):
        assert (await ask(nc, settings, _asks(1, "block")))["ok"]
        await guard.stop()
        asking = asyncio.ensure_future(ask(nc, settings, _asks(2, "block")))
        await until(
            lambda: ("guard", "validator", "unavailable") in router.service.metrics.extension_calls
        )
        await guard.start()
        assert (await asking)["ok"]


async def test_a_breaker_opens_probes_and_closes(nc: Client, at: PipelinePlace) -> None:
    """Issue 4, story 2: open, nothing is sent and it fails in under 5 ms; then at most three
    probes; two successes close it.
    """
    guard = await Extension(nc, "validator", "guard", breaks).start()
    held: list[Msg] = []
    names = itertools.count()

    async def holds(message: Msg) -> None:
        held.append(message)

    async def fails_at_once() -> bool:
        return await _latency_ms(nc, settings, f"open-{next(names)}") < 5

    async with a_pipeline(at, PATIENT, _policies(), extension_breaker__timeout_ms=50_000) as (
        router,
        settings,
    ):
        context = router.service._context
        assert context is not None
        for number in range(5):
            assert (await ask(nc, settings, _asks(number, "block")))["error"]["details"][
                "cause"
            ] == "extension_error"
        assert context.breakers.extension_states()["guard"]["state"] == "open"
        await until(fails_at_once)  # a busy machine may stop in one of them
        assert (await ask(nc, settings, _asks("shut", "block")))["error"]["details"][
            "cause"
        ] == "extension_unavailable"
        assert len(guard.asked) == 5

        guard.answer = holds
        assert end_opening(context.breakers.extensions.get("guard", "acme")) == pytest.approx(50.0)
        assert context.breakers.extension_states()["guard"]["state"] == "half_open"
        asking = [
            asyncio.ensure_future(ask(nc, settings, _asks(f"probe-{number}", "block")))
            for number in range(9)
        ]
        await until(
            lambda: (len(held), sum(one.done() for one in asking)) == (3, 6),
            what="three are tried, six are refused",
        )
        for probe in held:
            await breaks(probe)
        await asyncio.gather(*asking)
        assert len(guard.asked) == 8
        assert context.breakers.extension_states()["guard"]["state"] == "open"

        guard.answer = passes
        end_opening(context.breakers.extensions.get("guard", "acme"))
        assert context.breakers.extension_states()["guard"]["state"] == "half_open"
        for number in range(2):
            assert (await ask(nc, settings, _asks(f"well-{number}", "block")))["ok"]
        assert context.breakers.extension_states()["guard"]["state"] == "closed"


async def test_a_broker_that_dies_during_a_pipeline_is_not_the_extensions_fault(
    broker: Broker, at: PipelinePlace
) -> None:
    """Issue 4, story 1: the request waits for the broker and is decided then; the extension's
    breaker hears nothing of it.
    """
    # back before the router, which waits a second before it tries again
    nc = await connect_patiently(broker.url, reconnect_time_wait=0.01)
    guard = await Extension(nc, "validator", "guard", hangs).start()
    inboxes = await Inboxes.under(nc, at.prefix)
    async with a_pipeline(at, PATIENT, _policies(timeout_ms=30_000), effects__retry_ms=1000) as (
        router,
        settings,
    ):
        await inboxes.publish_named(nc, settings, 1, _asks(1, "block"))
        await until(lambda: guard.asked)
        broker.kill()
        guard.answer = passes
        broker.start()
        # the requester must be connected again to receive the answer
        await until(lambda: nc.is_connected)
        await until(lambda: inboxes.answers(1), within_s=20)
        assert [
            json.loads(answer) for answer in inboxes.answers(1) if not json.loads(answer)["ok"]
        ] == []
        context = router.service._context
        assert context is not None
        assert (
            context.health.figures("guard").failure_count,
            await read_metric(router.ready.http, "router_dlq_total"),
        ) == (0, 0)
    await nc.close()


async def test_what_a_client_says_in_its_metadata_switches_nothing_off(
    nc: Client, at: PipelinePlace
) -> None:
    """Issue 4, story 4."""
    await Extension(nc, "validator", "guard", rejects).start()
    lies = {"dry_run": True, "deadline": 0, "selected_provider": "evil"}
    async with a_pipeline(at, PATIENT, _policies()) as (_, settings):
        told = await ask(nc, settings, _asks(1, "block", metadata=lies, context=lies))
        assert told["error"]["code"] == "validator_blocked"
        passed = await ask(nc, settings, _asks(2, "warn", metadata=lies, context=lies))
        assert (passed["decision"]["provider_id"], _executed(passed)) == (
            "only",
            [("validator", "guard", "warn")],
        )


@pytest.mark.parametrize(
    ("stages", "reason", "most"),
    [
        ({"pre": 6}, "too_many_pre_processors", 5),
        ({"pre": 4, "validators": 4, "post": 3}, "pipeline_too_deep", 10),
    ],
)
async def test_too_many_extensions_are_an_invalid_request_that_names_the_limit(
    stages: dict[str, int], reason: str, most: int, nc: Client, at: PipelinePlace
) -> None:
    """Issue 4, story 6."""
    deep = {
        kind: [{"id": f"{kind}-{number}"} for number in range(count)]
        for kind, count in stages.items()
    }
    async with a_pipeline(at, {}, {"deep": deep}) as (_, settings):
        error = (await ask(nc, settings, _asks(1, "deep")))["error"]
        assert (error["code"], error["details"]["reason"], error["details"]["max"]) == (
            "invalid_request",
            reason,
            most,
        )


async def test_an_extension_that_hangs_is_given_up_while_a_common_client_still_waits(
    nc: Client, at: PipelinePlace
) -> None:
    """An entry that says nothing allows 1 500 ms; a client that gives a request two or five seconds
    hears what went wrong.
    """
    await Extension(nc, "validator", "guard", hangs).start()
    async with a_pipeline(
        at, {"guard": {"kind": "validator"}}, {"default": {"validators": [{"id": "guard"}]}}
    ) as (_, settings):
        answer = await ask(nc, settings, a_request(1), timeout_s=4.0 * slack())
    assert (answer["error"]["code"], answer["error"]["details"]["cause"]) == (
        "validator_blocked",
        "extension_timeout",
    )
