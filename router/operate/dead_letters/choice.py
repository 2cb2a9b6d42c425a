"""Which dead letters an operator chose, by a command or in the console: by their sequences, or by a
filter, or all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.delivery.wire.api import JetStream
from router.operate.dead_letters.listing import NO_FILTER, DeadLetterFilter
from router.operate.dead_letters.selection import (
    SELECTION_PAGE,
    DeadLetterBatch,
    read_by_filter,
    read_by_sequence,
)

SHOWN_SEQUENCES = 20


class DeadLetterChoice(Struct, frozen=True):
    """`sequences`, if there are any, else all that match. `only_tenant`: of these, one tenant's
    alone; others count as absent.
    """

    sequences: Sequence[int] = ()
    matching: DeadLetterFilter = NO_FILTER
    only_tenant: str | None = None

    @property
    def tenant(self) -> str | None:
        return self.only_tenant or self.matching.tenant

    def describe(self, stream: str) -> str:
        """For people and for the audit: `ROUTER_DLQ 17 18`, `ROUTER_DLQ reason=unreadable`."""
        if self.sequences:
            more = " …" if len(self.sequences) > SHOWN_SEQUENCES else ""
            return f"{stream} {' '.join(map(str, self.sequences[:SHOWN_SEQUENCES]))}{more}"
        given = {
            name: value
            for name in self.matching.__struct_fields__
            if (value := getattr(self.matching, name)) is not None
        }
        return f"{stream} {' '.join(f'{name}={value}' for name, value in given.items()) or 'all'}"

    async def read(
        self, jetstream: JetStream, stream: str, at_once: int = SELECTION_PAGE
    ) -> AsyncIterator[DeadLetterBatch]:
        """Read them in batches, oldest first."""
        if self.sequences:
            batches = read_by_sequence(jetstream, stream, self.sequences, at_once)
        else:
            batches = read_by_filter(jetstream, stream, self.matching, at_once)
        async for batch in batches:
            yield batch if self.only_tenant is None else _limit(batch, self.only_tenant)


def _limit(batch: DeadLetterBatch, tenant: str) -> DeadLetterBatch:
    letters = [one for one in batch.letters if one.tenant_id == tenant]
    foreign = [one.sequence for one in batch.letters if one.tenant_id != tenant]
    return replace(batch, letters=letters, absent=[*batch.absent, *foreign])
