"""A directory seeds the bucket of policies: only what the bucket never had. `router policy sync`
makes them equal.

Several instances may seed at once: each policy is written by one of them. A policy that an operator
deleted is not written again. A policy that refuses every request is written too, with a warning:
without it the shared policy of its name would apply, which may lack its validators.

The samples of the package are written only to a bucket that holds no other policy. The first
directory of a user replaces them: a sample that the directory does not hold is removed, and a log
line names each.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from router.contracts.version_record import VersionRecord, document_hash
from router.core.errors import Conflict
from router.policies.files import Key, read_policies
from router.policies.model import ParsedPolicy, lint, load_policy
from router.policies.store import PolicyStore
from router.process.observability import events, logs

log = logs.logger(__name__)

SEED, SAMPLES = "seed", "samples"  # the authors of seeded policies
# those that the demo and `router serve --embedded` use
SAMPLE_POLICIES = Path(__file__).parent / "sample_policies"


async def seed(store: PolicyStore, root: Path) -> None:
    """Seed the bucket from a directory; log an illegal file with its path and go on. Raises
    BrokerUnavailable.
    """
    files = await asyncio.to_thread(read_policies, root, load_policy)
    for mistake in files.mistakes:
        log.error(
            events.POLICY_BROKEN, path=mistake.path, where=mistake.where, error=mistake.message
        )
    author = SAMPLES if root == SAMPLE_POLICIES else SEED
    standing = {(one.tenant_id, one.policy_id): one.record for one in await store.list()}
    if author == SAMPLES and not all(record.author == SAMPLES for record in standing.values()):
        return
    if author == SEED:
        await _clear(
            store,
            {
                key: record
                for key, record in standing.items()
                if record.author == SAMPLES and key not in files.policies
            },
        )
    await asyncio.gather(
        *(
            _sow(store, key, parsed, standing.get(key), author)
            for key, parsed in files.policies.items()
        )
    )


async def has_only_samples(store: PolicyStore) -> bool:
    """Whether the bucket holds no policy but samples. Raises BrokerUnavailable."""
    return all(one.record.author == SAMPLES for one in await store.list())


async def _sow(
    store: PolicyStore, key: Key, parsed: ParsedPolicy, record: VersionRecord | None, author: str
) -> None:
    if record is not None and (record.author != SAMPLES or author == SAMPLES):
        if record.hash != document_hash(parsed.document):
            log.info(
                events.POLICY_NOT_SEEDED,
                tenant=key[0],
                policy=key[1],
                version=record.version,
                by=record.author,
            )
        return
    if await store.seed(*key, parsed, replaces=record, author=author):
        if record is not None:
            log.info(
                events.SAMPLE_REPLACED, tenant=key[0], policy=key[1], version=record.version + 1
            )
        for warning in (
            *parsed.warnings,
            *(found for found in lint(parsed.policy) if found.severity == "error"),
        ):
            log.warning(
                events.POLICY_WARNING,
                tenant=key[0],
                policy=key[1],
                path=warning.path,
                warning=warning.message,
            )


async def _clear(store: PolicyStore, unwanted: dict[Key, VersionRecord]) -> None:
    for key, record in unwanted.items():
        try:
            await store.delete(*key, replaces=record.version)
            log.info(events.SAMPLE_REMOVED, tenant=key[0], policy=key[1], version=record.version)
        except Conflict:
            continue  # a user has changed the sample since
