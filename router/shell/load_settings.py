"""The settings of a command: loaded, and variables that were probably meant for the router told on
standard error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from router.shell.exit_codes import complain

if TYPE_CHECKING:
    from router.config import Loaded

_TOLD: set[str] = set()  # variables: a service reads its settings again when it is told to


def load_settings_of_command(config: Path | None, given: Mapping[str, object]) -> Loaded:
    """Load every source. Raises Misconfigured."""
    from router.config import load
    from router.config.names import find_misspelled

    for name, near in find_misspelled(os.environ):
        if name not in _TOLD:
            _TOLD.add(name)
            with suppress(OSError):  # a service serves on where standard error is full
                complain(f"the variable {name} is not read; did you mean {near}?")
    return load(config, given)
