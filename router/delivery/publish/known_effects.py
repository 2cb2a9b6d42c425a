"""Which effects are sent once, and which a second time: none that is stored already or on its way,
and one whose publish ack a vanished leader may owe.

A stream drops a second message with the same id, but a plain subscriber on the subject receives it.
So an effect that names its owner is published once within `keep_s`:

    first of its id           -> published
    its copy is on its way    -> waits for that copy's publish ack
    its publish ack is known  -> that publish ack, marked duplicate

A reconnect clears this, because a killed server may have lost what it acknowledged last. After a
restart, or on another instance, the effect is published again, and its stream drops it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from router.core.bounded_cache import PartedCache
from router.core.message import Effect
from router.core.outcome import PublishAck

LIMIT = 100_000  # publish acks, some 30 MB; each owner has a share


class KnownEffects:
    """Effects of one subscription, by id."""

    def __init__(self, keep_s: float, limit: int = LIMIT) -> None:
        self._keep_s = keep_s
        self._limit = limit
        self._reconnects = 0  # when the oldest of these was published
        self._stored: PartedCache[str, PublishAck] = PartedCache(limit)

    def publish_ack_of(self, effect: Effect, reconnect_count: int, now: float) -> PublishAck | None:
        """The publish ack of an earlier copy, as the server would send it again. `now`: steady
        seconds.
        """
        if reconnect_count != self._reconnects:
            self._reconnects, self._stored = reconnect_count, PartedCache(self._limit)
            return None
        publish_ack = self._stored.get(effect.id, now)
        return None if publish_ack is None else replace(publish_ack, is_duplicate=True)

    def keep(self, effect: Effect, publish_ack: PublishAck, now: float) -> None:
        self._stored.put(effect.id, publish_ack, now + self._keep_s, now, owner=effect.owner)

    def __len__(self) -> int:
        return len(self._stored)


# -- Which effects without a publish ack are sent a second time before their time is over, and
# what the answer to such a copy proves.
#
# A leader that vanished takes what was published to it with it, and says nothing. The next leader
# comes within seconds, so the oldest effect of each subject is sent again each second, as a probe
# with an inbox of its own:
#
#     the first copy is acked               the server is slow, and nothing is lost
#     the probe is acked, the first is not  a leader handles a subject's messages in order, so what
#                                           was sent before the probe is lost
#
# This file sends nothing and knows no connection. Of a bucket all keys count as one subject,
# because they have one leader.


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
