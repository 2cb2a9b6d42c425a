"""`router policy`: check, write, show, compare and roll back policies, and synchronise them with a
directory.
"""
