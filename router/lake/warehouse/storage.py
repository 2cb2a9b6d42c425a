"""Where a warehouse's files are: a directory, or a bucket (`s3://`, `gs://`, `abfss://`).

pyarrow reads and writes the files, in tasks too; delta-rs commits, on the driver. Both take the
usual variables of the environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
`AWS_ALLOW_HTTP` …; https://delta-io.github.io/delta-rs/usage/loading-table/).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow import ArrowInvalid, fs

from router.core.errors import Misconfigured
from router.lake.errors import WarehouseUnavailable


class Storage:
    """Files below one root; names are relative to it."""

    def __init__(self, location: str) -> None:
        try:
            whole = location if "://" in location else str(Path(location).expanduser().absolute())
        except RuntimeError as exc:  # ~ of a user that does not exist, or has no home
            raise Misconfigured("warehouse", f"{location}: {exc}") from exc
        try:
            self.filesystem, self._root = _open_filesystem(whole)
        except (ArrowInvalid, NotImplementedError) as exc:
            raise Misconfigured(
                "warehouse", f"{location}: a directory, or a URI such as s3://bucket/path ({exc})"
            ) from exc
        except OSError as exc:
            raise WarehouseUnavailable(f"{location}: {exc}") from exc
        self.location = whole.removeprefix("file://").rstrip("/")

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def check(self) -> None:
        """Ask the bucket. Raises Misconfigured if there is none, WarehouseUnavailable if it does
        not answer, or not to this key.
        """
        if self.is_local:
            return
        bucket = self._root.partition("/")[0]
        try:
            info = self.filesystem.get_file_info(bucket)
        except OSError as exc:
            raise WarehouseUnavailable(f"{self.location}: {exc}") from exc
        if info.type is fs.FileType.NotFound:
            raise Misconfigured(
                "--warehouse",
                (
                    f"{self.location}: there is no bucket {bucket} at "
                    f"{_find_endpoint() or 'this provider'}"
                ),
            )

    def uri(self, name: str) -> str:
        """Return the path for Spark and other programs: with the scheme, if there is one."""
        return f"{self.location}/{name}"

    def resolve(self, name: str) -> str:
        """Return the path for `filesystem`."""
        return f"{self._root}/{name}"

    def has(self, name: str) -> bool:
        return bool(
            self.filesystem.get_file_info(self.resolve(name)).type is not fs.FileType.NotFound
        )

    def find_missing(self, names: Sequence[str]) -> list[str]:
        """Return those of the files that are not there."""
        infos = self.filesystem.get_file_info([self.resolve(name) for name in names])
        return [
            name
            for name, info in zip(names, infos, strict=True)
            if info.type is fs.FileType.NotFound
        ]

    def make_directory(self, name: str) -> None:
        """A directory for files that are written next. A bucket has none."""
        if self.is_local:
            self.filesystem.create_dir(self.resolve(name), recursive=True)


def _open_filesystem(whole: str) -> tuple[fs.FileSystem, str]:
    endpoint = _find_endpoint()
    if not whole.startswith("s3://") or not endpoint:
        opened: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(whole)
        return opened
    at, place = urlsplit(endpoint), urlsplit(whole)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(
        endpoint_override=at.netloc, scheme=at.scheme, region=region
    ), f"{place.netloc}{place.path}".rstrip("/")


def _find_endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
