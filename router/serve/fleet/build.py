"""Which code a process runs, as far as parent and child must agree on it.

A child runs the code installed when it starts, the parent the code installed when the parent
started. Settings that one build wrote must not be read by another: a field that the other build
needs could be missing while it works.
"""

from __future__ import annotations

import hashlib

from router import __version__
from router.config import Settings
from router.core.errors import RouterError
from router.core.setting_values import list_settings


class BuildChanged(RouterError):
    """The code on disk is no longer the parent's. The parent must be restarted; a reload is not
    enough.
    """

    code = "code_changed"

    def __init__(self) -> None:
        super().__init__("the code has changed since this parent was started: restart it")


def build_id() -> str:
    """The version, and a digest of the names of all settings: equal if pickled settings mean the
    same.
    """
    names = "\n".join(setting.name for setting in list_settings(Settings()))
    return f"{__version__}+{hashlib.sha256(names.encode()).hexdigest()[:16]}"
