"""The policies of a server for the commands of `router policy`, and the options that several of
them share.
"""

from __future__ import annotations

from typing import Annotated

import typer

from router.delivery.kv.documents import DocumentBucket
from router.policies.model import PolicyError
from router.policies.store import AuditedPolicies, PolicyStore
from router.shell import exit_codes
from router.shell.output import print_json
from router.shell.session import CommandSession

Tenant = Annotated[
    str, typer.Argument(metavar="TENANT", help="The tenant, or _shared: every tenant's.")
]
Name = Annotated[str, typer.Argument(metavar="POLICY", help="The policy's id.")]
Author = Annotated[
    str | None,
    typer.Option("--author", help="Who writes it, for the history. Default: your login name."),
]


async def open_store(session: CommandSession) -> PolicyStore:
    """Open the store. Raises BrokerUnavailable."""
    return PolicyStore(
        DocumentBucket(await session.open_jetstream(), session.settings.buckets.policies.name)
    )


async def open_audited_store(session: CommandSession) -> AuditedPolicies:
    """Open the store for writes. Raises BrokerUnavailable."""
    return AuditedPolicies(await open_store(session), session)


def refuse(exc: PolicyError, file: str, as_json: bool) -> int:
    """Print every mistake of a document with its path; return the exit status."""
    if as_json:
        print_json(
            {
                "ok": False,
                "code": exc.code,
                "errors": [{"path": path, "message": message} for path, message in exc.errors],
            }
        )
    for path, message in exc.errors:
        exit_codes.complain(f"{file}: {path}: {message}")
    return exit_codes.NO
