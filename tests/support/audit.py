"""Where a test keeps the audit events of writes, instead of in a stream."""

from router.operate.audit import OperatorWrite


class KeptTrail:
    """`events`: the oldest first."""

    def __init__(self) -> None:
        self.events: list[OperatorWrite] = []

    async def record(self, write: OperatorWrite) -> None:
        self.events.append(write)
