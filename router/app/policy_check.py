"""What must be true of a policy before it is written down: its size, its depth, its ids, its document, its author.

Stricter than what a router takes: a policy that would refuse every request may stand in a bucket, but nobody can put it there.
"""

from __future__ import annotations

import asyncio

from router import ids
from router.app.large_documents import SMALL
from router.policy import SHARED, ParsedPolicy, PolicyError, lint, load_policy

LONGEST_AUTHOR = 128
LEGAL = "is not an id: 1..128 of A-Z a-z 0-9 _ . : - without . or _ in front"


def check_policy(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """The policy in these bytes. Raises PolicyError with the path of each mistake, what lint calls an error included."""
    parsed = load_policy(data, tenant_id, policy_id)
    if mistakes := [(found.path, found.message) for found in lint(parsed.policy) if found.severity == "error"]:
        raise PolicyError(mistakes)
    return parsed


async def check_policy_in_thread(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """`check_policy`; a large document in a thread, so that the loop goes on meanwhile."""
    if len(data) <= SMALL:
        return check_policy(data, tenant_id, policy_id)
    return await asyncio.to_thread(check_policy, data, tenant_id, policy_id)


def check_ids(tenant_id: str, policy_id: str) -> None:
    """`_shared` is a tenant here. Raises PolicyError."""
    legal = {"tenant_id": tenant_id == SHARED or ids.is_scoped(tenant_id), "policy_id": ids.is_scoped(policy_id)}
    if mistakes := [(name, LEGAL) for name, is_legal in legal.items() if not is_legal]:
        raise PolicyError(mistakes)


def check_author(author: str) -> None:
    if not (0 < len(author) <= LONGEST_AUTHOR and author.isprintable()):
        raise PolicyError([("author", f"should be 1..{LONGEST_AUTHOR} printable characters")])
