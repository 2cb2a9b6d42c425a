"""The durable of a worker as the server has it: another worker, or an operator, may have made it with other settings.

ack wait    the durable's own says how often in-progress signals go out: by a longer one, others would get work in progress
filter      must be the one that this worker asks for: else it would do other work, or wait for what never comes
the rest    is used as it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from router.core.errors import Misconfigured
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import NANOS_PER_S, ConsumerSpec

ALL = "every subject"


class SharedDurable:
    """`wanted`: the durable as this worker would make it. `on_ack_wait` gets each ack wait that is read, in seconds."""

    def __init__(self, jetstream: JetStream, wanted: ConsumerSpec) -> None:
        self._jetstream = jetstream
        self._wanted = wanted
        self.ack_wait_s = wanted.ack_wait
        self.on_ack_wait: Callable[[float], None] = lambda _: None

    async def read(self, info: Json) -> None:
        """Read what the server tells of it. Raises Misconfigured for another filter, BrokerUnavailable."""
        config = info["config"]
        await self._check_filter(_filters_of(config))
        self.ack_wait_s = config.get("ack_wait", 0) / NANOS_PER_S or self._wanted.ack_wait
        self.on_ack_wait(self.ack_wait_s)

    async def _check_filter(self, has: set[str]) -> None:
        wanted = _filters_of(self._wanted.to_json())
        if has == wanted or (not (has and wanted) and (has or wanted) == await self._read_subjects()):
            return
        raise Misconfigured(
            "subject",
            f"the durable {self._wanted.durable} of {self._wanted.stream} gets {_list(has)}, and this worker asks for {_list(wanted)}: "
            "ask for the same, name another durable, or delete that one",
        )

    async def _read_subjects(self) -> set[str]:
        """The stream's: no filter is the same as all of them."""
        info = await self._jetstream.stream(self._wanted.stream)
        return set(info["config"].get("subjects") or ()) if info is not None else set()


def _filters_of(config: Json) -> set[str]:
    one = config.get("filter_subject")
    return {one} if one else set(config.get("filter_subjects") or ())


def _list(subjects: Iterable[str]) -> str:
    return ", ".join(sorted(subjects)) or ALL
