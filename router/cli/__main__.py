"""`python -m router.cli` is the command `router`."""

from router.cli import main

main()
