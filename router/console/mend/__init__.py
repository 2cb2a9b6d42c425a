"""What a console writes: by the functions of the commands, each with its audit event. Only with `console.writes`, for who is logged in.

    frame          a form that came: whose it is, may they write, what the next page says
    trail          audit events of the console
    runs           replays and discards, one at a time, with progress and a stop
    dead_letters   replay, edit a copy, discard
    policies       put with the optimistic lock, lint, try, roll back
    extensions     enable, disable
    routes         the addresses

Rule: docs/how-to/console.md#mend.
"""

from router.console.mend.routes import list_routes
from router.shell.mend.runs import MendRuns

__all__ = ["MendRuns", "list_routes"]
