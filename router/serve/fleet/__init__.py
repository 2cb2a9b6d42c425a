"""One router as several processes on the same durables, under one parent: `router serve --processes
N`.

merge_snapshots    metrics of several processes merged into one page; pure
ipc                messages between parent and child, over a socket pair; settings are passed only
                   between equal builds
child              the child's side: a whole RouterService without an HTTP port
process            the parent's side of one child process; how long it has said nothing while its
                   parent was awake
process_slot       one of the N places: the process that serves in it, its replacement, its restarts
fleet              the supervision tree; SIGHUP: one slot after the other gets a new process; the
                   pages for operators, the shutdown

The parent handles no messages and holds nothing that a child needs to be correct: if it dies, the
children drain and end.
"""

from __future__ import annotations

from router.serve.fleet.fleet import Fleet

__all__ = ["Fleet"]
