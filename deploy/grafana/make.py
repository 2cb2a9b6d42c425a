"""The dashboards as Grafana reads them, made from `boards/`: `python deploy/grafana/make.py`; a
test keeps dashboards/ equal to it.

What a board shows is written in its file there, a panel a line or two; how Grafana wants to be told
is `drawn`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # beside this file, and in no package

from boards import extensions, gateway, mailbox, overview, usage  # noqa: E402
from drawn import drawn  # noqa: E402

BOARDS = (overview.BOARD, extensions.BOARD, usage.BOARD, mailbox.BOARD, gateway.BOARD)


def made() -> dict[str, str]:
    """File names, and what stands in them."""
    return {
        f"{board.uid}.json": json.dumps(drawn(board), indent=1, ensure_ascii=False) + "\n"
        for board in BOARDS
    }


if __name__ == "__main__":
    for name, text in made().items():
        (HERE / "dashboards" / name).write_text(text)
