"""`python -m router` is the command `router`."""

from router.cli import main

main()
