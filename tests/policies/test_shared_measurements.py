"""What instances learn of providers, shared through a bucket on a real server."""

import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from router.contracts.stored_record import record_bytes
from router.core.errors import Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.shared_bucket import SHARE_S
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.policies.model import Policy
from router.policies.model.measurements.values import (
    FiguresRecord,
    MinuteRecord,
    figures_key,
    read_figures_record,
)
from router.policies.shared_measurements import SharedMeasurements
from tests.support.buckets import Bucket
from tests.support.delivery import connected
from tests.support.measurements import TENANT, SomeMeasurements
from tests.support.policy import a_policy, a_provider
from tests.support.supervision import run_children
from tests.support.waiting import until

CHOOSES = a_policy(a_provider("a"), strategy={"type": "least_latency"})


class Instance(SomeMeasurements):
    """One router's measurements, sharing a bucket with others."""

    def __init__(self, connection: Connection, bucket: str, policy: Policy) -> None:
        super().__init__()
        policies = {(TENANT, "default"): policy}
        self.shared = SharedMeasurements(
            JetStream(connection),
            bucket,
            "node",
            self,
            lambda: policies,
            wall_clock=self.clock.today,
        )


@contextlib.asynccontextmanager
async def an_instance(url: str, bucket: str, policy: Policy = CHOOSES) -> AsyncIterator[Instance]:
    async with connected(url) as connection:
        instance = Instance(connection, bucket, policy)
        await instance.shared.load()
        async with run_children(instance.shared.follow, instance.shared.write):
            yield instance


def samples(instance: Instance) -> int:
    return instance.figures().samples if TENANT in instance.list_tenants() else 0


async def test_two_instances_know_what_both_have_learned_and_one_that_starts_later_too(
    nats_url: str, bucket: Bucket
) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.report(times=4, latency_ms=100)
        other.report(times=3, latency_ms=100)
        for instance in (one, other):
            await until(lambda instance=instance: samples(instance) == 7)  # type: ignore[misc]
        async with an_instance(nats_url, bucket.name) as late:
            assert samples(late) == 7
            assert late.figures().score == pytest.approx(100)


async def test_its_own_record_is_not_counted_twice(nats_url: str, bucket: Bucket) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.report(times=4)
        await until(lambda: samples(other) == 4)
        one.clock.at += SHARE_S
        one.report(times=4)
        await until(lambda: samples(other) == 8)
        assert samples(one) == 8


async def test_what_no_router_wrote_is_left_out(nats_url: str, bucket: Bucket) -> None:
    async with connected(nats_url) as connection:
        documents = DocumentBucket(JetStream(connection), bucket.name)
        await documents.put(
            figures_key(TENANT, "other"), b'{"tenant_id": "acme", "providers": 7}', revision=None
        )
        async with (
            an_instance(nats_url, bucket.name) as one,
            an_instance(nats_url, bucket.name) as other,
        ):
            one.report()
            await until(lambda: samples(other) == 1)


async def test_without_a_bucket_an_instance_learns_alone(nats_url: str) -> None:
    async with an_instance(nats_url, "MISSING_FIGURES") as alone:
        alone.report(times=9)
        assert samples(alone) == 9


@pytest.mark.parametrize(
    ("field", "most"),
    [
        *((name, 2**53) for name in ("stamp_ms", "silent_ms", "samples", "in_flight", "streak")),
        *((name, 1e12) for name in ("latency_ms", "cost")),
        ("success_rate", 1),
    ],
)
def test_a_figure_that_no_router_writes_is_poison(field: str, most: float) -> None:
    some = SomeMeasurements()
    some.report("a")
    record = msgspec.json.decode(record_bytes(some.build_record(TENANT, "n", "one")))

    def read(value: float) -> FiguresRecord:
        record["providers"]["a"][field] = value
        return read_figures_record(figures_key(TENANT, "one"), msgspec.json.encode(record))

    assert [getattr(read(value).providers["a"], field) for value in (0, most)] == [0, most]
    for value in (-1, most + 1):
        with pytest.raises(Poison):
            read(value)


def test_what_is_left_out_of_a_record_counts_nothing() -> None:
    some = SomeMeasurements()
    some.report("a")
    record = msgspec.json.decode(record_bytes(some.build_record(TENANT, "n", "one")))
    figures = record["providers"]["a"]
    del figures["is_failing"], figures["streak"], figures["finished"]
    figures["minutes"] = [{}, {}]
    found = read_figures_record(figures_key(TENANT, "one"), msgspec.json.encode(record))
    one = found.providers["a"]
    assert (one.is_failing, one.streak, one.finished) == (False, 0, ())
    assert one.minutes[0] == MinuteRecord(0, 0, 0, 0, 0, 0, 0, {})


def test_a_record_under_the_key_of_another_tenant_is_poison() -> None:
    some = SomeMeasurements()
    some.report("p" * 128)  # the longest name that a policy may have
    data = record_bytes(some.build_record(TENANT, "n", "one"))
    assert read_figures_record(figures_key(TENANT, "one"), data).life == "one"
    with pytest.raises(Poison):
        read_figures_record(figures_key("other", "one"), data)
