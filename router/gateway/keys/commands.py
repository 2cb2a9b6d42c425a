"""`router key`: the API keys by which the gateway knows its clients.

create, rotate     print the secret, once
list, show         ids and rights
revoke             every gateway refuses the key within a second
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from router.core.clock import now_ms, read_end
from router.gateway.keys.model.api_key import ApiKeyError, MadeKey, make_key
from router.gateway.keys.store import AuditedKeys, KeyStore, StoredKey, open_keys
from router.gateway.keys.views import KEYS, list_key_fields
from router.policies.model.policy import RateLimit
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import record_missed_event, watch_deletion
from router.shell.options import Author, check_tenant, choose_author

_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(?:/([0-9]{1,6}))?")
ONCE = "It is shown this one time. Give it to the client, and keep no copy."

Tenant = Annotated[
    str, typer.Argument(metavar="TENANT", help="The tenant whose requests they are.")
]
KeyId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The key's id: the part between the two _ of the key.",
        show_default=False,
    ),
]


async def open_store(session: CommandSession) -> KeyStore:
    """Open the store. Raises BrokerUnavailable."""
    return open_keys(await session.open_jetstream(), session.settings.buckets.keys.name)


async def open_audited_store(session: CommandSession) -> AuditedKeys:
    """Open the store for writes. Raises BrokerUnavailable."""
    return AuditedKeys(await open_store(session), session)


# -- `list` and `show`.


@command()
async def list_(
    session: CommandSession,
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="Only this tenant's.")
    ] = None,
) -> None:
    """List the keys, or one tenant's; with --json one object a line. Exit status 0.

    A replaced key is in force until it expires. No secret is stored, so none is listed.

    Example:  router key list acme
    """
    keys = await (await open_store(session)).list(tenant)
    session.emit(keys, KEYS, empty="no keys")


@command()
async def show(session: CommandSession, key_id: KeyId) -> None:
    """Show what a key may do, and what replaces it. Exit status: 0 shown, 1 there is none.

    Example:  router key show 0f3a9c21b7d4
    """
    session.emit_one(list_key_fields(await (await open_store(session)).get(key_id)))


# -- `create`, `rotate` and `revoke`.


@command()
async def create(
    session: CommandSession,
    tenant: Tenant,
    *,
    name: Annotated[str, typer.Option(help="What or whom the key is for.")] = "",
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="30d, or an ISO time. Default: never."),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="The policies that requests may name. Default: every policy."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RPS[/BURST]",
            help="Requests a second in one gateway, and at once. Default: no limit.",
        ),
    ] = None,
    author: Author = None,
) -> None:
    """Make a key of a tenant, and print it: its secret is shown this one time.

    Only a hash of the secret is stored. A gateway takes the key within a second. Exit status: 0
    made, 1 refused.

    Example:  router key create acme --name billing --expires 90d --policies default --rate 20/40
    """
    check_tenant(tenant)
    expires_ms = _read_end(expires, "--expires") if expires is not None else None
    made = make_key(
        tenant,
        now_ms(),
        name=name,
        expires_ms=expires_ms,
        policies=[policy.strip() for policy in policies.split(",")] if policies is not None else (),
        rate=_read_rate(rate) if rate is not None else None,
    )
    keys = await open_audited_store(session)
    written = await keys.create(made.key, author=choose_author(author))
    _print_made(session, made, written)


@command()
async def rotate(
    session: CommandSession,
    key_id: KeyId,
    *,
    overlap: Annotated[
        str,
        typer.Option(metavar="TIME", help="So long both keys are in force: 0s, 1h, 7d."),
    ] = "24h",
    author: Author = None,
) -> None:
    """Make a new key with the rights of this one, which ends after the overlap; print the new one.

    The new key lives as long as the old one was made for. Exit status: 0 made, 1 refused: there is
    no such key, it has expired, or it is replaced already.

    Example:  router key rotate 0f3a9c21b7d4 --overlap 1h
    """
    ends_ms = _read_end(overlap, "--overlap")
    keys = await open_audited_store(session)
    old = await keys.store.get(key_id)
    await _check_present(session, keys, old)
    key, now = old.key, now_ms()
    made = make_key(
        key.tenant_id,
        now,
        name=key.name,
        expires_ms=now + key.expires_ms - key.created_ms if key.expires_ms is not None else None,
        policies=key.policies,
        rate=key.rate,
        replaces=key.key_id,
    )
    ends_ms = min(ends_ms, key.expires_ms) if key.expires_ms is not None else ends_ms
    written = await keys.rotate(old, made.key, ends_ms=ends_ms, author=choose_author(author))
    _print_made(session, made, written)


@command()
async def revoke(session: CommandSession, key_id: KeyId) -> None:
    """Take a key back: every gateway refuses it within a second. Exit status: 0 it is revoked, 1
    there is none.

    Example:  router key revoke 0f3a9c21b7d4
    """
    keys = await open_audited_store(session)
    async with watch_deletion(session, keys, key_id):
        version = await keys.delete(key_id)
    session.emit_one(
        {"ok": True, "key_id": key_id, "version": version, "revoked": True}, f"{key_id}: revoked"
    )


async def _check_present(session: CommandSession, keys: AuditedKeys, old: StoredKey) -> None:
    """Raises ApiKeyError. A rotation that was killed before its event leaves it here."""
    key = old.key
    is_replaced = key.replaced_by is not None and await keys.store.find(key.replaced_by) is not None
    if is_replaced:
        await record_missed_event(session, keys, "key rotate", (key.key_id,), keys.describe(old))
        raise ApiKeyError(f"{key.key_id} is replaced by {key.replaced_by}: rotate that one")
    if key.is_expired(now_ms()):
        raise ApiKeyError(f"{key.key_id} has expired: create another key")


def _print_made(session: CommandSession, made: MadeKey, written: StoredKey) -> None:
    key = written.key
    session.emit_one(
        {"ok": True, **list_key_fields(written), "key": made.text},
        f"{key.key_id}: a key of {key.tenant_id}. {ONCE}\n\n{made.text}",
    )


def _read_end(text: str, option: str) -> int:
    """Milliseconds since the epoch. Raises BadParameter."""
    try:
        return max(0, int(read_end(text).timestamp() * 1000))
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint=option) from None


def _read_rate(text: str) -> RateLimit:
    """`20` is `20/20`. Raises BadParameter."""
    found = _RATE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            "should be requests a second, and a burst: 20, 0.5, 20/40", param_hint="--rate"
        )
    per_second = float(found[1])
    return RateLimit(per_second, int(found[2]) if found[2] else max(1, round(per_second)))
