"""Checks a policy before it is written: its size, depth, ids, document and author.

This is stricter than what a router loads: a policy that refuses every request may be in a bucket,
but cannot be written through these checks.
"""

from __future__ import annotations

import asyncio

from router.core import ids
from router.delivery.kv.followed_bucket import SMALL
from router.delivery.kv.versioned_store import MAX_AUTHOR
from router.policies.model import SHARED, ParsedPolicy, PolicyError, lint, load_policy

LEGAL = "is not an id: 1..128 of A-Z a-z 0-9 _ . : - without . or _ in front"


def check_policy(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """Parse and lint a policy. Raises PolicyError with the path of each mistake, errors of lint
    included.
    """
    parsed = load_policy(data, tenant_id, policy_id)
    if mistakes := [
        (found.path, found.message) for found in lint(parsed.policy) if found.severity == "error"
    ]:
        raise PolicyError(mistakes)
    return parsed


async def check_policy_in_thread(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """`check_policy`; a large document is checked in a thread, so that it does not block the event
    loop.
    """
    if len(data) <= SMALL:
        return check_policy(data, tenant_id, policy_id)
    return await asyncio.to_thread(check_policy, data, tenant_id, policy_id)


def check_ids(tenant_id: str, policy_id: str) -> None:
    """Raises PolicyError for an illegal id; `_shared` is a legal tenant here."""
    legal = {
        "tenant_id": tenant_id == SHARED or ids.is_scoped(tenant_id),
        "policy_id": ids.is_scoped(policy_id),
    }
    if mistakes := [(name, LEGAL) for name, is_legal in legal.items() if not is_legal]:
        raise PolicyError(mistakes)


def check_author(author: str) -> None:
    if not (0 < len(author) <= MAX_AUTHOR and author.isprintable()):
        raise PolicyError([("author", f"should be 1..{MAX_AUTHOR} printable characters")])
