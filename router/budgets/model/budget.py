"""One budget: its document, read and checked (docs/reference/budgets.md#document), and its windows
of hours, days and months.

{amount, window, policy?, provider?, then, created_ms}      amount is a text or an integer: no float
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from msgspec import Struct

from router.contracts.money import NANOS, round_to_nanos
from router.core import ids
from router.core.errors import RouterError

# -- Windows of budgets: hours, days and months, UTC.


WINDOWS = ("hour", "day", "month")


class BudgetWindow(Struct, frozen=True):
    """From `starts_s` on, before `ends_s`: seconds since the epoch."""

    starts_s: int
    ends_s: int


def find_window(window: str, at_s: float) -> BudgetWindow:
    """The window that a time is in; `window`: one of WINDOWS."""
    at = datetime.fromtimestamp(at_s, UTC).replace(minute=0, second=0, microsecond=0)
    if window == "hour":
        return BudgetWindow(int(at.timestamp()), int((at + timedelta(hours=1)).timestamp()))
    day = at.replace(hour=0)
    if window == "day":
        return BudgetWindow(int(day.timestamp()), int((day + timedelta(days=1)).timestamp()))
    month = day.replace(day=1)
    after = (month + timedelta(days=31)).replace(day=1)
    return BudgetWindow(int(month.timestamp()), int(after.timestamp()))


# -- One budget: its document, read and checked.


MAX_AMOUNT = 1_000_000_000
DENY = "deny"
DOWNGRADE = "downgrade:"
_KEYS = frozenset({"amount", "window", "policy", "provider", "then", "created_ms"})
_MAX_AMOUNT_TEXT = 32
_IDS = "1..128 of A-Z a-z 0-9 _ . : - without . or _ in front"


class BudgetError(RouterError):
    """The document is no budget; the text says what is legal."""

    code = "invalid_budget"


class Budget(Struct, frozen=True, kw_only=True):
    """`amount`: nanos a window. `created_ms`: when its name was first put; a budget that was
    deleted and put again is a new one.
    """

    tenant_id: str
    amount: int
    window: str
    policy_id: str | None = None
    provider_id: str | None = None
    downgrade_to: str | None = None  # None: deny
    created_ms: int = 0

    @property
    def budget_id(self) -> str:
        """Its name, unique within the tenant."""
        return budget_id_of(self.window, self.policy_id, self.provider_id)

    def is_for(self, policy_id: str | None, provider_id: str) -> bool:
        """Whether a decision by this policy for this provider belongs to it."""
        return (self.policy_id is None or self.policy_id == policy_id) and (
            self.provider_id is None or self.provider_id == provider_id
        )


def budget_id_of(window: str, policy_id: str | None, provider_id: str | None) -> str:
    """`day`, `day/policy=chat`, `day/policy=chat/provider=openai`."""
    policy = f"/policy={policy_id}" if policy_id is not None else ""
    return f"{window}{policy}{f'/provider={provider_id}' if provider_id is not None else ''}"


def parse_budget(document: Mapping[str, object], tenant_id: str) -> Budget:
    """Raises BudgetError."""
    if unknown := document.keys() - _KEYS:
        raise BudgetError(f"{min(unknown)}: there is no such key")
    if not ids.is_scoped(tenant_id):
        raise BudgetError(f"tenant: should be {_IDS}")
    window, created_ms = document.get("window"), document.get("created_ms", 0)
    if window not in WINDOWS or not isinstance(window, str):
        raise BudgetError(f"window: should be one of {', '.join(WINDOWS)}")
    if not isinstance(created_ms, int) or isinstance(created_ms, bool) or created_ms < 0:
        raise BudgetError("created_ms: should be milliseconds since the epoch")
    return Budget(
        tenant_id=tenant_id,
        amount=_read_amount(document.get("amount")),
        window=window,
        policy_id=_read_id(document, "policy"),
        provider_id=_read_id(document, "provider"),
        downgrade_to=_read_then(document.get("then", DENY)),
        created_ms=created_ms,
    )


def _read_amount(value: object) -> int:
    legal = f"amount: should be above 0, at most {MAX_AMOUNT}, with at most nine decimal places"
    if (
        isinstance(value, bool)
        or not isinstance(value, int | str)
        or len(str(value)) > _MAX_AMOUNT_TEXT
    ):
        raise BudgetError(legal)
    try:
        amount = Decimal(value)
        nanos = round_to_nanos(amount)
    except (InvalidOperation, ValueError, OverflowError):
        raise BudgetError(legal) from None
    if not 0 < nanos <= MAX_AMOUNT * NANOS or amount != Decimal(nanos).scaleb(-9):
        raise BudgetError(legal)
    return nanos


def _read_id(document: Mapping[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is not None and not (isinstance(value, str) and ids.is_scoped(value)):
        raise BudgetError(f"{name}: should be {_IDS}")
    return value


def _read_then(value: object) -> str | None:
    if value == DENY:
        return None
    if (
        isinstance(value, str)
        and value.startswith(DOWNGRADE)
        and ids.is_scoped(value.removeprefix(DOWNGRADE))
    ):
        return value.removeprefix(DOWNGRADE)
    raise BudgetError("then: should be deny, or downgrade: and a policy's id")
