"""What instances learn of the tokens of texts, shared through a bucket on a real server
(docs/reference/prices.md#shared).
"""

import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from router.budgets.model.prices import LearnedRatios, TextCount
from router.budgets.model.prices.ratio_sums import (
    RatiosRecord,
    ratios_key,
    read_ratios_record,
    weigh,
)
from router.budgets.model.prices.ratios import MIN_SAMPLES
from router.budgets.prices import shared_ratios
from router.budgets.prices.shared_ratios import SharedRatios
from router.contracts.stored_record import record_bytes
from router.core.errors import BrokerUnavailable, Poison
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from tests.support.buckets import Bucket, a_bucket
from tests.support.delivery import connected
from tests.support.observability import capture_log
from tests.support.supervision import run_children
from tests.support.waiting import until

TENANT, PROVIDER = "acme", "echo"
TEXT = "The river rises in the hills above the village. " * 20


def count(text: str) -> list[int]:
    found = TextCount()
    found.add(text)
    return found.counts


COUNTS = count(TEXT)
DOCUMENTED = round(weigh(COUNTS))


class Instance:
    """One router's ratios."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self.ratios = LearnedRatios()
        self.shared = SharedRatios(JetStream(connection), bucket, self.ratios)

    def learn(
        self,
        tokens: int,
        *,
        times: int = MIN_SAMPLES,
        tenant: str = TENANT,
        provider: str = PROVIDER,
    ) -> None:
        ratio = self.ratios.open(tenant, provider, None).output
        for _ in range(times):
            ratio.learn(COUNTS, 0, tokens)
            ratio.add_room(COUNTS, tokens)
        self.ratios.mark_changed(tenant)

    def estimate(self, tenant: str = TENANT, provider: str = PROVIDER) -> int:
        self.shared.want(tenant)
        return self.ratios.find(tenant, provider, None).output.estimate(COUNTS, 0)

    def count_samples(self, tenant: str = TENANT) -> int:
        self.shared.want(tenant)
        return self.ratios.find(tenant, PROVIDER, None).output.known.samples


@contextlib.asynccontextmanager
async def an_instance(url: str, bucket: str) -> AsyncIterator[Instance]:
    async with connected(url) as connection:
        instance = Instance(connection, bucket)
        async with run_children(instance.shared.follow, instance.shared.write):
            yield instance


@pytest.fixture
async def bucket(
    nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bucket]:
    monkeypatch.setattr(shared_ratios, "SHARE_S", 0.05)
    monkeypatch.setattr(shared_ratios, "REFRESH_S", 0.05)
    monkeypatch.setattr(shared_ratios, "RETRY_S", 0.05)
    async with a_bucket(nats_url, prefix) as found:
        yield found
        await found.unmake()


async def read(bucket: Bucket, tenant: str = TENANT) -> RatiosRecord:
    entry = await bucket.documents.get(ratios_key(tenant))
    assert entry is not None
    return read_ratios_record(entry.key, entry.value)


async def until_stored(bucket: Bucket, samples: int) -> None:
    async def is_stored() -> bool:
        try:
            return sum(one.output.samples for one in (await read(bucket)).ratios) == samples
        except (AssertionError, Poison):  # nothing yet, or nothing of this version
            return False

    await until(is_stored, what=f"{samples} samples are stored")


async def test_an_instance_that_begins_estimates_as_the_one_that_stopped(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_ratios, "SHARE_S", 3600.0)
    async with an_instance(nats_url, bucket.name) as one:
        await one.shared._documents.get("any")  # its children have begun
        one.learn(DOCUMENTED * 2, times=20)
        learned = one.estimate()
    assert learned == pytest.approx(DOCUMENTED * 2, rel=0.02)
    async with an_instance(nats_url, bucket.name) as late:
        assert late.estimate() == DOCUMENTED
        await until(lambda: late.estimate() == learned)


async def test_what_two_instances_learn_is_added_up_once(nats_url: str, bucket: Bucket) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        for turn in range(1, 6):
            one.learn(DOCUMENTED * 2, times=4)
            other.learn(DOCUMENTED * 2, times=3)
            await until_stored(bucket, 7 * turn)
        for instance in (one, other):
            await until(lambda instance=instance: instance.count_samples() == 35)  # type: ignore[misc]


async def test_a_ratio_of_one_tenant_is_no_ratio_of_another_one(
    nats_url: str, bucket: Bucket
) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.learn(DOCUMENTED * 3, times=20)
        one.learn(DOCUMENTED * 2, times=20, tenant="quiet")
        await until(lambda: other.count_samples() == other.count_samples("quiet") == 20)
        assert other.estimate("quiet") < other.estimate()


async def test_what_was_learned_while_the_bucket_was_away_is_shared_later(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_away(*_: object, **__: object) -> int:
        raise BrokerUnavailable("away")

    async with an_instance(nats_url, bucket.name) as one:
        with monkeypatch.context() as patch:
            patch.setattr(one.shared._documents, "put", is_away)
            one.learn(DOCUMENTED * 2, times=20)
            await until(lambda: not one.ratios.changed)
            await until(lambda: bool(one.ratios.changed))
        await until_stored(bucket, 20)


async def test_room_of_which_it_is_not_known_whether_it_is_stored_is_given_once(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is money: with it a cut stream is estimated below the documented count."""
    async with connected(nats_url) as connection:
        one = Instance(connection, bucket.name)
        one.learn(DOCUMENTED // 2, times=20)
        put = one.shared._documents.put

        async def lose_ack(key: str, value: bytes, *, revision: int | None) -> int:
            await put(key, value, revision=revision)
            raise BrokerUnavailable("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(one.shared._documents, "put", lose_ack)
            await one.shared._write_changed()
        stored = (await read(bucket)).ratios[0].output.room
        assert stored > 0
        await one.shared._write_changed()
        assert 0 < (await read(bucket)).ratios[0].output.room <= stored


async def test_the_document_of_a_tenant_is_bounded(nats_url: str, bucket: Bucket) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        for number in range(37):
            one.learn(DOCUMENTED, times=1, provider=f"p-{number}")
            await until_stored(bucket, min(number + 1, 32))
    names = [ratio.provider_id for ratio in (await read(bucket)).ratios]
    assert names == [f"p-{number}" for number in range(5, 37)]


@pytest.mark.parametrize("change", ["no_record", "other_kinds", "other_sums"])
async def test_a_document_that_this_version_did_not_write_is_told_and_learned_anew(
    nats_url: str, bucket: Bucket, change: str
) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        one.learn(DOCUMENTED * 2, times=20)
        await until_stored(bucket, 20)
    record = msgspec.json.decode(record_bytes(await read(bucket)))
    if change == "no_record":
        record = {"tenant_id": TENANT}
    elif change == "other_kinds":
        record["kinds"]["word"] += 1
    else:
        record["ratios"][0]["output"]["sums"].pop()
    await bucket.write(ratios_key(TENANT), msgspec.json.encode(record))
    with capture_log() as lines:
        async with an_instance(nats_url, bucket.name) as late:
            late.learn(DOCUMENTED * 3, times=19)
            await until_stored(bucket, 19)
    assert lines.of("ratios.unreadable")


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        *((name, 0, 2**53) for name in ("samples", "compared")),
        *((name, 0, 1e15) for name in ("tokens", "pieces", "text_error", "piece_error")),
        ("room", -1e15, 1e15),
    ],
)
def test_a_figure_that_no_router_writes_is_poison(field: str, least: float, most: float) -> None:
    names = ("samples", "room", "tokens", "pieces", "compared", "text_error", "piece_error")
    sums = {**dict.fromkeys(names, 0), "products": [], "sums": []}

    def read(value: float) -> RatiosRecord:
        ratio = {"provider_id": "p" * 128, "model": "m" * 128, "input": sums}
        record = {"tenant_id": TENANT, "kinds": {}}
        record["ratios"] = [{**ratio, "output": {**sums, field: value}}]  # type: ignore[assignment]
        return read_ratios_record(ratios_key(TENANT), msgspec.json.encode(record))

    assert [getattr(read(value).ratios[0].output, field) for value in (least, most)] == [
        least,
        most,
    ]
    for value in (least - 1, most + 1):
        with pytest.raises(Poison):
            read(value)


def test_a_document_under_the_key_of_another_tenant_is_poison() -> None:
    data = record_bytes(RatiosRecord(tenant_id=TENANT, kinds={}, ratios=[]))
    assert read_ratios_record(ratios_key(TENANT), data).tenant_id == TENANT
    with pytest.raises(Poison):
        read_ratios_record(ratios_key("other"), data)
