"""The pictures of the front page, taken anew: `python -m tests.docs.site.pictures`.

docs/pictures/demo.svg      what `router demo` prints, its requests and one whole circle
docs/pictures/console.png   the console's first page, beside a router that has answered a few
                            requests (needs chromium)
"""

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from router import Client
from tests.docs.pages import TOP
from tests.support.browser import CHROMIUM, NO_CHROMIUM, a_browser
from tests.support.cli import serve_router
from tests.support.waiting import until

HOME = TOP / "docs" / "pictures"
COLUMNS = 90
SERVE = ("--embedded", "--console", "--http-port", "0", "--nats-port", "0", "--store", "s")
TYPES = ("chat", "summary", "translate")
# As rich draws it, without its web font: a picture asks no other server for anything.
DRAWING = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>What make demo prints</title>
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def draw_demo() -> str:
    environ = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run(
        (sys.executable, "-m", "router.cli", "demo"),
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    head, _, rest = done.stdout.strip("\n").partition("\x1b[1mA malformed request")
    circle = rest[rest.index("\x1b[1mThe whole circle") : rest.index("\x1b[1mAn unreadable result")]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(head + circle.rstrip()))
    return console.export_svg(title="make demo", code_format=DRAWING, unique_id="demo")


async def picture_console(file: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        serve_router(*SERVE, cwd=Path(home), environ={"ROUTER_CONSOLE__PORT": "0"}) as served,
    ):
        assert served.process.stdout is not None
        address = json.loads(await asyncio.to_thread(served.process.stdout.readline))["http"]
        async with a_browser() as browser:
            await browser.show(address, width=1100, height=760)
            await until(
                lambda: browser.evaluate("document.querySelectorAll('.chart canvas').length === 2")
            )
            await ask_for_a_while(served.ready["nats_url"])
            await browser.take_picture(file)


async def ask_for_a_while(url: str) -> None:
    """More and fewer requests, so that the charts have something to show."""
    async with Client(url) as client:
        for second in range(45):
            for number in range(6 + 5 * (second % 7)):
                await client.decide(
                    tenant_id="acme",
                    message_type=TYPES[number % 3],
                    payload="Hello",
                    context={"user_id": f"u-{number}"},
                )
            await asyncio.sleep(1)


if __name__ == "__main__":
    HOME.mkdir(exist_ok=True)
    (HOME / "demo.svg").write_text(draw_demo())
    if CHROMIUM is None:
        sys.exit(NO_CHROMIUM)
    asyncio.run(picture_console(HOME / "console.png"))
