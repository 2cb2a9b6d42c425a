"""Which identities are known: the keys of all events that count, in sorted runs. Made from silver, and again whenever it is wished.

    new files of silver ── keys, sorted ──> run ┐
                                            run ┼ eight of about a size ──> one run
                                            run ┘
    identities that come ── a binary search in each run ──> the keys of those that are known

So a micro-batch pays for what it looks up and what it adds, not for what the tables hold. To read all identities of silver for
each cost more with every batch.

    run     one sorted file of keys, and the search in it
    shelf   where the runs lie
    known   which runs stand for which files of silver
"""

from router.lake.identities.known import Identities

__all__ = ["Identities"]
