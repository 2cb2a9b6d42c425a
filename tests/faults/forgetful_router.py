"""The real router with small memories: `python -m tests.faults.forgetful_router serve`, settings from the environment.

Of decisions, assignments and outcomes a router remembers up to 100 000 each, some 100 MiB, so at a modest rate it grows for half an hour
before it is what it stays. With memories that are full after a minute or two a soak can tell a leak from that.
"""

from typing import Any

ENTRIES = 5_000


def remember_little(memory: Any) -> None:
    """Of this class' objects, unless they are told otherwise."""
    begin = memory.__init__
    memory.__init__ = lambda self, *given, **named: begin(self, *given, **{"limit": ENTRIES, **named})


if __name__ == "__main__":
    from router.assignments.known import KnownMemory
    from router.cli import main
    from router.results.duplicates import Recent

    remember_little(KnownMemory)
    remember_little(Recent)
    main()
