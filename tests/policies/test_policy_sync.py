"""A bucket made equal to a directory: the plan names every change, and no document is overwritten
that changed after the plan was made.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.core.errors import Conflict
from router.policies.store import AuditedPolicies
from router.policies.sync import apply_step, plan, read_policies
from tests.support.audit import KeptTrail
from tests.support.policy_buckets import PolicyBucket, a_policy_bucket, a_policy_of


@pytest.fixture
async def store(nats_url: str, prefix: str) -> AsyncIterator[PolicyBucket]:
    async with a_policy_bucket(nats_url, prefix) as place:
        for name in ("same", "other", "gone"):
            await place.put("acme", name, a_policy_of("a"), replaces=0, author="ann")
        yield place


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    (tmp_path / "acme").mkdir()
    (tmp_path / "_shared").mkdir()
    for name, provider in (("acme/same", "a"), ("acme/other", "b"), ("_shared/new", "c")):
        (tmp_path / f"{name}.json").write_bytes(a_policy_of(provider))
    return tmp_path


async def test_what_differs_is_put_and_what_is_not_there_is_deleted(
    store: PolicyBucket, wanted: Path
) -> None:
    steps = plan(read_policies(wanted).policies, await store.list())
    assert [
        (step.action, step.key, step.replaces, [change.path for change in step.changes])
        for step in steps
    ] == [
        ("put", ("_shared", "new"), None, []),
        ("delete", ("acme", "gone"), 1, []),
        ("replace", ("acme", "other"), 1, ["providers[a]", "providers[b]"]),
    ]
    trail = KeptTrail()
    for step in steps:
        await apply_step(AuditedPolicies(store, trail), step, "git")
    assert [
        (
            one.command,
            one.target,
            (one.before or {}).get("version"),
            (one.after or {}).get("version"),
        )
        for one in trail.events
    ] == [
        ("policy sync", "_shared/new", None, 1),
        ("policy sync", "acme/gone", 1, None),
        ("policy sync", "acme/other", 1, 2),
    ]
    assert plan(read_policies(wanted).policies, await store.list()) == []
    assert {
        (one.policy_id, one.record.version, one.record.author) for one in await store.list()
    } == {("same", 1, "ann"), ("other", 2, "git"), ("new", 1, "git")}


async def test_a_number_written_otherwise_is_no_difference(
    store: PolicyBucket, wanted: Path
) -> None:
    (wanted / "acme" / "same.json").write_bytes(
        a_policy_of("a").replace(b'"weight": 1', b'"weight": 1.0')
    )
    assert ("acme", "same") not in [
        step.key for step in plan(read_policies(wanted).policies, await store.list())
    ]


async def test_what_another_operator_wrote_after_the_plan_is_not_overwritten(
    store: PolicyBucket, wanted: Path
) -> None:
    steps = plan(read_policies(wanted).policies, await store.list())
    for name in ("gone", "other"):
        await store.put("acme", name, a_policy_of("mine"), replaces=1, author="ann")
    await store.put("_shared", "new", a_policy_of("mine"), replaces=0, author="ann")
    trail = KeptTrail()
    for step in steps:
        with pytest.raises(Conflict):
            await apply_step(AuditedPolicies(store, trail), step, "git")
    assert trail.events == []


def test_every_mistake_is_told_with_its_file_and_its_place(wanted: Path) -> None:
    (wanted / "acme" / "bad.json").write_text(
        '{"providers": [{"name": "x", "weight": -1}], "zz": 1}'
    )
    (wanted / "readme.md").write_text("")
    files = read_policies(wanted)
    assert [(one.path, one.where) for one in files.mistakes] == [
        ("acme/bad.json", "providers[0].weight"),
        ("acme/bad.json", "zz"),
        ("readme.md", ""),
    ]
    assert len(files.policies) == 3
