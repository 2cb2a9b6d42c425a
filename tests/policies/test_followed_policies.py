"""A router's policy table over a real bucket: seeded with what was never there, true to what people
write, deaf to mistakes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.core.errors import BrokerUnavailable
from router.core.ids import key
from router.policies.followed import SAMPLE_POLICIES, FollowedPolicies
from router.policies.model import PolicyTable
from tests.support.beside import beside
from tests.support.observability import capture_log
from tests.support.policy_buckets import PolicyBucket, a_policy_bucket, a_policy_of
from tests.support.waiting import until

ACME = ("acme", "default")
MISTAKES = [
    b"",
    b"{",
    b'{"providers": []}',
    b"[" * 10_000,
    b'{"version": 7, "author": "", "time": "", "hash": "", "document": {"a": 1}}',
]


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[PolicyBucket]:
    async with a_policy_bucket(nats_url, prefix) as place:
        yield place


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    (tmp_path / "policies" / "acme").mkdir(parents=True)
    return tmp_path / "policies"


@contextlib.asynccontextmanager
async def running(followed: FollowedPolicies) -> AsyncIterator[None]:
    async with beside(followed.run()):
        yield


def chosen(policy_table: PolicyTable, name: str = "default") -> tuple[str, int] | None:
    policy = policy_table.find("acme", name)
    return (policy.providers[0].name, policy.version) if policy is not None else None


async def test_what_is_stored_is_in_the_table_before_the_first_request(place: PolicyBucket) -> None:
    await place.put(*ACME, a_policy_of("a"), replaces=0, author="ann")
    await place.put(*ACME, a_policy_of("b"), replaces=1, author="ann")
    policy_table, followed = place.a_policy_table()
    await followed.load()
    assert chosen(policy_table) == ("b", 2)  # with the version that it stands under


async def test_a_seed_writes_only_what_was_never_there(place: PolicyBucket, seeds: Path) -> None:
    for name in ("known", "deleted", "new"):
        (seeds / "acme" / f"{name}.json").write_bytes(a_policy_of("seeded"))
    await place.put("acme", "known", a_policy_of("ann"), replaces=0, author="ann")
    await place.put("acme", "deleted", a_policy_of("ann"), replaces=0, author="ann")
    await place.delete("acme", "deleted")
    policy_table, followed = place.a_policy_table()
    await followed.load(seeds)
    assert {name: chosen(policy_table, name) for name in ("known", "deleted", "new")} == {
        "known": ("ann", 1),
        "deleted": None,
        "new": ("seeded", 1),
    }


async def test_instances_that_seed_at_once_agree(place: PolicyBucket, seeds: Path) -> None:
    (seeds / "acme" / "default.json").write_bytes(a_policy_of("seeded"))
    policy_tables = [place.a_policy_table() for _ in range(4)]
    await asyncio.gather(*(followed.load(seeds) for _, followed in policy_tables))
    assert len(await place.history(*ACME)) == 1
    assert {chosen(policy_table) for policy_table, _ in policy_tables} == {("seeded", 1)}


async def test_a_broken_file_is_told_with_its_path_and_the_others_are_sown(
    place: PolicyBucket, seeds: Path
) -> None:
    (seeds / "acme" / "default.json").write_bytes(a_policy_of("seeded"))
    (seeds / "acme" / "broken.json").write_text('{"providers": [{"name": "x", "weight": -1}]}')
    policy_table, followed = place.a_policy_table()
    with capture_log() as lines:
        await followed.load(seeds)
    (line,) = [line for line in lines.all() if line["event"] == "policy.broken"]
    assert (line["path"], line["where"], line["level"]) == (
        "acme/broken.json",
        "providers[0].weight",
        "error",
    )
    assert chosen(policy_table) == ("seeded", 1)


async def test_a_policy_that_refuses_every_request_is_sown_and_told_for_the_shared_one_would_be_met_instead(
    place: PolicyBucket, seeds: Path
) -> None:
    (seeds / "acme" / "default.json").write_bytes(
        a_policy_of("seeded", validators=[{"id": f"v{n}"} for n in range(6)])
    )
    policy_table, followed = place.a_policy_table()
    with capture_log() as lines:
        await followed.load(seeds)
    assert [line["path"] for line in lines.all() if line["event"] == "policy.warning"] == [
        "pipeline"
    ]
    met = policy_table.find("acme", "default")
    assert met is not None
    assert met.refusal is not None


async def test_samples_give_way_to_a_directory_of_one_s_own(
    place: PolicyBucket, seeds: Path
) -> None:
    """`router serve --embedded` first, `--policies` later, on the same store."""
    policy_table, followed = place.a_policy_table()
    await followed.load(SAMPLE_POLICIES)
    await place.put("acme", "mine", a_policy_of("ann"), replaces=0, author="ann")
    assert chosen(policy_table, "fast") is not None
    (seeds / "_shared").mkdir()
    (seeds / "_shared" / "default.json").write_bytes(a_policy_of("seeded"))
    policy_table, followed = place.a_policy_table()
    with capture_log() as lines:
        await followed.load(seeds)
    told = {
        line["event"]: (line["tenant"], line["policy"])
        for line in lines.all()
        if line["event"].startswith("sample.")
    }
    assert told == {"sample.replaced": ("_shared", "default"), "sample.removed": ("acme", "fast")}
    assert {name: chosen(policy_table, name) for name in ("default", "fast", "mine")} == {
        "default": ("seeded", 2),
        "fast": None,
        "mine": ("ann", 1),
    }
    await followed.load(SAMPLE_POLICIES)
    assert chosen(policy_table) == ("seeded", 2)


async def test_samples_are_not_sown_beside_an_operators_policies(place: PolicyBucket) -> None:
    await place.put("acme", "mine", a_policy_of("ann"), replaces=0, author="ann")
    policy_table, followed = place.a_policy_table()
    await followed.load(SAMPLE_POLICIES)
    assert [policy_id for _, policy_id in policy_table.get_all()] == ["mine"]


async def test_what_is_no_policy_leaves_the_last_good_one_in_force_and_is_told(
    place: PolicyBucket,
) -> None:
    await place.put(*ACME, a_policy_of("a"), replaces=0, author="ann")
    policy_table, followed = place.a_policy_table()
    await followed.load()
    async with running(followed):
        for mistake in MISTAKES:
            await place.bucket.write(key(*ACME), mistake)
            await place.bucket.write("beacon", mistake)
            await until(lambda: "beacon" in followed.check.detail)
            assert chosen(policy_table) == ("a", 1)
            assert followed.check.ok
            assert key(*ACME) in followed.check.detail
            await place.bucket.write("beacon", b"")
        await place.delete(*ACME)
        await until(lambda: chosen(policy_table) is None)
        assert key(*ACME) not in followed.check.detail


async def test_who_begins_after_a_mistake_serves_what_the_others_still_serve(
    place: PolicyBucket,
) -> None:
    for name, provider in (("default", "a"), ("deleted", "b")):
        await place.put("acme", name, a_policy_of(provider), replaces=0, author="ann")
    await place.delete("acme", "deleted")
    for name in ("default", "deleted", "never"):
        for _ in range(2):
            await place.bucket.write(key("acme", name), b"{")
    policy_table, followed = place.a_policy_table()
    await followed.load()
    assert {name: chosen(policy_table, name) for name in ("default", "deleted", "never")} == {
        "default": ("a", 1),
        "deleted": None,
        "never": None,
    }
    assert key(*ACME) in followed.check.detail


async def test_without_a_bucket_a_router_does_not_begin(place: PolicyBucket) -> None:
    await place.bucket.unmake()
    _, followed = place.a_policy_table()
    with pytest.raises(BrokerUnavailable, match="topology apply"):
        await followed.load()
