"""An index of the identities in silver: the keys of all events that count, in sorted runs. It is built from silver at any time.

    new files of silver ── keys, sorted ──> run ┐
                                            run ┼ eight of similar size ──> one run
                                            run ┘
    identities of a batch ── a binary search in each run ──> the keys of those that silver has

A micro-batch pays for what it looks up and what it adds, not for the size of the tables. Reading all identities of silver for
each batch would cost more with every batch.

    sorted_run      one sorted file of keys, and the search in it
    run_store       the directory of the runs
    identity_index  which runs cover which files of silver
"""

from router.lake.identities.identity_index import IdentityIndex

__all__ = ["IdentityIndex"]
