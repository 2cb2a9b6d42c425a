"""What a console writes: by the functions of the commands, each with its audit event. Only with
`console.writes`, for who is logged in.

    pages    the pages with their forms, and their addresses

The writes stand in their features: `operate.dead_letters.mend` (replay, edit a copy, discard),
`policies.mend` (put with the optimistic lock, lint, try, roll back), `extensions.mend` (enable,
disable). Their frame is `shell.mend`.

Rule: docs/how-to/console.md#mend.
"""

from router.console.mend.pages import list_routes
from router.shell.mend.runs import MendRuns

__all__ = ["MendRuns", "list_routes"]
