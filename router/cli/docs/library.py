"""Where the pages are, and which there are: `router/docs` in an installed package, `docs` beside
the package in a checkout.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from router.contracts.codes.pages import locate

INDEX = "README.md"
PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp"}


class PageLibrary:
    """The pages below one directory, by their path in it: `reference/policies.md`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pages = {
            file.relative_to(home).as_posix(): file for file in sorted(home.rglob("*.md"))
        }
        self.pictures = {
            file.relative_to(home).as_posix(): file
            for kind in PICTURES
            for file in sorted(home.rglob(f"*{kind}"))
        }

    def find(self, name: str) -> Path | None:
        """Return the page of a path, or of its last part without `.md`: `policies`. None if there
        is none.
        """
        return self.pages.get(name) or {file.stem: file for file in self.pages.values()}.get(name)

    def find_similar(self, name: str) -> list[str]:
        """Names of pages: those of a folder, `tutorials`, or those that are nearly called so."""
        if inside := [
            file.stem for path, file in self.pages.items() if path.startswith(f"{name.strip('/')}/")
        ]:
            return inside
        stems = [file.stem for file in self.pages.values()]
        return sorted(
            {*difflib.get_close_matches(name, stems, 3), *(stem for stem in stems if name in stem)}
        )


def open_library() -> PageLibrary | None:
    """Return the pages; None if they are not installed."""
    index = locate(f"docs/{INDEX}")
    return PageLibrary(index.parent) if index is not None else None
