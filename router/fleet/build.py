"""Which code a process runs, as far as parent and worker must agree on it.

A worker starts from what is installed at that moment, the parent from what was installed when it was started. Settings that
one build wrote are not settings of another: a field that the other one looks for would be missing in the midst of its work.
"""

from __future__ import annotations

import hashlib

from router import __version__
from router.config import Settings
from router.config.group import leaves
from router.errors import RouterError


class CodeChanged(RouterError):
    """The code on disk is no longer the parent's. A new parent is needed: `restart`, not `reload`."""

    code = "code_changed"

    def __init__(self) -> None:
        super().__init__("the code has changed since this parent was started: restart it")


def build() -> str:
    """The version, and a digest of the names of all settings: equal where pickled settings mean the same."""
    names = "\n".join(setting.name for setting in leaves(Settings()))
    return f"{__version__}+{hashlib.sha256(names.encode()).hexdigest()[:16]}"
