"""What hatchling adds to a wheel besides the package: the man page and the shell completions, where
a system looks for them.

It is run by the builder in its own environment, so it imports the standard library, hatchling and
its neighbour.
"""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path("deploy") / "packaging"
COMPLETIONS = {
    "router.bash": "share/bash-completion/completions/router",
    "_router": "share/zsh/site-functions/_router",
    "router.fish": "share/fish/vendor_completions.d/router.fish",
}


class SharedFilesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Of the wheel alone: a source distribution holds what these files are made of."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        here = Path(self.root) / HERE
        man = runpy.run_path(str(here / "man_page.py"))
        self._scratch = tempfile.TemporaryDirectory()
        page = Path(self._scratch.name) / "router.1"
        page.write_text(
            man["build_man_page"](self.metadata.version, man["COMMANDS"].read_text("utf-8")),
            "utf-8",
        )
        build_data["shared_data"] = {
            str(page): "share/man/man1/router.1",
            **{str(here / "completions" / name): place for name, place in COMPLETIONS.items()},
        }

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._scratch.cleanup()
