"""What a backup holds: one file for each stream, and `manifest.json`, which is written last.
Without it a backup is not whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.core.errors import RouterError
from router.core.whole_files import replace_file
from router.delivery.wire.api import Json

MANIFEST = "manifest.json"
FORMAT = 1
READ_BYTES = 128 * 1024


class UnusableBackup(RouterError):
    """The directory holds no whole backup, or not what its manifest says."""

    code = "unusable_backup"


class SavedStream(Struct, frozen=True, kw_only=True):
    """One stream of a backup. `config` and `state` are the server's; `bytes` and `sha256` are the
    file's.
    """

    name: str
    file: str
    bytes: int
    sha256: str
    messages: int
    last_sequence: int
    consumers: int
    config: Json
    state: Json


class Manifest(Struct, frozen=True, kw_only=True):
    """`began_at`: before the first snapshot. What was acked after it may be missing, and is handled
    again after a restore.
    """

    format: int = FORMAT
    began_at: datetime
    server: str
    streams: list[SavedStream]


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Under its name only when it is whole and on the disk."""
    with replace_file(directory / MANIFEST, is_private=True) as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def read_manifest(directory: Path) -> Manifest:
    """Raises UnusableBackup."""
    try:
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError as exc:
        raise UnusableBackup(
            f"{directory} has no {MANIFEST}: it is no backup, or one that did not come to its end"
        ) from exc
    except (OSError, *UNREADABLE_ERRORS) as exc:
        raise UnusableBackup(f"{directory / MANIFEST} cannot be read: {exc}") from exc
    if manifest.format != FORMAT:
        raise UnusableBackup(
            f"{directory / MANIFEST} has format {manifest.format}; this version reads {FORMAT}"
        )
    return manifest


def verify_files(directory: Path, manifest: Manifest) -> None:
    """Raises UnusableBackup for the first file that is not what the manifest says."""
    for saved in manifest.streams:
        if "/" in saved.file or saved.file.startswith("."):
            raise UnusableBackup(
                f"{directory / MANIFEST} names a file outside of {directory}: {saved.file}"
            )
        size, digest = 0, hashlib.sha256()
        for chunk in read_chunks(directory / saved.file):
            size += len(chunk)
            digest.update(chunk)
        if (size, digest.hexdigest()) != (saved.bytes, saved.sha256):
            raise UnusableBackup(
                f"{directory / saved.file} is not what {MANIFEST} says: it has {size} "
                "bytes and another checksum"
            )


def read_chunks(file: Path) -> Iterator[bytes]:
    """The file's bytes, piece by piece. Raises UnusableBackup."""
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(READ_BYTES):
                yield chunk
    except OSError as exc:
        raise UnusableBackup(f"{file} cannot be read: {exc.strerror}") from exc
