"""`router init` and `router dev`: a small project of a user's own, made in one command and served
while it is written.

init_       the command `router init`: writes the files of `template`
dev         the command `router dev`
dev_server  the router, the extensions and the worker of the project, which files were saved, and
            what follows; request.json
command_process  one `router` command that is started again and again
"""

from __future__ import annotations

from router.cli.project.dev import dev
from router.cli.project.init_ import init

__all__ = ["dev", "init"]
