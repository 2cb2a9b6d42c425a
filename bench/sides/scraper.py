"""Somebody who reads /metrics, twenty times a second, until ended."""

from __future__ import annotations

import time
import urllib.request

from bench.child import Ready
from bench.question import Measured

PAUSE_S = 0.05


async def scrape(ready: Ready, *, address: str) -> Measured:
    """Scrape; `ready` after the first answer. Nothing else runs in this process, so it may block."""
    while True:
        with urllib.request.urlopen(f"{address}/metrics", timeout=5) as page:  # noqa: ASYNC210
            page.read()
        ready()
        time.sleep(PAUSE_S)  # noqa: ASYNC251
