"""JSON documents in a directory, `<folder>/<name>.json`: what a bucket is seeded from, or made
equal to.

Read once, when asked; a directory is not watched. What is not read is told with its path, and takes
no neighbour along. Knows nothing of what the documents mean.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from router.core import ids

Key = tuple[str, str]  # folder, name: tenant (or `_shared`) and policy
MAX_DOCUMENT_BYTES = 1 << 20
SHARED = "_shared"


class Document(Struct, frozen=True):
    """One file's bytes, and the key that its place says."""

    path: str
    key: Key
    data: bytes


class UnreadableFile(Struct, frozen=True):
    """A path that is not read, and why."""

    path: str
    error: str


class _UnreadableError(Exception):
    """Why not."""


def read_documents(root: Path) -> list[Document | UnreadableFile]:
    """Everything below the directory, in the order of its names."""
    try:
        folders = sorted(os.listdir(root))
    except OSError as exc:
        return [UnreadableFile("", f"cannot be listed: {exc.strerror}")]
    return [document for folder in folders for document in _folder(root, folder)]


def _folder(root: Path, folder: str) -> Iterator[Document | UnreadableFile]:
    try:
        _check_folder(root, folder)
        files = sorted(os.listdir(root / folder))
    except (OSError, _UnreadableError) as exc:
        yield UnreadableFile(folder, _reason(exc))
        return
    for file in files:
        yield _look(root, folder, file)


def _check_folder(root: Path, folder: str) -> None:
    if not (ids.is_scoped(folder) or folder == SHARED):
        raise _UnreadableError("is not a folder's name: an id of a tenant, or _shared")
    _check_inside(root, root / folder)
    if not (root / folder).is_dir():
        raise _UnreadableError(
            "is not a folder: documents stand one level down, as <tenant>/<policy>.json"
        )


def _check_inside(root: Path, path: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise _UnreadableError("is a link that leaves the directory")


def _look(root: Path, folder: str, file: str) -> Document | UnreadableFile:
    path = root / folder / file
    try:
        name = _document_name(file)
        _check_inside(root, path)
        return Document(f"{folder}/{file}", (folder, name), _content(path))
    except (OSError, _UnreadableError) as exc:
        return UnreadableFile(f"{folder}/{file}", _reason(exc))


def _document_name(file: str) -> str:
    name = file.removesuffix(".json")
    if name == file or not ids.is_scoped(name):
        raise _UnreadableError("is not a document's name: an id and .json")
    return name


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise _UnreadableError("is not a file")
    with path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _UnreadableError(f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    return data


def _reason(exc: Exception) -> str:
    return (
        f"cannot be read: {exc.strerror}" if isinstance(exc, OSError) and exc.strerror else str(exc)
    )
