"""Keeps the tenants that have earned a place in the turns, so that a restart forgets none.

    load, before the first request ──> what was known
    run (a helper): every second ──> who was answered; once half a minute ──> the document, if it has changed

All instances share one document, in the bucket of rate limits. Each write names the revision that
it replaces, after what the others know is taken over. While the bucket is unavailable each instance
goes on with what it knows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from router.contracts.stored_record import record_bytes
from router.core.errors import Conflict, Poison, RouterError
from router.decide.model.tenant_places import PlacesRecord, TenantPlaces, read_places_record
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

# no limit's key: those have two names
PLACES_KEY = "_places"
LOOK_S = 1.0
LOOKS_TO_SHARE = 30
LAST_WRITE_S = 2.0  # when the router stops


class StoredPlaces:
    """`run` is a helper of the tree."""

    def __init__(self, jetstream: JetStream, bucket: str, places: TenantPlaces) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._places = places
        self._lines = LogRateLimit(every_s=60.0)

    async def load(self) -> None:
        """Take over what is stored. Where the bucket is unavailable the process starts anyway."""
        try:
            await self._read()
        except RouterError as exc:
            self._tell(exc)

    async def run(self) -> None:
        looks = 0
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                self._places.look()
                looks += 1
                if looks % LOOKS_TO_SHARE == 0:
                    await self.share()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WRITE_S):
                    await self.share()

    async def share(self) -> None:
        """Read what others have stored, and add what is known here."""
        try:
            revision, record = await self._read()
            if self._places.is_to_be_stored(record):
                await self._write(revision)
        except Conflict:
            pass  # by another instance: the next round adds what is missing
        except RouterError as exc:
            self._tell(exc)

    async def _write(self, revision: int | None) -> None:
        value = record_bytes(self._places.build_record())
        try:
            await self._documents.put(PLACES_KEY, value, revision=revision)
        except BaseException:  # a cancellation as well: whether it is stored is not known
            self._places.is_changed = True
            raise

    async def _read(self) -> tuple[int | None, PlacesRecord]:
        """The revision and the document. Raises BrokerUnavailable. One that no router wrote is told,
        and replaced.
        """
        entry = await self._documents.get(PLACES_KEY)
        if entry is None:
            return None, PlacesRecord()
        try:
            record = read_places_record(entry.value)
        except Poison as exc:
            self._tell(exc)
            record = PlacesRecord()
        self._places.merge(record)
        return entry.revision, record

    def _tell(self, cause: RouterError) -> None:
        if self._lines.allow("places"):
            log.warning(events.PLACES_NOT_SHARED, cause=str(cause))
