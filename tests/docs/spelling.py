"""Words of the pages that are misspelt, found by codespell: it knows common mistakes, not every
right word.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

WORDS = Path(__file__).with_name("words.txt")  # right ones that it takes for mistakes


def find_misspelt(pages: Iterable[Path]) -> list[str]:
    """`page:line: wrong ==> right`, one for each."""
    command = (
        sys.executable,
        "-m",
        "codespell_lib",
        "--ignore-words",
        str(WORDS),
        *map(str, pages),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 65), done.stderr
    return done.stdout.splitlines()
