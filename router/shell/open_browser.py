"""Opens an address in a browser with windows, if there is one: never one in the terminal, and never
a failure.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from threading import Thread

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_browser(address: str) -> bool:
    """Whether one is asked to. It is asked in a thread, because some browsers keep their caller."""
    if not _has_windows():
        return False
    Thread(target=_open, args=(address,), daemon=True).start()
    return True


def _has_windows() -> bool:
    """On Linux and BSD a display says so: without one, `webbrowser` would put a browser for text
    into the terminal.
    """
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAYS)


def _open(address: str) -> None:
    with suppress(OSError, webbrowser.Error):
        webbrowser.open(address)
