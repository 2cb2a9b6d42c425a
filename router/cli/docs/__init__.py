"""The pages that an installed package brings: on a port of this machine (`router docs`), or in the terminal (`router docs PAGE`).

`command` is the command, `library` finds the pages, `markup` makes HTML of one, `site` answers a browser.
"""

from router.cli.docs.command import docs

__all__ = ["docs"]
