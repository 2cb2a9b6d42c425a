"""Budgets: what a tenant may spend in a window, and what an invocation costs.

model         decides: budgets, slices, reservations, settlement; `model.prices`: what an attempt
              costs. Pure
store         the bucket of budgets, and this process' copy of it
leases        takes slices ahead of decisions
booking       adds each usage event once; `booked_usage` knows which are in, `notices` raises alerts
adjustments   what operators correct, and what they decide of held costs
prices        the bucket of prices, and what is learned of the tokens of texts
commands      `router budget`
"""
