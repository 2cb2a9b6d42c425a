"""Strategies at work: four provider processes, two routers, a steady load; one provider becomes
slow, then fails fast, and recovers.

    python -m tests.rigs.strategies --write FILE

`town` runs the routers and providers and asks; `course` says what happens when, and measures it;
`page` writes it down. An oracle knows what each provider does at the moment, and asks only those
that are well. `costs` measures what a decision costs by each strategy.
"""
