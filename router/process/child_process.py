"""A program as our own child process: it ends with us, and it is asked to end before it is killed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> Callable[[], None]:
    """For `preexec_fn`: on Linux the kernel ends the child when we are killed, so a crashed router
    leaves nothing behind.
    """

    def ask_the_kernel() -> None:  # in the child, before its image: no signal may be sent from here
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)  # we were gone before the kernel was asked

    return ask_the_kernel


async def stop_process(process: Process, within_s: float) -> None:
    """Ask it to end by SIGTERM, and kill it if it runs on for so long."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
