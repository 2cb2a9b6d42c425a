"""Where a warehouse's files are: a directory, or a bucket that pyarrow has a filesystem for (`s3://`, `gs://`, `abfs://`).

    create    writes the whole file or nothing, and only if there is none yet

On a local disk `create` makes a hard link to a finished file: the kernel lets exactly one writer win. An object store shows an
object when it is complete; there the check before it is no lock, so a warehouse in a bucket has one writer at a time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyarrow import ArrowInvalid, fs

from router.core.errors import Conflict, Misconfigured


class Storage:
    """Files below one root; names are relative to it."""

    def __init__(self, location: str) -> None:
        whole = location if "://" in location else str(Path(location).expanduser().absolute())
        try:
            self.filesystem, self._root = fs.FileSystem.from_uri(whole)
        except (ArrowInvalid, NotImplementedError) as exc:
            raise Misconfigured("warehouse", f"{location}: a directory, or a URI such as s3://bucket/path ({exc})") from exc
        self.location = whole.removeprefix("file://").rstrip("/")

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def uri(self, name: str) -> str:
        """Return the path for Spark and other programs: with the scheme, if there is one."""
        return f"{self.location}/{name}"

    def resolve(self, name: str) -> str:
        """Return the path for `filesystem`."""
        return f"{self._root}/{name}"

    def list_names(self, directory: str) -> list[fs.FileInfo]:
        """List a directory; nothing if there is none."""
        return list(self.filesystem.get_file_info(fs.FileSelector(self.resolve(directory), allow_not_found=True)))

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(self.resolve(name)) as stream:
            return bytes(stream.read())

    def create(self, name: str, data: bytes) -> None:
        """Write a new file. Raises Conflict if it exists."""
        if self.is_local:
            _link(Path(self.resolve(name)), data)
            return
        if self.filesystem.get_file_info(self.resolve(name)).type is not fs.FileType.NotFound:
            raise Conflict(f"{name} exists: another writer was first")
        with self.filesystem.open_output_stream(self.resolve(name)) as stream:
            stream.write(data)

    def remove(self, directory: str) -> None:
        self.filesystem.delete_dir(self.resolve(directory))


def _link(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".draft-", dir=target.parent)
    os.fchmod(descriptor, 0o644)  # other users read the log
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)
    except FileExistsError as exc:
        raise Conflict(f"{target.name} exists: another writer was first") from exc
    finally:
        os.unlink(draft)
    _sync(target.parent)


def _sync(directory: Path) -> None:
    """Write the directory to the disk, so that the new name outlives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
