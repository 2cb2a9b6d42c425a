"""`python -m tests.rigs.neighbours.overload`: three times the capacity by one tenant for a minute.

The row `overload` alone, and its noise.
"""

import sys

from tests.rigs.neighbours.__main__ import main

if __name__ == "__main__":
    sys.exit(main(("noise, stored", "overload")))
