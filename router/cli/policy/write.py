"""`router policy put`, `rollback`, `delete`: each writes one more version, and only over a version that the caller has seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json
from router.cli.policy.store import Author, Name, Tenant, choose_author, open_store, refuse
from router.cli.session import load_settings, run_client

if TYPE_CHECKING:
    from router.config import Settings

STDIN = Path("-")
Replaces = Annotated[int | None, typer.Option("--replaces", metavar="VERSION", help="The version that you saw and replace.", min=1)]


def put(
    tenant: Tenant,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The document; - reads standard input.", dir_okay=False)],
    *,
    replaces: Replaces = None,
    author: Author = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a policy: every router uses it within a second. Without --replaces there must be none yet.

    Exit status: 0 it is in force, 1 refused: the document is wrong, or another write came first.

    Example:  router policy put acme default ./default.json --replaces 3
    """
    with exit_codes.report_errors():
        settings, document = load_settings(nats_url, config), _read(file)
    exit_codes.run(_put(settings, (tenant, name), file, document, replaces=replaces or 0, author=choose_author(author), as_json=as_json))


def rollback(
    tenant: Tenant,
    name: Name,
    *,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The version to go back to; `history` lists them.", min=1)],
    author: Author = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write an earlier version again, as a new one. Works for a deleted policy too.

    Exit status: 0 it is in force, 1 that version is no longer stored, or another write came first.

    Example:  router policy rollback acme default --to 3
    """
    run_client(nats_url, config, lambda settings: _rollback(settings, (tenant, name), to, choose_author(author), as_json))


def delete(
    tenant: Tenant,
    name: Name,
    *,
    replaces: Replaces = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a policy: requests for it use the shared one, or get none. Its history stays, `rollback` restores it.

    Exit status: 0 it is deleted, 1 there is none, or its version is not the one of --replaces.

    Example:  router policy delete acme trial
    """
    run_client(nats_url, config, lambda settings: _delete(settings, (tenant, name), replaces, as_json))


async def _put(settings: Settings, key: tuple[str, str], file: Path, document: bytes, *, replaces: int, author: str, as_json: bool) -> int:
    from router.app.policy_check import check_policy
    from router.policy import PolicyError, lint

    try:
        parsed = check_policy(document, *key)
        async with open_store(settings) as store:
            version = await store.put(*key, document, replaces=replaces, author=author)
    except PolicyError as exc:
        return refuse(exc, str(file), as_json)
    warnings = [{"path": found.path, "message": found.message} for found in (*parsed.warnings, *lint(parsed.policy))]
    for warning in warnings:
        exit_codes.complain(f"{file}: {warning['path']}: {warning['message']}")
    _print_version(key, version, "in force", as_json, warnings=warnings)
    return exit_codes.OK


async def _rollback(settings: Settings, key: tuple[str, str], to: int, author: str, as_json: bool) -> int:
    async with open_store(settings) as store:
        version = await store.rollback(*key, to, author=author)
    _print_version(key, version, f"in force, as version {to} was", as_json, rolled_back_to=to)
    return exit_codes.OK


async def _delete(settings: Settings, key: tuple[str, str], replaces: int | None, as_json: bool) -> int:
    async with open_store(settings) as store:
        version = await store.delete(*key, replaces=replaces)
    _print_version(key, version, "deleted", as_json, deleted=True)
    return exit_codes.OK


def _read(file: Path) -> bytes:
    from router.errors import Misconfigured

    try:
        return sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
    except OSError as exc:
        raise Misconfigured(str(file), f"cannot be read: {exc.strerror}") from exc


def _print_version(key: tuple[str, str], version: int, what: str, as_json: bool, **facts: object) -> None:
    tenant, name = key
    if as_json:
        print_json({"ok": True, "tenant": tenant, "policy": name, "version": version, **facts})
    else:
        print(f"{tenant}/{name} version {version}: {what}")
