"""The pages that an installed package brings: on a port of this machine (`router docs`), or in the
terminal (`router docs PAGE`).

`command` is the command, `library` finds the pages, `site` makes HTML of them and answers a
browser.
"""
