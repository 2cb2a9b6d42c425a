"""A scraper that reads /metrics again and again, until it is ended."""

from __future__ import annotations

import time
import urllib.request

from bench.child import Ready
from bench.question import Measured

PAUSE_S = 0.05


async def scrape(ready: Ready, *, address: str, pause_s: float = PAUSE_S) -> Measured:
    """Scrape, twenty times a second unless told otherwise; `ready` after the first answer. Alone in
    its process, so it may block.
    """
    while True:
        with urllib.request.urlopen(f"{address}/metrics", timeout=5) as page:  # noqa: ASYNC210
            page.read()
        ready()
        time.sleep(pause_s)  # noqa: ASYNC251
