"""A budget's document: what is legal, and what a mistake is told (docs/reference/budgets.md#document)."""

import pytest

from router.budgets.model.budget import Budget, BudgetError, parse_budget
from router.contracts.money import NANOS

MINIMAL = {"amount": "10", "window": "day"}


def test_a_budget_has_what_its_document_says() -> None:
    document = {
        "amount": "0.000000001",
        "window": "month",
        "policy": "chat",
        "provider": "openai",
        "then": "downgrade:cheap",
        "created_ms": 7,
    }
    assert parse_budget(document, "acme") == Budget(
        tenant_id="acme",
        amount=1,
        window="month",
        policy_id="chat",
        provider_id="openai",
        downgrade_to="cheap",
        created_ms=7,
    )


def test_without_more_it_is_of_the_whole_tenant_and_denies() -> None:
    assert parse_budget(MINIMAL, "acme") == Budget(
        tenant_id="acme", amount=10 * NANOS, window="day"
    )


@pytest.mark.parametrize("amount", [10, "10", "10.0", "1e1", f"10.{'0' * 29}"])
def test_an_amount_is_text_or_a_whole_number(amount: object) -> None:
    assert parse_budget({**MINIMAL, "amount": amount}, "acme").amount == 10 * NANOS


def test_an_amount_may_be_a_thousand_million() -> None:
    assert parse_budget({**MINIMAL, "amount": "1000000000"}, "acme").amount == 10**18


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        *(
            ({"amount": amount}, "amount")
            for amount in (
                *(0, "0", -1, "-0.5", 2.5, True, None, "nan", "Infinity", "ten", ["1"]),
                *("1000000000.000000001", 1_000_000_001, "0.0000000001", "1.0000000001", "1e400"),
                f"10.{'0' * 30}",
            )
        ),
        *(({"window": window}, "window") for window in ("week", "", None, 1)),
        *(({"created_ms": made}, "created_ms") for made in (-1, True, "1", 1.5)),
        *(({"policy": name}, "policy") for name in ("a b", "", 7, ".a")),
        *(({"provider": name}, "provider") for name in ("a b", "", 7, "_a")),
        *(
            ({"then": then}, "then")
            for then in ("allow", "downgrade:", "downgrade:a b", "cheap", 7, None)
        ),
        ({"amounts": "1"}, "amounts"),
    ],
)
def test_a_mistake_is_named(wrong: dict[str, object], name: str) -> None:
    with pytest.raises(BudgetError, match=rf"^{name}: "):
        parse_budget({**MINIMAL, **wrong}, "acme")


def test_the_earliest_time_at_which_a_budget_can_be_made_is_the_epoch() -> None:
    assert parse_budget({**MINIMAL, "created_ms": 0}, "acme").created_ms == 0


def test_a_tenant_s_name_is_checked_too() -> None:
    with pytest.raises(BudgetError, match=r"^tenant: "):
        parse_budget(MINIMAL, "a b")


@pytest.mark.parametrize(
    ("policy", "provider", "name", "covers"),
    [
        (None, None, "day", [True, True, True]),
        ("chat", None, "day/policy=chat", [True, True, False]),
        (None, "openai", "day/provider=openai", [True, False, True]),
        ("chat", "openai", "day/policy=chat/provider=openai", [True, False, False]),
    ],
)
def test_a_budget_covers_the_decisions_of_its_policy_and_provider(
    policy: str | None, provider: str | None, name: str, covers: list[bool]
) -> None:
    budget = Budget(
        tenant_id="acme", amount=1, window="day", policy_id=policy, provider_id=provider
    )
    decisions = [("chat", "openai"), ("chat", "other"), ("other", "openai")]
    assert budget.budget_id == name
    assert [budget.is_for(*decision) for decision in decisions] == covers
