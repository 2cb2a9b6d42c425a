"""`python -m tests.rigs.canaries`: plays the canaries and prints or writes the page."""

import argparse
from pathlib import Path

from tests.rigs.canaries.page import write_page


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.rigs.canaries", description=__doc__)
    options.add_argument("--count", type=int, default=1000, help="canaries in each cell")
    options.add_argument("--write", type=Path, help="the page; else it is printed")
    chosen = options.parse_args()
    page = write_page(chosen.count)
    if chosen.write is None:
        print(page, end="")
    else:
        chosen.write.write_text(page)


if __name__ == "__main__":
    main()
