"""The tenants that have earned a place, in a bucket of a real server."""

from router.decide.model.tenant_places import NOT_KNOWN, SECONDS_TO_EARN, TenantPlaces
from router.decide.stored_places import PLACES_KEY, StoredPlaces
from router.delivery.wire.api import JetStream
from router.process.observability import events
from tests.support.buckets import Bucket, a_bucket
from tests.support.delivery import connected
from tests.support.observability import capture_log


class Instance:
    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self.places = TenantPlaces(lambda _: False)
        self.stored = StoredPlaces(jetstream, bucket, self.places)

    def earn(self, *tenants: str) -> None:
        for _ in range(SECONDS_TO_EARN):
            self.places.answered.update(tenants)
            self.places.look()

    def find(self, *tenants: str) -> list[str]:
        return [self.places.find(tenant) for tenant in tenants]


def an_instance(bucket: Bucket) -> Instance:
    return Instance(bucket.jetstream, bucket.name)


async def test_a_tenant_keeps_its_place_when_the_router_starts_again(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        before = an_instance(bucket)
        await before.stored.load()
        before.earn("quiet")
        await before.stored.share()
        after = an_instance(bucket)
        assert after.find("quiet") == [NOT_KNOWN]
        await after.stored.load()
        assert after.find("quiet", "other") == ["quiet", NOT_KNOWN]


async def test_instances_take_over_what_the_others_know_and_write_only_what_is_new(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        one, two = an_instance(bucket), an_instance(bucket)
        one.earn("a")
        two.earn("b")
        for instance in (one, two, one, two):
            await instance.stored.share()
        assert one.find("a", "b") == two.find("a", "b") == ["a", "b"]
        assert len(await bucket.documents.history(PLACES_KEY)) == 2


async def test_a_document_that_no_router_wrote_is_told_and_replaced(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        await bucket.write(PLACES_KEY, b'{"tenants": "all"}')
        one, two = an_instance(bucket), an_instance(bucket)
        with capture_log("warning") as lines:
            await one.stored.load()
        assert [line["event"] for line in lines.all()] == [events.PLACES_NOT_SHARED]
        one.earn("a")
        await one.stored.share()
        await two.stored.load()
        assert two.find("a") == ["a"]


async def test_without_the_bucket_an_instance_goes_on_with_what_it_knows_and_stores_it_later(
    nats_url: str, prefix: str
) -> None:
    async with connected(nats_url) as connection:
        one = Instance(JetStream(connection), prefix)
        await one.stored.load()
        one.earn("a")
        await one.stored.share()
        assert one.find("a", "b") == ["a", NOT_KNOWN]
        async with a_bucket(nats_url, prefix) as bucket:
            await one.stored.share()
            two = an_instance(bucket)
            await two.stored.load()
            assert two.find("a") == ["a"]
