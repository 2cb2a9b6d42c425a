"""`router init` and `router dev`: a small project of a user's own, made in one command and served
while it is written.

commands    `router init` writes the files of `template`; `router dev` serves them
dev_server  the router, the extensions and the worker of the project, which files were saved, and
            what follows; request.json
command_process  one `router` command that is started again and again
"""
