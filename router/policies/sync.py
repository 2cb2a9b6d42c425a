"""Makes a bucket equal to a directory of policies: it is read and checked, then a plan, then one
write after the other.

The directory, usually from Git, is the source: a policy that differs is put, one that it lacks is
deleted. Each write names the version that the plan saw, so it never overwrites a write of another
user: that step raises Conflict, and the caller plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import orjson
from msgspec import Struct

from router.delivery.kv.directory import UnreadableFile, read_documents
from router.policies.model import ParsedPolicy, PolicyError
from router.policies.model.difference import DocumentDifference, find_differences
from router.policies.store import AuditedPolicies, StoredPolicy, check_policy

# -- Reads and checks a directory of policies: all legal ones, and the mistakes of the others with
# their paths.


Key = tuple[str, str]  # tenant (or `_shared`), policy
Check = Callable[[bytes, str, str], ParsedPolicy]


class Mistake(Struct, frozen=True):
    """`path`: the file's, inside the directory; `where`: the place inside the document, empty for
    the file itself.
    """

    path: str
    where: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.where, self.message) if part)


class PolicyFiles(Struct, frozen=True):
    """The content of a directory."""

    policies: Mapping[Key, ParsedPolicy]
    mistakes: tuple[Mistake, ...]


def read_policies(root: Path, check: Check = check_policy) -> PolicyFiles:
    """Every document below it, `<tenant>/<policy>.json` and `_shared/`; `check` raises PolicyError."""
    policies: dict[Key, ParsedPolicy] = {}
    mistakes: list[Mistake] = []
    for document in read_documents(root):
        if isinstance(document, UnreadableFile):
            mistakes.append(Mistake(document.path, "", document.error))
            continue
        try:
            policies[document.key] = check(document.data, *document.key)
        except PolicyError as exc:
            mistakes += (Mistake(document.path, where, message) for where, message in exc.errors)
    return PolicyFiles(policies, tuple(mistakes))


# -- Makes a bucket equal to a directory: first a plan, then one write after the other.


PUT, REPLACE, DELETE = "put", "replace", "delete"


class PolicySyncStep(Struct, frozen=True):
    """One write. `replaces`: the version that was seen, None for a new policy; `changes`: of a
    replacement.
    """

    action: str
    key: Key
    replaces: int | None
    document: Mapping[str, object] | None  # None: to be deleted
    changes: tuple[DocumentDifference, ...] = ()


def plan(
    wanted: Mapping[Key, ParsedPolicy], standing: Iterable[StoredPolicy]
) -> list[PolicySyncStep]:
    """The steps, sorted by name; empty if nothing differs."""
    there = {(stored.tenant_id, stored.policy_id): stored.record for stored in standing}
    steps = []
    for key in sorted({*wanted, *there}):
        record, parsed = there.get(key), wanted.get(key)
        if parsed is None:
            steps.append(PolicySyncStep(DELETE, key, there[key].version, None))
        elif record is None:
            steps.append(PolicySyncStep(PUT, key, None, parsed.document))
        elif changes := tuple(find_differences(record.document, parsed.document)):
            steps.append(PolicySyncStep(REPLACE, key, record.version, parsed.document, changes))
    return steps


async def apply_step(policies: AuditedPolicies, step: PolicySyncStep, author: str) -> None:
    """Apply one step, which leaves its audit event. Raises Conflict."""
    event = await policies.open_event("policy sync", step.key)
    if step.document is None:
        await policies.store.delete(*step.key, replaces=step.replaces)
        await policies.trail.record(event)
        return
    version = await policies.store.put(
        *step.key, orjson.dumps(step.document), replaces=step.replaces or 0, author=author
    )
    await policies.close_event(event, step.key, version)
