"""The pipeline of one request: order, what is changed by whom, modes, conditions, deadline, dry
runs.
"""

import asyncio

import orjson
import pytest

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.raw_json import RawJson
from router.core.errors import BrokerUnavailable, NoResponders
from router.extensions.model import (
    ExtensionRegistry,
    Invoker,
    NullCaller,
    PipelineRunner,
    PipelineSlots,
)
from router.extensions.model.ports import NULL_METER
from router.policies.model import evaluate
from tests.support.pipelines import (
    FakeExtensions,
    FakeReply,
    decision,
    echo,
    in_turn,
    late,
    ok,
    piped_policy,
    refusal,
    reject,
    says,
    statuses,
)
from tests.support.policy import a_policy, a_provider, a_request


def a_world() -> FakeExtensions:
    world = FakeExtensions(lower=says("hi", lang="en"), guard=ok, mask=says(masked="yes"))
    return world.register(lower="pre", guard="validator", mask="post")


FULL = {"pre": ["lower"], "validators": ["guard"], "post": ["mask"]}


async def test_all_stages_run_in_their_order_and_are_told_in_the_decision() -> None:
    world = a_world()
    piped = await world.run(piped_policy(**FULL))
    expected = [("pre", "lower", "ok"), ("validator", "guard", "ok"), ("post", "mask", "ok")]
    assert statuses(piped) == expected
    told = orjson.loads(decision(piped).metadata["executed_extensions"])
    assert [(one["type"], one["id"], one["status"]) for one in told] == expected
    assert all(isinstance(one["latency_ms"], float) for one in told)


async def test_each_extension_is_asked_with_its_ids_config_and_deadline() -> None:
    world = a_world()
    policy = piped_policy(pre=[{"id": "lower", "config": {"lowercase": True}}])
    await world.run(policy, a_request(user="u-1"), deadline=1.0)
    (asked,) = world.asked
    assert asked.subject == "beamline.ext.pre.lower.v1"
    assert (asked.body["tenant_id"], asked.body["config"]) == ("acme", {"lowercase": True})
    assert asked.body["payload"] == {
        "message_id": "r-1",
        "message_type": "chat",
        "payload": {"text": "hi"},
        "metadata": {},
    }
    assert asked.body["metadata"] == {"user": "u-1", "policy_id": "default"}
    assert asked.headers == {
        "tenant_id": "acme",
        "trace_id": asked.body["trace_id"],
        "Router-Deadline-Ms": "1000",
    }


async def test_a_pre_processor_replaces_the_message_and_adds_to_the_context() -> None:
    world = a_world()
    piped = await world.run(piped_policy(**FULL), a_request(user="u-1"))
    guard = world.asked[1].body
    assert (guard["payload"]["payload"], guard["metadata"]["lang"]) == ("hi", "en")
    assert (piped.request.payload, piped.request.context) == (
        RawJson.encode("hi"),
        {"user": "u-1", "lang": "en"},
    )


async def test_what_an_extension_sends_back_is_no_news() -> None:
    world = FakeExtensions(same=echo, mark=echo).register(same="pre", mark="post")
    before = a_request(user="u-1")
    piped = await world.run(piped_policy(pre=["same"], post=["mark"]), before)
    assert piped.request == before
    assert decision(piped).metadata.keys() == {"policy_id", "policy_version", "executed_extensions"}


async def test_the_decision_sees_what_a_pre_processor_says() -> None:
    world = FakeExtensions(judge=says(status="timeout")).register(judge="pre")
    policy = piped_policy(
        pre=["judge"], fallbacks=[{"when": {"status": "timeout"}, "retry": 0, "to": "spare"}]
    )
    assert decision(await world.run(policy)).provider_id == "spare"


async def test_no_extension_changes_tenant_ids_policy_or_constraints() -> None:
    own = {
        "tenant_id": "evil",
        "policy_id": "other",
        "request_id": "r-9",
        "max_cost": 0,
        "dry_run": True,
        "deadline": 0,
    }
    world = FakeExtensions(
        liar=lambda body: {"payload": {**body["payload"], "message_id": "m-9"}, "metadata": own}
    ).register(liar="pre")
    before = a_request()
    piped = await world.run(piped_policy(pre=["liar"]), before)
    after = piped.request
    assert (
        after.tenant_id,
        after.policy_id,
        after.request_key,
        after.answer_id,
        after.message_id,
        after.constraints,
    ) == (
        before.tenant_id,
        before.policy_id,
        before.request_key,
        before.answer_id,
        before.message_id,
        before.constraints,
    )
    assert decision(piped).metadata["policy_id"] == "default"


async def test_a_post_processor_sees_the_decision_and_only_adds_text_to_its_metadata() -> None:
    world = FakeExtensions(
        mask=says("changed", policy_id="mine", policy_version="9", note="seen", user="u-1")
    ).register(mask="post")
    piped = await world.run(piped_policy(post=["mask"]), a_request(user="u-1"))
    assert world.asked[0].body["metadata"]["decision"]["provider_id"] == "only"
    metadata = dict(decision(piped).metadata)
    metadata.pop("executed_extensions")
    assert metadata == {"policy_id": "default", "policy_version": "1", "note": "seen"}
    assert piped.request.payload == RawJson.encode({"text": "hi"})


@pytest.mark.parametrize("asked", [{}, {"model": "m-1", "parameters": {"stop": []}}], ids=str)
async def test_no_extension_says_what_a_provider_is_asked_with(asked: dict[str, object]) -> None:
    lies = {"model": "dearest", "parameters": "{}", "note": "seen"}
    world = FakeExtensions(before=says("x", model="m-9"), after=says("x", **lies))
    world.register(before="pre", after="post")
    policy = a_policy(a_provider("only", **asked), pre=[{"id": "before"}], post=[{"id": "after"}])
    metadata = decision(await world.run(policy)).metadata
    assert metadata["note"] == "seen"
    assert metadata.get("model") == asked.get("model")
    assert metadata.get("parameters") == ('{"stop":[]}' if asked else None)


async def test_a_post_processor_that_adds_what_is_no_text_has_failed() -> None:
    world = FakeExtensions(mask=says(count=3)).register(mask="post")
    code, details = refusal(
        await world.run(piped_policy(post=[{"id": "mask", "mode": "required"}]))
    )
    assert (code, details["cause"]) == ("post_processor_failed", "extension_error")


# -- modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pre", "post"])
async def test_a_required_processor_that_fails_ends_the_pipeline(kind: str) -> None:
    world = FakeExtensions(slow=late).register(slow=kind)
    code, details = refusal(
        await world.run(piped_policy(**{kind: [{"id": "slow", "mode": "required"}]}))
    )
    assert (code, details["cause"], details["extension"]) == (
        f"{kind}_processor_failed",
        "extension_timeout",
        "slow",
    )


async def test_an_optional_processor_that_fails_is_a_warning() -> None:
    world = FakeExtensions(slow=late, guard=ok).register(slow="pre", guard="validator")
    piped = await world.run(piped_policy(pre=["slow"], validators=["guard"]))
    assert statuses(piped) == [("pre", "slow", "warn"), ("validator", "guard", "ok")]
    assert world.warned == [("slow", "extension_timeout")]
    assert decision(piped).provider_id == "only"


@pytest.mark.parametrize(
    "answer",
    [
        reject,
        lambda _: {"valid": False, "reason": "pii_detected", "details": {"pattern": "credit_card"}},
    ],
)
async def test_a_validator_that_rejects_blocks(answer: object) -> None:
    world = FakeExtensions(guard=answer).register(guard="validator")  # type: ignore[arg-type]
    code, details = refusal(await world.run(piped_policy(validators=["guard"])))
    assert code == "validator_blocked"
    assert details == {
        "cause": "rejected",
        "extension": "guard",
        "reason": "pii_detected",
        "details": {"pattern": "credit_card"},
    }


@pytest.mark.parametrize(
    ("on_fail", "warnings"), [("warn", [("guard", "rejected")]), ("ignore", [])]
)
async def test_a_validator_that_only_warns_or_is_ignored_lets_the_request_pass(
    on_fail: str, warnings: list[tuple[str, str]]
) -> None:
    world = FakeExtensions(guard=reject).register(guard="validator")
    piped = await world.run(piped_policy(validators=[{"id": "guard", "on_fail": on_fail}]))
    assert statuses(piped) == [("validator", "guard", on_fail)]
    assert world.warned == warnings
    assert decision(piped).provider_id == "only"


async def test_a_validator_that_fails_follows_the_same_mode() -> None:
    world = FakeExtensions(guard=late).register(guard="validator")
    code, details = refusal(await world.run(piped_policy(validators=["guard"])))
    assert (code, details["cause"]) == ("validator_blocked", "extension_timeout")
    assert statuses(
        await world.run(piped_policy(validators=[{"id": "guard", "on_fail": "ignore"}]))
    ) == [("validator", "guard", "ignore")]


async def test_an_extension_that_is_not_registered_is_not_found() -> None:
    code, details = refusal(
        await FakeExtensions().run(piped_policy(pre=[{"id": "lower", "mode": "required"}]))
    )
    assert (code, details["cause"]) == ("pre_processor_failed", "extension_not_found")


async def test_an_extension_whose_condition_does_not_hold_is_skipped() -> None:
    world = a_world()
    policy = piped_policy(pre=[{"id": "lower", "when": {"lang": "de"}}])
    skipped = await world.run(policy, a_request(lang="en"))
    assert statuses(skipped) == [("pre", "lower", "skipped")]
    assert [one.latency_ms for one in skipped.executed] == [0.0]
    assert world.asked == []
    assert statuses(await world.run(policy, a_request(lang="de"))) == [("pre", "lower", "ok")]


# -- side by side ----------------------------------------------------------------------------------


async def test_neighbours_run_side_by_side_when_the_policy_says_so() -> None:
    both = asyncio.Barrier(2)

    async def meets(body: dict[str, object], **metadata: str) -> object:
        await both.wait()  # alone it would wait for ever
        return {"payload": body["payload"], "metadata": metadata}

    world = FakeExtensions(
        a=lambda body: meets(body, a="1"), b=lambda body: meets(body, b="2")
    ).register(a="pre", b="pre")
    piped = await asyncio.wait_for(world.run(piped_policy(pre=["a", "b"], parallel=True)), 60)
    assert piped.request.context == {"a": "1", "b": "2"}


async def test_side_by_side_what_one_changed_outlives_what_the_other_left_alone() -> None:
    world = FakeExtensions(a=says("changed"), b=echo).register(a="pre", b="pre")
    assert (
        await world.run(piped_policy(pre=["a", "b"], parallel=True))
    ).request.payload == RawJson.encode("changed")


async def test_side_by_side_the_first_of_the_document_that_refuses_is_the_answer() -> None:
    world = FakeExtensions(a=ok, b=reject, c=late).register(
        a="validator", b="validator", c="validator"
    )
    piped = await world.run(piped_policy(validators=["a", "b", "c"], parallel=True))
    assert refusal(piped)[1]["extension"] == "b"
    assert len(piped.executed) == 3


async def test_side_by_side_a_broker_that_is_away_is_told_as_one_error() -> None:
    world = FakeExtensions(a=lambda _: BrokerUnavailable("away"), b=ok).register(
        a="validator", b="validator"
    )
    with pytest.raises(BrokerUnavailable):
        await world.run(piped_policy(validators=["a", "b"], parallel=True))


# -- the deadline ----------------------------------------------------------------------------------


async def test_when_the_time_is_over_no_further_extension_is_called() -> None:
    world = a_world()
    world.call_s = 0.6
    code, _ = refusal(await world.run(piped_policy(**FULL), deadline=1.0))
    assert code == "deadline_exceeded"
    assert [asked.timeout_s for asked in world.asked] == pytest.approx([1.0, 0.4])


@pytest.mark.parametrize("mode", ["required", "optional"])
async def test_a_timeout_at_the_deadline_is_the_deadline_whatever_the_mode(mode: str) -> None:
    world = FakeExtensions(slow=late).register(slow="pre")
    code, _ = refusal(
        await world.run(piped_policy(pre=[{"id": "slow", "mode": mode}]), deadline=1.0)
    )
    assert code == "deadline_exceeded"
    assert world.now == 1.0


# -- limits, slots, dry runs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ({"pre": 6}, "too_many_pre_processors"),
        ({"pre": 4, "validators": 4, "post": 3}, "pipeline_too_deep"),
    ],
)
async def test_a_pipeline_that_is_too_deep_is_refused_before_any_call(
    kinds: dict[str, int], reason: str
) -> None:
    world = FakeExtensions()
    policy = piped_policy(
        **{kind: [f"{kind}{number}" for number in range(count)] for kind, count in kinds.items()}
    )
    code, details = refusal(await world.run(policy))
    assert (code, details["reason"]) == ("invalid_request", reason)
    assert world.asked == []


async def test_when_slots_and_queue_are_full_the_next_one_is_overloaded() -> None:
    go = asyncio.Event()

    async def waits(_: dict[str, object]) -> object:
        await go.wait()
        return {"status": "ok"}

    world = FakeExtensions(guard=waits).register(guard="validator")
    policy, extensions = (
        piped_policy(validators=["guard"]),
        world.extensions(slots=PipelineSlots(2, 2)),
    )

    def run() -> "asyncio.Task[object]":
        return asyncio.ensure_future(
            extensions.run(
                policy, a_request(), lambda r: evaluate(policy, r, now=0.0), deadline=9.0
            )
        )

    first, second, third = run(), run(), run()
    assert refusal(await third) == ("overloaded", {"retry_after_ms": 1000})  # type: ignore[arg-type]
    go.set()
    assert decision(await first)  # type: ignore[arg-type]
    assert decision(await second)  # type: ignore[arg-type]


async def test_a_policy_of_high_priority_takes_the_place_of_a_request_that_waits_and_goes_before_the_others() -> (
    None
):
    go, decided = asyncio.Event(), list[str]()

    async def waits(_: dict[str, object]) -> object:
        await go.wait()
        return {"status": "ok"}

    world = FakeExtensions(guard=waits).register(guard="validator")
    extensions = world.extensions(slots=PipelineSlots(2, 4))

    def run(name: str, **sections: object) -> "asyncio.Task[object]":
        policy = piped_policy(validators=["guard"], **sections)

        def decide(request: RouteRequest) -> Decision | Refusal:
            decided.append(name)
            return evaluate(policy, request, now=0.0)

        return asyncio.ensure_future(extensions.run(policy, a_request(), decide, deadline=9.0))

    first, second, third, urgent = (
        run("first"),
        run("second"),
        run("third"),
        run("urgent", priority="high"),
    )
    assert refusal(await third)[0] == "overloaded"  # type: ignore[arg-type]
    go.set()
    await asyncio.gather(first, second, urgent)
    assert decided == ["first", "urgent", "second"]


async def test_a_dry_run_skips_every_extension_and_leaves_the_payload() -> None:
    world, policy = a_world(), piped_policy(**FULL)
    piped = await world.extensions().dry_run(
        policy, a_request(), lambda r: evaluate(policy, r, now=0.0), deadline=9.0, invoke=False
    )
    assert {status for _, _, status in statuses(piped)} == {"skipped"}
    assert (piped.request, world.asked) == (a_request(), [])


async def test_a_dry_run_that_invokes_leaves_no_trace() -> None:
    world = FakeExtensions(
        lower=says("low"), guard=in_turn(*[FakeReply(b"", 500, "oops")] * 9)
    ).register(lower="pre", guard="validator")
    policy = piped_policy(pre=["lower"], validators=[{"id": "guard", "on_fail": "warn"}])
    for _ in range(9):
        piped = await world.extensions().dry_run(
            policy, a_request(), lambda r: evaluate(policy, r, now=0.0), deadline=9.0, invoke=True
        )
        assert piped.request.payload == RawJson.encode("low")
    assert (world.told, world.warned, world.health.get_all(), len(world.breakers)) == (
        [],
        [],
        {},
        0,
    )


async def test_a_decision_without_an_executed_extension_says_nothing_of_them() -> None:
    policy = piped_policy()
    piped = await PipelineRunner(
        ExtensionRegistry(), Invoker(NullCaller(), None, None, NULL_METER), meter=NULL_METER
    ).run(policy, a_request(), lambda r: evaluate(policy, r, now=0.0), deadline=9e9)
    assert "executed_extensions" not in decision(piped).metadata


async def test_a_refused_decision_is_the_answer_and_no_post_processor_is_called() -> None:
    world = a_world()
    policy = piped_policy(
        **FULL,
        providers=[a_provider("only", enabled=False)],
        fallbacks=[{"when": {"status": "never"}, "to": "only"}],
    )
    assert refusal(await world.run(policy))[0] == "decision_failed"
    assert len(world.asked) == 2


async def test_a_broker_that_is_away_is_no_extensions_fault() -> None:
    world = FakeExtensions(lower=lambda _: BrokerUnavailable("away")).register(lower="pre")
    with pytest.raises(BrokerUnavailable):
        await world.run(piped_policy(pre=["lower"]))
    assert (world.told, world.health.get_all()) == ([], {})
    world = FakeExtensions(lower=lambda _: NoResponders("no service")).register(lower="pre")
    assert statuses(await world.run(piped_policy(pre=["lower"]))) == [("pre", "lower", "warn")]
