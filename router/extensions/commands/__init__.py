"""`router extension`: read and change the registry, call extensions; and, for authors, try, check
and serve them.
"""
