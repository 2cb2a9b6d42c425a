"""The command `router` with a wall clock that can be stepped, as a bad time server would: `python
-m tests.support.clocked serve …`.

SIGUSR1 five minutes ahead, SIGUSR2 five minutes behind, SIGWINCH right again: signals that the
command itself does not hear. The variable CLOCK_AHEAD_S says how many seconds ahead it begins. The
steady clock stays what it is, as on any system.
"""

import os
import signal
import time
from types import FrameType

OFFSETS_S = {signal.SIGUSR1: 300, signal.SIGUSR2: -300, signal.SIGWINCH: 0}

_real_s, _real_ns = time.time, time.time_ns
_offset_s = int(os.environ.get("CLOCK_AHEAD_S", "0"))


def make_steppable() -> None:
    """To be called before anything of the router is imported: it takes its clock from `time` when
    it is.
    """
    time.time = lambda: _real_s() + _offset_s
    time.time_ns = lambda: _real_ns() + _offset_s * 1_000_000_000
    for number in OFFSETS_S:
        signal.signal(number, _step)


def _step(number: int, _: FrameType | None) -> None:
    global _offset_s
    _offset_s = OFFSETS_S[signal.Signals(number)]


if __name__ == "__main__":
    make_steppable()
    from router.cli import main

    main()
