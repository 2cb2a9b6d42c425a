"""Mutants: small faults are put into what decides, one at a time; the nearest tests must notice.

    changes   the faults that a file can have: a comparison swapped, a bound moved, a call dropped
    nearest   the test files that import a module directly or by few steps, nearest first
    trees     a copy of the tree to write a mutant into, and the processes that run tests in it
    forked    such a process: it has imported the tests, and forks for each mutant
    trial     one mutant's way: killed, survived, hangs, no test, or judged
    judged    mutants that no test can notice, or need not; judged.toml gives the reason of each
    report    lines, JSON and the page

`make mutants` runs a sample by seed, `make mutants ALL=1 ONLY=budgets` a whole room.
"""
