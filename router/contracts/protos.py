"""The .proto files: an installed package has them beside the code, a checkout beside the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FOLDER = "proto"


def list_protos() -> Iterator[tuple[str, str]]:
    """(path below the folder, text) of each file; none where they are not installed."""
    folder = next(
        (place / FOLDER for place in (PACKAGE, PACKAGE.parent) if (place / FOLDER).is_dir()), None
    )
    if folder is not None:
        for file in sorted(folder.rglob("*.proto")):
            yield str(file.relative_to(folder)), file.read_text("utf-8")
