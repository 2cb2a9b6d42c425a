"""Messages between the parent and a child process, over a socket pair that the child inherits.

parent    StartChild    the settings, once              ReadStatus    asks for the status
child     ChildStarted  requests are answered           ChildStatus   an answer, or the last status
                                                        before the end
          ChildFailed   the child ends, and why

`process.ipc` carries them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

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
