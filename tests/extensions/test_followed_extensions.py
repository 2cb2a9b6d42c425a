"""The registry of a process follows its bucket, and keeps what is good."""

import json
from pathlib import Path

import pytest

from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.delivery.kv.entries import BucketEntry as Held
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.extensions.model import ExtensionRegistry, HealthTracker
from router.extensions.store import ExtensionStore, FollowedExtensions
from tests.support.buckets import Bucket, a_bucket
from tests.support.observability import capture_log
from tests.support.registry import Document, an_entry


class InForce(FollowedExtensions):
    """Told of changes by hand."""

    def __init__(self, seed: Path | None = None, bucket: Bucket | None = None) -> None:
        jetstream = bucket.jetstream if bucket is not None else JetStream(Connection())
        self.health = HealthTracker()
        super().__init__(
            jetstream,
            bucket.name if bucket is not None else "NONE",
            ExtensionRegistry(),
            self.health.keep,
            seed,
        )

    def told(self, **values: bytes) -> None:
        self.on_change({key: Held(key, value, 1, 0) for key, value in values.items()})

    @property
    def ids(self) -> set[str]:
        return set(self.registry.get_all())

    def retry_of(self, extension_id: str) -> int:
        return self.registry.get_all()[extension_id].retry


def written(document: Document) -> bytes:
    return record_bytes(make_record(document, version=1, author="ann"))


def test_what_stands_in_the_bucket_is_in_force() -> None:
    in_force = InForce()
    in_force.told(guard=written(an_entry()), other=written(an_entry("other")))
    assert in_force.ids == {"guard", "other"}
    in_force.told(guard=written(an_entry(retry=3)))
    assert (in_force.ids, in_force.retry_of("guard")) == ({"guard"}, 3)


DEEP = json.dumps(an_entry()).encode()[:-1] + b',"config":{"a":' + b"[" * 400 + b"]" * 400 + b"}}"


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"rubbish",
        DEEP,
        b'{"document":"\xff"}',
        written(an_entry("other")),
        written(an_entry(retry=9)),
    ],
)
def test_what_another_client_wrote_leaves_the_last_good_entry_and_is_told_once(
    rubbish: bytes,
) -> None:
    in_force = InForce()
    in_force.told(guard=written(an_entry(retry=1)))
    with capture_log("error") as lines:
        for _ in range(3):
            in_force.told(guard=rubbish)
    assert (in_force.ids, in_force.retry_of("guard")) == ({"guard"}, 1)
    assert (lines.only()["event"], lines.only()["key"]) == ("extension.broken", "guard")
    assert "; cannot be read: guard: " in in_force.check.detail
    in_force.told(guard=written(an_entry(retry=2)))
    assert in_force.retry_of("guard") == 2
    assert "cannot be read" not in in_force.check.detail


def test_a_bare_entry_that_a_client_put_into_the_bucket_counts() -> None:
    in_force = InForce()
    in_force.told(guard=json.dumps(an_entry(retry=2)).encode())
    assert in_force.retry_of("guard") == 2


def test_rubbish_that_was_never_good_is_nothing() -> None:
    in_force = InForce()
    in_force.told(guard=b"rubbish")
    assert in_force.ids == set()


def test_what_was_removed_loses_what_was_remembered_of_it() -> None:
    in_force = InForce()
    in_force.told(guard=written(an_entry()))
    in_force.health.observe("guard", ok=True, latency_ms=1.0)
    in_force.told()
    assert in_force.health.get_all() == {}


async def test_a_seed_registers_what_is_missing_and_touches_nothing_else(
    bucket: Bucket, tmp_path: Path
) -> None:
    store = ExtensionStore(bucket.documents)
    await store.put(an_entry("known", retry=3), author="ann")
    for name, document in (("a.json", an_entry("known")), ("b.json", an_entry("fresh"))):
        (tmp_path / name).write_text(json.dumps(document))
    for _ in range(2):
        in_force = InForce(tmp_path, bucket)
        await in_force.load()
        assert (in_force.ids, in_force.retry_of("known")) == ({"known", "fresh"}, 3)
        assert in_force.check.ok
    assert [
        (one.entry.id, one.record.version, one.record.author) for one in await store.list()
    ] == [("fresh", 1, "seed"), ("known", 1, "ann")]


async def test_what_was_removed_on_purpose_does_not_come_back_with_the_seed(
    bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(an_entry("known")))
    await InForce(tmp_path, bucket).load()
    await ExtensionStore(bucket.documents).delete("known")
    again = InForce(tmp_path, bucket)
    await again.load()
    assert again.ids == set()


async def test_a_seed_that_is_wrong_is_told_by_its_file_and_the_others_count(
    bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(an_entry("bad", retry=9)))
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text(json.dumps(an_entry("good")))
    in_force = InForce(tmp_path, bucket)
    with capture_log("error") as lines:
        await in_force.load()
    assert in_force.ids == {"good"}
    errors = {str(line["path"]): str(line["error"]) for line in lines.all()}
    assert errors["a.json"].startswith("retry: ")
    assert set(errors) == {"a.json", "b.json"}


async def test_without_its_bucket_it_begins_and_is_not_ready(nats_url: str, prefix: str) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        await bucket.unmake()
        in_force = InForce(bucket=bucket)
        await in_force.load()
        assert not in_force.check.ok


async def test_an_instance_that_starts_has_the_last_good_entry_as_the_others_have(
    bucket: Bucket,
) -> None:
    """It had none: its policies got extension_not_found, those of older instances did not."""
    await ExtensionStore(bucket.documents).put(an_entry(retry=1), author="ann")
    await bucket.write("guard", b"rubbish")
    in_force = InForce(bucket=bucket)
    await in_force.load()
    assert (in_force.ids, in_force.retry_of("guard")) == ({"guard"}, 1)
    assert "cannot be read: guard" in in_force.check.detail
