"""What `router doctor` finds of the gateway's keys: whether any client is let in, and who soon
will not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.config import Settings
from router.core.clock import now_ms
from router.core.errors import Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.gateway.keys.model.api_key import ApiKey, ApiKeyError
from router.gateway.keys.store import read_stored_key
from router.operate.doctor import Finding
from router.operate.doctor.facts import ok, warn

CHECK = "gateway keys"
SOON_DAYS = 7
TOLD = 3  # ids in a finding


async def examine_keys(jetstream: JetStream, settings: Settings) -> list[Finding]:
    """None where the bucket cannot be read: the topology's check, or the one of permissions, says
    so.
    """
    try:
        entries = await DocumentBucket(jetstream, settings.buckets.keys.name).read_all()
    except RouterError:
        return []
    keys, unread = [], []
    for name, entry in sorted(entries.items()):
        try:
            keys.append(read_stored_key(entry).key)
        except (Poison, ApiKeyError):
            unread.append(name)
    return list(judge_keys(keys, unread, now_ms()))


def judge_keys(keys: Sequence[ApiKey], unread: Sequence[str], at_ms: int) -> Iterator[Finding]:
    """`unread`: ids of keys whose documents cannot be read whole."""
    if unread:
        yield warn(
            CHECK,
            f"refused, because their documents cannot be read: {_name(unread)}",
            "run the version that wrote them, or `router key revoke ID` and `router key create`",
        )
    in_force = [key for key in keys if not key.is_expired(at_ms)]
    ending = [key.key_id for key in in_force if _ends_soon(key, at_ms)]
    if keys and not in_force:
        remedy = "make another: `router key create TENANT`"
        yield warn(CHECK, f"every one has ended ({len(keys)}): no client is let in", remedy)
    elif ending:
        yield warn(
            CHECK,
            f"{len(ending)} of {len(in_force)} end within {SOON_DAYS} days: {_name(ending)}",
            "`router key rotate ID`, and give the client the new one",
        )
    elif in_force:
        tenants = len({key.tenant_id for key in in_force})
        yield ok(
            CHECK, f"{len(in_force)} in force, of {tenants} tenant{'s' if tenants > 1 else ''}"
        )
    elif not unread:
        yield ok(CHECK, "none: no HTTP client is let in")


def _ends_soon(key: ApiKey, at_ms: int) -> bool:
    """A key that was rotated is meant to end."""
    return key.replaced_by is None and key.is_expired(at_ms + SOON_DAYS * 86_400_000)


def _name(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - TOLD} more" if len(ids) > TOLD else ""
    return ", ".join(ids[:TOLD]) + more
