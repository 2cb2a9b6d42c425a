"""Messages between the parent and a child process, over a socket pair that the child inherits, and
the code on which both must agree.

parent    StartChild    the settings, once              ReadStatus    asks for the status
child     ChildStarted  requests are answered           ChildStatus   an answer, or the last status
                                                        before the end
          ChildFailed   the child ends, and why

`process.child_process` carries them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec import Struct

from router import __version__
from router.config import Settings
from router.core.errors import RouterError
from router.core.setting_values import list_settings
from router.process.observability import ReadinessCheck
from router.process.observability.exposition import Snapshot


class StartChild(Struct, tag=True):
    """`settings`: pickled, because secrets hide from every other encoding; only the parent can send
    it.

    `build_id`: the build of the settings; a child of another build does not unpickle them.
    """

    settings: bytes
    build_id: str = ""


class ReadStatus(Struct, tag=True):
    """Answered by one ChildStatus, in order."""


class ChildStarted(Struct, tag=True):
    """Requests are answered. `nats_url`: the server that the child is connected to."""

    nats_url: str


class ChildStatus(Struct, tag=True):
    """The readiness checks and all metrics of a child."""

    checks: Mapping[str, ReadinessCheck]
    families: Snapshot


class ChildFailed(Struct, tag=True):
    """Why the child ends. `setting`: the setting to correct, if a restart would not help; else
    empty.
    """

    setting: str
    text: str


FromParent = StartChild | ReadStatus
FromChild = ChildStarted | ChildStatus | ChildFailed


# -- Which code a process runs, as far as parent and child must agree on it.
#
# A child runs the code installed when it starts, the parent the code installed when the parent
# started. Settings that one build wrote must not be read by another: a field that the other build
# needs could be missing while it works.


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
