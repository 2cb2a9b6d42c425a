"""Large blocks are given back, however large the ones before them were."""

import ctypes
import subprocess
import sys

import pytest

LOOK = """
import ctypes
from router.process.memory import LARGE_ALLOCATION, give_large_blocks_back

class Told(ctypes.Structure):  # malloc.h's mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

told = ctypes.CDLL(None).mallinfo2
told.restype = Told
give_large_blocks_back()
bytearray(16 * LARGE_ALLOCATION)  # freed at once
before = told().hblks
block = bytearray(4 * LARGE_ALLOCATION)
print(told().hblks - before)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="a C library that does not tell what it has mapped",
)
def test_a_block_is_mapped_by_itself_though_a_larger_one_was_freed() -> None:
    assert (
        subprocess.run(
            [sys.executable, "-c", LOOK], check=True, capture_output=True, text=True
        ).stdout
        == "1\n"
    )
