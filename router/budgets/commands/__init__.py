"""`router budget`: budgets, what is spent of them, and what is corrected."""
