"""Budgets: what a tenant may spend in a window, and what an invocation costs.

model         decides: budgets, slices, reservations, settlement; `model.prices`: what an attempt
              costs. Pure
store         the bucket of budgets, and this process' copy of it
leases        takes slices ahead of decisions; `settlement` adds each usage event once, `notices`
              raises alerts
adjustments, held_costs   what operators correct and decide
prices        the bucket of prices, and what is learned of the tokens of texts
commands      `router budget`
"""
