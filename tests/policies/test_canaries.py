"""Counts of canaries shared through a bucket on a real server, and canaries ended by one of several
instances.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from router.contracts.assignment import Assignment
from router.contracts.canary import CANDIDATE, CONTROL, CanaryGuard, CanaryPlan
from router.contracts.decision import Decision, Refusal
from router.contracts.result import ExecResult
from router.contracts.stored_record import record_bytes
from router.core.errors import Conflict, Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.policies.canaries import SharedCanaries
from router.policies.followed import FollowedPolicies
from router.policies.model import Policy, PolicyError, PolicyTable
from router.policies.model.canaries import CanaryVerdict
from router.policies.model.canary import CanaryRecord, canary_key, read_canary_record
from router.policies.store import PolicyNotFound, PolicyStore
from tests.support.app import RecordedAlerts
from tests.support.buckets import Bucket, a_bucket
from tests.support.delivery import connected
from tests.support.policy import a_document, a_provider
from tests.support.policy_buckets import a_policy_of
from tests.support.supervision import run_children
from tests.support.waiting import until

NAME = ("acme", "default")


class Instance:
    """One router's canaries and policies, over the buckets that it shares with others."""

    def __init__(self, jetstream: JetStream, policies: str, canaries: str) -> None:
        self.table = PolicyTable()
        self.followed = FollowedPolicies(jetstream, policies, self.table)
        store = PolicyStore(DocumentBucket(jetstream, policies))
        self.heard = RecordedAlerts()
        self.shared = SharedCanaries(
            jetstream, canaries, "node", policies=self.table, store=store, alerts=self.heard.alerts
        )
        self.rounds = 0  # in which it looked at the canaries that run
        self.table.get_all, self._get_all = self._count_round, self.table.get_all  # type: ignore[method-assign]

    def _count_round(self) -> Mapping[tuple[str, str], Policy]:
        self.rounds += 1
        return self._get_all()

    async def judge_again(self, times: int = 1) -> None:
        """Return when it has begun a round, ended it and begun another, so many times."""
        rounds = self.rounds + 2 * times
        await until(lambda: self.rounds >= rounds, within_s=30)

    @property
    def version(self) -> int:
        policy = self.table.find(*NAME)
        return policy.version if policy is not None else 0

    def report(
        self, arm: str, count: int, *, errors: int = 0, version: int = 2, tenant: str = "acme"
    ) -> None:
        decision = Decision(
            "a",
            "weighted",
            50,
            1,
            1,
            {"policy_id": "default", "policy_version": str(version), "canary": arm},
        )
        for number in range(count):
            known = Assignment(
                assignment_id="a",
                request_id="r",
                tenant_id=tenant,
                provider_id="a",
                job_type="chat",
                deadline_ms=1,
                decision=decision,
                requested_at_ms=0,
            )
            status = "error" if number < errors else "success"
            self.shared.on_result(
                known,
                ExecResult(
                    assignment_id="a",
                    request_id="r",
                    status=status,
                    latency_ms=10,
                    cost=0.0,
                    timestamp=0,
                ),
            )

    def count(self) -> tuple[int, int]:
        """Outcomes of control and candidate, of all instances."""
        policy = self.table.find(*NAME)
        assert policy is not None
        totals = self.shared.count_totals(policy)
        return totals.control.outcomes, totals.candidate.outcomes


class Buckets:
    def __init__(self, url: str, policies: Bucket, canaries: Bucket) -> None:
        self.url = url
        self.policies = policies
        self.canaries = canaries
        self.store = PolicyStore(policies.documents)

    @contextlib.asynccontextmanager
    async def an_instance(self, *, judges: bool = False) -> AsyncIterator[Instance]:
        async with connected(self.url) as connection:
            instance = Instance(JetStream(connection), self.policies.name, self.canaries.name)
            await instance.followed.load()
            await instance.shared.load()
            runs = [
                instance.followed.run,
                instance.shared.follow,
                instance.shared.write,
                *([instance.shared.judge] if judges else []),
            ]
            async with run_children(*runs):
                yield instance

    async def begin(
        self, *, until_ms: int = 2**52, min_results: int = 100, name: tuple[str, str] = NAME
    ) -> int:
        """The version that holds the canary."""
        plan = CanaryPlan(
            document=a_document(a_provider("b")),
            share=50,
            guards=(CanaryGuard("error_rate", 1.2),),
            until_ms=until_ms,
            min_results=min_results,
        )
        return await self.store.start_canary(*name, plan, author="me")

    async def read_notes(self) -> Sequence[str | None]:
        return [
            change.document.record.note
            for change in await self.store.history(*NAME)
            if change.document is not None
        ]


@pytest.fixture(autouse=True)
def judge_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.policies.canaries.JUDGE_S", 0.05)


@pytest.fixture
async def buckets(nats_url: str, prefix: str) -> AsyncIterator[Buckets]:
    async with (
        a_bucket(nats_url, f"{prefix}_P") as policies,
        a_bucket(nats_url, f"{prefix}_C") as canaries,
    ):
        made = Buckets(nats_url, policies, canaries)
        await made.store.put(*NAME, a_policy_of("a"), replaces=0, author="me")
        yield made


async def test_all_instances_count_together_and_one_that_starts_later_knows_what_one_that_is_gone_has_counted(
    buckets: Buckets,
) -> None:
    await buckets.begin()
    async with buckets.an_instance() as one:
        async with buckets.an_instance() as other:
            one.report(CONTROL, 4)
            other.report(CANDIDATE, 3)
            for instance in (one, other):
                await until(lambda instance=instance: instance.count() == (4, 3), within_s=10)  # type: ignore[misc]
            other.report(CANDIDATE, 2)  # written when it stops
        async with buckets.an_instance() as late:
            await until(lambda: late.count() == (4, 5), within_s=10)


async def test_results_of_another_version_or_without_an_arm_are_not_counted(
    buckets: Buckets,
) -> None:
    await buckets.begin()
    async with buckets.an_instance() as one:
        one.report(CANDIDATE, 3, version=1)
        one.report("", 3)
        one.report(CANDIDATE, 1)
        assert one.count() == (0, 1)


async def test_an_answer_of_a_canary_that_is_over_does_not_take_the_place_of_the_counts_of_the_next(
    buckets: Buckets,
) -> None:
    version = await buckets.begin()
    async with buckets.an_instance() as one:
        former = one.table.find(*NAME)
        assert former is not None
        assert former.canary is not None
        await buckets.store.end_canary(*NAME, version, CanaryVerdict.ROLL_BACK, "no")
        await buckets.begin()
        await until(lambda: one.version == version + 2, within_s=10)
        one.report(CANDIDATE, 3, version=version + 2)
        late = Refusal("decision_failed", "late")
        # its pipeline took long
        one.shared.on_decided(former.canary.candidate, "acme", late, is_pushed=False)
        assert one.count() == (0, 3)


async def test_of_five_instances_one_ends_the_canary(buckets: Buckets) -> None:
    await buckets.begin()
    async with contextlib.AsyncExitStack() as stack:
        every = [
            await stack.enter_async_context(buckets.an_instance(judges=True)) for _ in range(5)
        ]
        for one in every:
            one.report(CONTROL, 100)
            one.report(CANDIDATE, 100, errors=60)
        for one in every:
            await until(lambda one=one: one.version == 3, within_s=20)  # type: ignore[misc]
        for one in every:
            await one.judge_again()
    notes = await buckets.read_notes()
    assert len(notes) == 3
    assert str(notes[2]).startswith("canary rolled back: error_rate<=1.2x broken")
    assert (await buckets.store.get(*NAME)).record.document["providers"] == [
        {"name": "a", "weight": 1}
    ]


async def test_one_tenants_outcomes_do_not_end_the_canary_of_a_policy_that_all_may_use(
    buckets: Buckets,
) -> None:
    """A tenant with a worker of its own reports each result of the candidate as an error."""
    shared = ("_shared", "default")
    await buckets.store.delete(*NAME, replaces=1)
    await buckets.store.put(*shared, a_policy_of("a"), replaces=0, author="me")
    await buckets.begin(name=shared)
    async with buckets.an_instance(judges=True) as one:
        for tenant in ("acme", "third"):
            one.report(CONTROL, 400, errors=40, tenant=tenant)
            one.report(CANDIDATE, 40, errors=4, tenant=tenant)
        one.report(CONTROL, 2000, tenant="spiteful")
        one.report(CANDIDATE, 2000, errors=2000, tenant="spiteful")
        # a round in which its copy of the bucket may be behind judges nothing
        await until(lambda: one.heard.causes, within_s=30)
        await one.judge_again(times=3)
        assert one.version == 2
        assert one.heard.causes == ["canary_one_sided:_shared/default"]
        for tenant in ("acme", "third"):
            one.report(CANDIDATE, 60, errors=50, tenant=tenant)
        # the bucket says it to the table before its publish ack says it to the judge
        await until(lambda: one.heard.causes[1:] == ["canary_rolled_back:_shared/default"])
        assert one.version == 3


async def test_a_promoted_candidate_is_the_policy(buckets: Buckets) -> None:
    await buckets.begin()
    async with buckets.an_instance(judges=True) as one:
        one.report(CONTROL, 300, errors=200)
        one.report(CANDIDATE, 100)
        await until(lambda: one.version == 3, within_s=20)
    record = (await buckets.store.get(*NAME)).record
    assert (record.author, record.canary, record.document["providers"]) == (
        "canary",
        None,
        [{"name": "b", "weight": 100}],
    )


async def test_nothing_is_decided_while_the_counts_of_the_others_are_unknown(
    buckets: Buckets,
) -> None:
    await buckets.begin(until_ms=0)  # its time is over
    await buckets.canaries.unmake()
    async with buckets.an_instance(judges=True) as one:
        await one.judge_again(times=3)
        assert one.version == 2
        await buckets.canaries.make()
        await until(lambda: one.version == 3, within_s=30)


async def test_a_policy_has_one_canary_and_a_write_ends_it(buckets: Buckets) -> None:
    version = await buckets.begin()
    with pytest.raises(PolicyError, match="has one already"):
        await buckets.begin()
    with pytest.raises(Conflict):
        await buckets.store.put(*NAME, a_policy_of("c"), replaces=version - 1, author="unaware")
    await buckets.store.put(*NAME, a_policy_of("c"), replaces=version, author="aware")
    assert (await buckets.store.get(*NAME)).record.canary is None
    with pytest.raises(Conflict):
        await buckets.store.end_canary(*NAME, version, CanaryVerdict.PROMOTE, "late")
    with pytest.raises(PolicyNotFound):
        await buckets.store.end_canary(*NAME, version + 1, CanaryVerdict.PROMOTE, "none")


async def test_a_canary_of_a_policy_that_is_not_there_is_refused(buckets: Buckets) -> None:
    plan = CanaryPlan(document=a_document(), share=5, guards=(), until_ms=0, min_results=1)
    with pytest.raises(PolicyNotFound):
        await buckets.store.start_canary("acme", "missing", plan, author="me")
    broken = CanaryPlan(document={"providers": 7}, share=5, guards=(), until_ms=0, min_results=1)
    with pytest.raises(PolicyError):
        await buckets.store.start_canary(*NAME, broken, author="me")


async def test_what_no_router_wrote_is_left_out(buckets: Buckets) -> None:
    await buckets.begin()
    await buckets.canaries.documents.put(
        canary_key(*NAME, "other"), b'{"tenant_id": "acme"}', revision=None
    )
    async with buckets.an_instance() as one:
        one.report(CANDIDATE, 1)
        assert one.count() == (0, 1)


@pytest.mark.parametrize("other", ["mirrored", "deleted", "written"])
async def test_counts_of_an_ended_canary_go(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """While this instance deletes them its mirror reads that they are gone; or another one deletes
    the first, or writes it again.
    """
    await buckets.begin()
    documents = buckets.canaries.documents
    for life in ("one", "two", "three"):
        record = CanaryRecord(tenant_id=NAME[0], policy_id=NAME[1], version=2, node="n", life=life)
        await documents.put(canary_key(*NAME, life), record_bytes(record), revision=None)
    async with buckets.an_instance() as one:
        policy = one.table.find(*NAME)
        assert policy is not None
        await until(lambda: len(one.shared._others) == 3)
        delete, keys = one.shared._documents.delete, list(one.shared._others)

        async def delete_beside_another(key: str, *, revision: int) -> None:
            if (key, other) == (keys[0], "deleted"):
                await delete(key, revision=revision)
            elif (key, other) == (keys[0], "written"):
                await documents.put(key, (await documents.read_all())[key].value, revision=revision)
            await delete(key, revision=revision)
            one.shared.on_change({})

        monkeypatch.setattr(one.shared._documents, "delete", delete_beside_another)
        await one.shared._forget(policy)
    assert set(await documents.read_all()) == ({keys[0]} if other == "written" else set())


def test_a_record_under_the_key_of_another_policy_is_poison() -> None:
    record = CanaryRecord(tenant_id="acme", policy_id="default", version=2, node="n", life="one")
    assert read_canary_record(canary_key(*NAME, "one"), record_bytes(record)) == record
    with pytest.raises(Poison):
        read_canary_record(canary_key("acme", "other", "one"), record_bytes(record))
