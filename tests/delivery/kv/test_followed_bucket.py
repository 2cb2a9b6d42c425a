"""Any followed bucket: its values are those of the bucket; an entry that cannot be read leaves the
last good value of its key in force.
"""

import contextlib
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.kv.followed_bucket import MAX_SHOWN, SMALL, FollowedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.process.observability import events
from tests.support.beside import beside
from tests.support.buckets import Bucket
from tests.support.observability import capture_log
from tests.support.supervision import run_children
from tests.support.waiting import until

LARGE = b"x" * (SMALL + 1)


class FollowedTexts(FollowedBucket[str]):
    """Values are texts; a value with `!` cannot be read."""

    def __init__(self, jetstream: JetStream | None = None, bucket: str = "NONE") -> None:
        super().__init__(jetstream or JetStream(Connection()), bucket, events.POLICY_BROKEN)
        self.values: list[str] = []
        self.read_in: list[str] = []  # the thread of each read

    def read(self, entry: BucketEntry) -> str:
        self.read_in.append(
            "event loop" if threading.current_thread() is threading.main_thread() else "thread"
        )
        if b"!" in entry.value:
            raise ValueError(f"{entry.key} is no text")
        return entry.value[-8:].decode()

    def install(self, values: Sequence[str]) -> None:
        self.values = sorted(values)

    def show(self, **values: bytes) -> None:
        """Tell it what the bucket holds now."""
        self.on_change({key: BucketEntry(key, value, 1, 0) for key, value in values.items()})


@contextlib.asynccontextmanager
async def running(followed: FollowedTexts) -> AsyncIterator[None]:
    async with beside(followed.run()):
        yield


def test_the_values_are_those_of_the_bucket_and_only_a_changed_one_is_read_again() -> None:
    followed = FollowedTexts()
    followed.show(a=b"1", b=b"2")
    followed.show(a=b"1", b=b"3")
    assert (followed.values, len(followed.read_in)) == (["1", "3"], 3)
    followed.show(b=b"3")
    assert followed.values == ["3"]


def test_an_entry_that_cannot_be_read_leaves_the_last_good_value_and_is_logged_once() -> None:
    followed = FollowedTexts()
    followed.show(a=b"1")
    with capture_log("error") as lines:
        followed.show(a=b"!", b=b"!")
        followed.show(a=b"!", b=b"!")
    assert [(line["event"], line["key"], line["error"]) for line in lines.all()] == [
        (events.POLICY_BROKEN, "a", "a is no text"),
        (events.POLICY_BROKEN, "b", "b is no text"),
    ]
    assert followed.values == ["1"]
    assert followed.check.detail.endswith("; cannot be read: a: a is no text; b: b is no text")
    followed.show(a=b"2")
    assert (followed.values, "cannot be read" in followed.check.detail) == (["2"], False)


def test_readiness_names_only_the_first_of_many() -> None:
    followed = FollowedTexts()
    followed.show(**{f"k{number:02}": b"!" for number in range(MAX_SHOWN + 3)})
    assert followed.check.detail.endswith("k09: k09 is no text; and 3 more")


async def test_large_entries_are_read_in_a_thread_while_the_previous_value_serves(
    bucket: Bucket,
) -> None:
    await bucket.write("a", b"small")
    followed = FollowedTexts(bucket.jetstream, bucket.name)
    await followed.load()
    async with running(followed):
        for ending, value in ((b"1", "xxxxxxx1"), (b"!", "xxxxxxx1"), (b"2", "xxxxxxx2")):
            count = len(followed.read_in)
            await bucket.write("a", LARGE + ending)
            await until(lambda count=count: len(followed.read_in) > count and not followed._large)  # type: ignore[misc]
            assert followed.values == [value]
    assert followed.read_in == ["event loop", "thread", "thread", "thread"]


async def test_a_large_entry_whose_reading_was_cut_off_is_read_when_the_child_runs_again() -> None:
    followed = FollowedTexts()
    followed.show(a=LARGE)
    followed._wake.clear()  # the reader had begun with it
    async with run_children(followed._run_reader):
        await until(lambda: followed.values == ["xxxxxxxx"])


async def test_a_load_ends_when_the_large_entries_are_read_too(bucket: Bucket) -> None:
    for key in ("a", "b"):
        await bucket.write(key, LARGE)
    followed = FollowedTexts(bucket.jetstream, bucket.name)
    await followed.load()
    assert (followed.values, followed.read_in) == (["xxxxxxxx"] * 2, ["thread"] * 2)


async def test_the_last_good_value_of_the_history_serves_until_its_key_is_deleted(
    bucket: Bucket,
) -> None:
    for key, values in {"a": (b"1", b"!", b"!"), "b": (b"!",), "c": (b"3",)}.items():
        for value in values:
            await bucket.write(key, value)
    entry = await bucket.documents.get("c")
    assert entry is not None
    await bucket.documents.delete("c", revision=entry.revision)
    await bucket.write("c", b"!")
    followed = FollowedTexts(bucket.jetstream, bucket.name)
    await followed.load()
    assert followed.values == ["1"]
    assert "a: a is no text; b: b is no text; c: c is no text" in followed.check.detail


async def test_what_was_written_while_the_history_is_read_holds(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good value was put over it, and held until the bucket changed again."""
    for key in ("mended", "deleted"):
        for value in (b"old", b"!"):
            await bucket.write(key, value)
    followed = FollowedTexts(bucket.jetstream, bucket.name)
    read_history = followed.documents.history

    async def read_slowly(key: str) -> list[BucketEntry | DeletedKey]:
        found = await read_history(key)
        if key == "mended":
            await bucket.write(key, b"new")
            await until(lambda: followed.values == ["new"])
        else:
            await bucket.documents.delete(key, revision=found[-1].revision)
            await until(lambda: "deleted" not in followed.check.detail)
        return found

    monkeypatch.setattr(followed.documents, "history", read_slowly)
    await followed.load()
    assert followed.values == ["new"]


async def test_a_missing_bucket_is_an_error_at_the_load_and_later_leaves_the_values(
    bucket: Bucket,
) -> None:
    await bucket.write("a", b"1")
    followed = FollowedTexts(bucket.jetstream, bucket.name)
    await followed.load()
    async with running(followed):
        await bucket.unmake()
        await until(lambda: not followed.check.ok)
        assert ("last known state" in followed.check.detail, followed.values) == (True, ["1"])
        with pytest.raises(BrokerUnavailable, match="topology apply"):
            await FollowedTexts(bucket.jetstream, bucket.name).load()
