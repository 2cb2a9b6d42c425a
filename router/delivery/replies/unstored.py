"""Whether the stream stores the requests that are heard
(docs/reference/contracts.md#heard-not-stored).

Their stream is `no_ack`, so the server is silent where it stores none: the account has no room, the
disk is full, the subject was taken off the stream, the stream was deleted. What passes by is
therefore compared with what is stored:

    heard ── a message was delivered that was stored since ──> stored
      └── none for BOUND_S: ask for the stream's info ── it stored a message since ──> stored
                 └── two infos, none, and not each of what was heard can be a copy of a stored request ──> `cause`

What is heard within the duplicate window of the newest stored request may be its copy, which the
stream drops by rule.
"""

from __future__ import annotations

from collections.abc import Callable

from router.core.clock import Clock
from router.delivery.wire.api import Json, nanos

BOUND_S = 1.5  # from hearing a request to looking for it in the stream
AGAIN_S = 1.0  # between two infos
SLACK_S = 0.5  # of the server's clock as this process reads it, and of a request's way
FORGET_S = 10.0  # without a request that is heard
# what a stream that is not there has stored
MISSING: Json = {"state": {"last_seq": -1, "last_ts": "1970-01-01T00:00:00Z"}}


class UnstoredRequests:
    """Of one stream. `cause`: what is wrong; None while requests are stored, or nothing is known of
    them.

    `find_stored_at`: when the message of the newest delivery was stored. `clock`: of the server
    that stores them, seconds since the epoch, as that is. `on_change` is called with each new
    cause.
    """

    def __init__(
        self,
        stream: str,
        duplicate_window_s: float,
        *,
        find_stored_at: Callable[[], float],
        on_change: Callable[[str | None], None],
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._window_s = duplicate_window_s
        self._find_stored_at = find_stored_at
        self._on_change = on_change
        self._clock = clock
        self._heard = 0
        # the oldest request that was heard and not found in the stream
        self._first_at: float | None = None
        self._newest_at = self._asked_at = 0.0
        self._last_sequence: int | None = None  # of the info before
        self.cause: str | None = None

    def look(self, heard: int) -> bool:
        """Whether the server should be asked. `heard`: the requests so far that a stream with room
        stores. Called fifty times a second.
        """
        if heard == self._heard and self._first_at is None:
            return False
        now = self._clock()
        if heard != self._heard:
            self._heard, self._newest_at = heard, now
        if self._first_at is None:
            self._first_at = now
        if self._find_stored_at() >= self._first_at - SLACK_S or now - self._newest_at > FORGET_S:
            self.reset()
            return False
        return now - self._first_at >= BOUND_S and now - self._asked_at >= AGAIN_S

    def on_info(self, info: Json | None) -> None:
        """Take what the server told of the stream; None: there is none."""
        state, before = (info or MISSING)["state"], self._last_sequence
        self._asked_at, self._last_sequence = self._clock(), state["last_seq"]
        stored_at = nanos(state["last_ts"]) / 1e9
        if self._first_at is None or before is None:
            return
        if self._last_sequence != before or stored_at >= self._first_at - SLACK_S:
            self.reset()
        elif self._newest_at > stored_at + self._window_s + SLACK_S:
            self._change(
                f"requests are heard, and the stream {self._stream} stores none: look at "
                "its room, its subjects and the disk"
            )

    def reset(self) -> None:
        """Nothing is known of what was heard so far."""
        self._first_at = self._last_sequence = None
        self._change(None)

    def _change(self, cause: str | None) -> None:
        if cause != self.cause:
            self.cause = cause
            self._on_change(cause)
