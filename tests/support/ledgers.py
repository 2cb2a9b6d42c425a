"""A ledger of an invocation that keeps what it was told."""

from collections.abc import Mapping

from router.core.errors import RouterError


class KeptLedger:
    """`refuses`: raised at the begin of each attempt; `most`: pieces until the budget is spent."""

    def __init__(
        self,
        *,
        refuses: RouterError | None = None,
        most: int | None = None,
        spent: RouterError | None = None,
    ) -> None:
        self._refuses = refuses
        self._most = most
        self._spent = spent
        self.begun: list[str | None] = []
        self.taken: list[str | bytes] = []
        self.ended: list[tuple[str, bool]] = []

    async def begin(self, model: str | None, timeout_s: float) -> None:
        assert timeout_s > 0
        if self._refuses is not None:
            raise self._refuses
        self.begun.append(model)

    def take(self, data: str | bytes, metadata: Mapping[str, str]) -> None:
        self.taken.append(data)

    def require_budget(self) -> None:
        if self._spent is not None and self._most is not None and len(self.taken) > self._most:
            raise self._spent

    def end(self, status: str, *, was_sent: bool = True) -> None:
        self.ended.append((status, was_sent))
