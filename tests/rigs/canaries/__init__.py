"""Simulated canaries: how often a candidate that does not differ is rolled back, and how soon one
that is worse is.

    python -m tests.rigs.canaries --write bench/results/canary.md

`simulation` plays one canary outcome by outcome, with the functions that serve requests, and looks
at the verdict after every outcome of the candidate. `page` plays a thousand of each kind. Seeded:
the same command writes the same page.
"""
