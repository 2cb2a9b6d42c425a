"""Which effects without a publish ack are sent a second time before their time is over, and what
the answer to such a copy proves.

A leader that vanished takes what was published to it with it, and says nothing. The next leader
comes within seconds, so the oldest effect of each subject is sent again each second, as a probe
with an inbox of its own:

    the first copy is acked               the server is slow, and nothing is lost
    the probe is acked, the first is not  a leader handles a subject's messages in order, so what
                                          was sent before the probe is lost

This file sends nothing and knows no connection. Of a bucket all keys count as one subject, because
they have one leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

PROBE_AFTER_S = 1.0  # without a publish ack; between two probes of a subject as well
MAX_SUBJECTS = 8  # with a probe at a time
MAX_LOOKED_AT = 256  # effects at a look


class Probe(Struct, frozen=True):
    """A second copy that was sent. `at`: steady seconds."""

    inbox: str  # of the first copy
    group: str
    at: float


class PublishProbes:
    """Of one publisher."""

    def __init__(self) -> None:
        self._sent: dict[str, Probe] = {}  # by the probe's own inbox, oldest first
        self._last: dict[str, float] = {}  # when the newest probe of a group was sent

    def find_due(self, sent: Iterable[tuple[str, str, float]], now: float) -> Mapping[str, str]:
        """The groups to probe now, with the inbox of the oldest effect of each. `sent`: inbox,
        subject, when it was sent; oldest first.
        """
        due: dict[str, str] = {}
        for inbox, subject, at in islice(sent, MAX_LOOKED_AT):
            if at > now - PROBE_AFTER_S or len(due) == MAX_SUBJECTS:
                break
            due.setdefault(group_of(subject), inbox)
        return {
            group: inbox
            for group, inbox in due.items()
            if self._last.get(group, 0.0) <= now - PROBE_AFTER_S
        }

    def add(self, inbox: str, probe: Probe) -> None:
        self._sent[inbox] = probe
        self._last[probe.group] = probe.at

    def pop(self, inbox: str) -> Probe | None:
        """The probe that was sent with this inbox."""
        return self._sent.pop(inbox, None)

    def forget(self, before: float) -> None:
        """No answer is expected any more to what was sent before."""
        while self._sent and next(iter(self._sent.values())).at < before:
            del self._sent[next(iter(self._sent))]
        self._last = (
            {group: at for group, at in self._last.items() if at >= before}
            if self._last
            else self._last
        )


def group_of(subject: str) -> str:
    """Subjects of one group have one leader: a subject of its own, or all keys of a bucket."""
    head, kv, rest = subject.partition("$KV.")
    return head + kv + rest.partition(".")[0] if kv else subject
