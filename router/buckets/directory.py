"""JSON documents in a directory, `<folder>/<name>.json`, read again when they change.

    scan ──> Entry for each file: its signature, its document, or what is wrong with it
      └─ differs from the scan before ──> on_change(all documents), on_error(path, message)

The last good version of a file stays in force until the file is mended or deleted, so neither an editor's half-written
file nor a mistake takes a document away. Knows nothing of what the documents mean: `read` says that.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from router import ids

T = TypeVar("T")

Key = tuple[str, str]  # folder, name: tenant (or `_shared`) and policy
OnError = Callable[[str, str], None]  # path, message: a human must act
LARGEST = 1 << 20
SHARED = "_shared"
_YOUNG_NS = 100_000_000  # a younger file may change again without a new time stamp

_Signature = tuple[int, int, int, int]
_NEVER: _Signature = (0, 0, 0, -1)  # equal to no file's: read it again next time
_GONE: _Signature = (0, 0, 0, -2)  # was there the time before


class _Entry(Struct, Generic[T], frozen=True):
    """What is known of one path. `found` outlives an error: it is the last good version."""

    signature: _Signature
    found: tuple[Key, T] | None = None
    error: str | None = None
    digest: str = ""  # of the bytes that were read last: equal bytes are not read into a new document


class _UnreadableError(Exception):
    """A path that is not read, and why."""


class Directory(Generic[T]):
    """A source of documents. `read` gets ((folder, name), bytes) and returns (key, document); what it raises is the file's error."""

    def __init__(
        self,
        root: Path,
        read: Callable[[Key, bytes], tuple[Key, T]],
        *,
        on_change: Callable[[Mapping[Key, T]], None],
        on_error: OnError,
        interval_s: float = 1.0,
    ) -> None:
        self._root = root
        self._read = read
        self._on_change = on_change
        self._on_error = on_error
        self._interval_s = interval_s
        self._entries: dict[str, _Entry[T]] = {}

    def load(self) -> Mapping[Key, T]:
        """Look once, now, on this thread; tell what changed, return what is in force."""
        self._accept(self._scan(self._entries))
        return _documents(self._entries)

    async def run(self) -> None:
        """Look every `interval_s` seconds, for ever; files are read off the loop, callbacks run on it."""
        while True:
            await asyncio.sleep(self._interval_s)
            self._accept(await asyncio.to_thread(self._scan, self._entries))

    def _accept(self, entries: dict[str, _Entry[T]]) -> None:
        before, after = _documents(self._entries), _documents(entries)
        if before.keys() != after.keys() or any(before[key] is not after[key] for key in after):
            self._on_change(after)
        for path, entry in entries.items():
            known = self._entries.get(path)
            if entry.error is not None and (known is None or known.error != entry.error):
                self._on_error(path, entry.error)
        self._entries = entries

    def _scan(self, known: Mapping[str, _Entry[T]]) -> dict[str, _Entry[T]]:
        try:
            folders = sorted(os.listdir(self._root))
        except OSError as exc:
            # A directory that is away for a moment is no order to forget everything.
            return {**known, "": _Entry(_NEVER, error=f"cannot be listed: {exc.strerror}")}
        entries: dict[str, _Entry[T]] = {}
        for folder in folders:
            entries.update(self._scan_folder(folder, known))
        return {**_missed_once(known, entries), **entries}

    def _scan_folder(self, folder: str, known: Mapping[str, _Entry[T]]) -> Iterator[tuple[str, _Entry[T]]]:
        try:
            self._check_folder(folder)
            files = sorted(os.listdir(self._root / folder))
        except (OSError, _UnreadableError) as exc:
            yield folder, _Entry(_NEVER, error=_reason(exc))
            yield from ((path, entry) for path, entry in known.items() if path.startswith(f"{folder}/"))
            return
        for file in files:
            path = f"{folder}/{file}"
            yield path, self._look(folder, file, known.get(path) or _Entry(_NEVER))

    def _check_folder(self, folder: str) -> None:
        if not (ids.is_scoped(folder) or folder == SHARED):
            raise _UnreadableError("is not a folder's name: an id of a tenant, or _shared")
        self._check_inside(self._root / folder)
        if not (self._root / folder).is_dir():
            raise _UnreadableError("is not a folder: documents stand one level down, as <tenant>/<policy>.json")

    def _check_inside(self, path: Path) -> None:
        if path.is_symlink() and not path.resolve().is_relative_to(self._root.resolve()):
            raise _UnreadableError("is a link that leaves the directory")

    def _look(self, folder: str, file: str, known: _Entry[T]) -> _Entry[T]:
        """The entry for one file: the known one while its signature stands."""
        signature, digest = _NEVER, ""
        try:
            name, path = _document_name(file), self._root / folder / file
            self._check_inside(path)
            signature = _signature(path)
            if signature != _NEVER and signature == known.signature:
                return known
            data = _content(path)
            if (digest := ids.sha256_hex(data)) == known.digest:
                return _Entry(signature, known.found, known.error, digest)
            return _Entry(signature, self._read((folder, name), data), None, digest)
        except Exception as exc:  # whatever reading one file raises is that file's error, and no other's
            return _Entry(signature, known.found, _reason(exc), digest)


def _missed_once(known: Mapping[str, _Entry[T]], entries: Mapping[str, _Entry[T]]) -> dict[str, _Entry[T]]:
    # Some editors move a file away before they write it anew: only what is missing twice is deleted.
    missing = {path: entry for path, entry in known.items() if path not in entries and entry.signature != _GONE}
    return {path: _Entry(_GONE, entry.found) for path, entry in missing.items() if entry.found is not None}


def _documents(entries: Mapping[str, _Entry[T]]) -> dict[Key, T]:
    return dict(entry.found for entry in entries.values() if entry.found is not None)


def _document_name(file: str) -> str:
    name = file.removesuffix(".json")
    if name == file or not ids.is_scoped(name):
        raise _UnreadableError("is not a document's name: an id and .json")
    return name


def _signature(path: Path) -> _Signature:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise _UnreadableError("is not a file")
    if abs(time.time_ns() - found.st_mtime_ns) < _YOUNG_NS:
        return _NEVER
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise _UnreadableError(f"is larger than {LARGEST} bytes")
    return data


def _reason(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.strerror:
        return f"cannot be read: {exc.strerror}"
    return str(exc) or type(exc).__name__
