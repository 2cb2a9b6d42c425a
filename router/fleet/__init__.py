"""One router as several processes on the same durables, under one parent: `router serve --workers N`.

adding     expositions of many processes added up into one; pure
build      which code a process runs: settings travel only between equals
line       what parent and worker say to each other, over a socket pair
worker     inside one process: a whole RouterService without a port of its own
process    the same process from outside
seat       one of the N places: whoever holds it, its replacement, its restarts
reload     one seat after the other, when somebody asks for it
fleet      the tree, the pages for operators, the end

A worker here is a process of the router; those that execute assignments are `router.workers`' and `router.sdk`'s.
Nothing that a worker needs to be correct is in the parent, which sees no message: it may die, and the workers drain.
"""

from __future__ import annotations

from router.fleet.fleet import Fleet

__all__ = ["Fleet"]
