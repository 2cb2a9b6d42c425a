"""The options by which commands of `router dlq` select dead letters: by sequence in their stream,
or by a filter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from router.config import Settings
from router.core.clock import read_instant
from router.delivery.wire.api import JetStream
from router.operate.audit import OperatorWrite
from router.operate.dead_letters import DeadLetterBatch, DeadLetterChoice, DeadLetterFilter
from router.operate.dead_letters.dead_letter_writer import SYSTEMS, select_dead_letters
from router.operate.dead_letters.selection import SELECTION_PAGE
from router.shell.options import ConfigFile, NatsUrl
from router.shell.session import load_settings

Subject = Annotated[
    str | None,
    typer.Option(
        "--subject", help="Only dead letters of this subject; wildcards * and > are allowed."
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(
        "--reason", help="validation_failed, maxdeliver_exhausted, processing_error or unreadable."
    ),
]
Code = Annotated[
    str | None,
    typer.Option(
        "--code",
        help="Only dead letters with this code of an error, as `router dlq list` shows it.",
    ),
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only dead letters of this tenant.")]
Since = Annotated[str | None, typer.Option("--since", help="10m, 2h, 7d ago, or an ISO time.")]
Sequences = Annotated[
    list[int] | None,
    typer.Argument(metavar="[SEQ]…", help="The numbers in `router dlq list`.", min=1),
]
All = Annotated[bool, typer.Option("--all", help="Every dead letter that there is.")]
Of = Annotated[
    str,
    typer.Option(
        "--of", metavar="SYSTEM", help="Whose dead letters: router, bus, inbox or agents."
    ),
]


def load_system_settings(
    of: Of = "router", nats_url: NatsUrl = None, config: ConfigFile = None
) -> Settings:
    """Load the settings, with the dead letter stream of system `of` in place of the router's.
    Raises Misconfigured.
    """
    if of not in SYSTEMS:
        raise typer.BadParameter(f"should be one of {', '.join(SYSTEMS)}", param_hint="--of")
    return select_dead_letters(load_settings(nats_url, config), of)


def make_filter(
    subject: str | None, reason: str | None, code: str | None, tenant: str | None, since: str | None
) -> DeadLetterFilter:
    return DeadLetterFilter(
        subject=subject, reason=reason, code=code, tenant=tenant, since=parse_instant(since)
    )


class DeadLetterSelection:
    """What one command selected: sequences, or a filter, or all. Raises BadParameter if the options
    name none of these, or several.
    """

    def __init__(
        self, sequences: Sequence[int] | None, matching: DeadLetterFilter, *, is_all: bool
    ) -> None:
        has_filter = matching != DeadLetterFilter()
        if bool(sequences) + has_filter + is_all != 1:
            filters = "--subject, --reason, --code, --tenant, --since"
            raise typer.BadParameter(
                f"say which dead letters: their numbers, a filter ({filters}), or --all"
            )
        self.chosen = DeadLetterChoice(tuple(sequences or ()), matching)

    def describe_write(self, command: str, stream: str) -> OperatorWrite:
        """For the audit: which dead letters were selected."""
        return OperatorWrite(
            command=command, target=self.chosen.describe(stream), tenant_id=self.chosen.tenant
        )

    def read(
        self, jetstream: JetStream, stream: str, at_once: int | None = None
    ) -> AsyncIterator[DeadLetterBatch]:
        """Read them in batches, oldest first."""
        return self.chosen.read(jetstream, stream, at_once or SELECTION_PAGE)


def parse_instant(text: str | None) -> datetime | None:
    try:
        return read_instant(text) if text is not None else None
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--since") from None
